#pragma once

#include "model/architecture.h"

namespace pumice {

Result<std::unique_ptr<ModelDefinition>> open_qwen3_next(const ModelFile& file);

} // namespace pumice
