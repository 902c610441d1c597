#pragma once

#include "model/architecture.h"

namespace pumice {

Result<std::unique_ptr<ModelDefinition>> open_clip(const ModelFile& file);
Result<std::unique_ptr<ModelDefinition>> open_clip_pictures(const ModelFile& file);

} // namespace pumice
