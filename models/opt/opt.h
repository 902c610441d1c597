#pragma once

#include "model/architecture.h"

namespace pumice {

Result<std::unique_ptr<ModelDefinition>> open_opt(const ModelFile& file);

} // namespace pumice
