#pragma once

#include "model/architecture.h"

namespace pumice {

Result<std::unique_ptr<ModelDefinition>> open_glm4_moe(const ModelFile& file);

} // namespace pumice
