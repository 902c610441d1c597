#pragma once

#include "model/architecture.h"

namespace pumice {

Result<std::unique_ptr<ModelDefinition>> open_qwen2_5_vl(const ModelFile& file);
Result<std::unique_ptr<ModelDefinition>> open_qwen2_5_vl_pictures(const ModelFile& file);

} // namespace pumice
