#pragma once

#include "model/architecture.h"

namespace pumice {

Result<std::unique_ptr<ModelDefinition>> open_m2m100(const ModelFile& file);

} // namespace pumice
