#pragma once

#include "models/registry.h"

// The encoder of pictures of Pixtral and Mistral 3, which a folder of LLaVA may have too.
namespace pumice {

// Whether config.json says so of its encoder.
bool sees_with_pixtral(const ModelFile& file);
Result<PictureTokens> read_pixtral_tokens(const ModelFile& file);
OpenedDefinition open_pixtral_pictures(const ModelFile& file);

} // namespace pumice
