#pragma once

#include "model/architecture.h"

namespace pumice {

Result<std::unique_ptr<ModelDefinition>> open_llava(const ModelFile& file);
Result<std::unique_ptr<ModelDefinition>> open_llava_pictures(const ModelFile& file);

} // namespace pumice
