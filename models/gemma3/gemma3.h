#pragma once

#include "model/architecture.h"

namespace pumice {

Result<std::unique_ptr<ModelDefinition>> open_gemma3(const ModelFile& file);
// The same for prompts with pictures.
Result<std::unique_ptr<ModelDefinition>> open_gemma3_that_sees(const ModelFile& file, PictureTokens pictures);

} // namespace pumice
