#pragma once

#include "model/architecture.h"

namespace pumice {

Result<std::unique_ptr<ModelDefinition>> open_qwen2(const ModelFile& file);
// The same as the decoder of a model whose pictures have any size.
Result<std::unique_ptr<ModelDefinition>> open_qwen2_that_sees(const ModelFile& file, PictureTokens pictures);

} // namespace pumice
