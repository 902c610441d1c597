#pragma once

#include "model/architecture.h"

namespace pumice {

Result<std::unique_ptr<ModelDefinition>> open_gpt_oss(const ModelFile& file);

} // namespace pumice
