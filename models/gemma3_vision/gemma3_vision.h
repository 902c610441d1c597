#pragma once

#include "model/architecture.h"

namespace pumice {

Result<std::unique_ptr<ModelDefinition>> open_gemma3_vision(const ModelFile& file);
Result<std::unique_ptr<ModelDefinition>> open_gemma3_pictures(const ModelFile& file);

} // namespace pumice
