#pragma once

#include "model/architecture.h"

namespace pumice {

Result<std::unique_ptr<ModelDefinition>> open_ernie4_5(const ModelFile& file);

} // namespace pumice
