#pragma once

#include "model/architecture.h"

namespace pumice {

Result<std::unique_ptr<ModelDefinition>> open_wav2vec2(const ModelFile& file);

} // namespace pumice
