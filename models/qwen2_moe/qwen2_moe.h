#pragma once

#include "model/architecture.h"

namespace pumice {

Result<std::unique_ptr<ModelDefinition>> open_qwen2_moe(const ModelFile& file);

} // namespace pumice
