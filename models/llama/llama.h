#pragma once

#include "model/architecture.h"

namespace pumice {

struct Biases;
struct DecoderConfig;

Result<std::unique_ptr<ModelDefinition>> open_llama(const ModelFile& file);
// The same in GGUF for prompts with pictures.
Result<std::unique_ptr<ModelDefinition>> open_llama_that_sees(const ModelFile& file, PictureTokens pictures);
// LLaMA's layers, for a model that they are a part of.
std::unique_ptr<ModelDefinition> make_llama(DecoderConfig config, bool gguf, const Biases& biases);

} // namespace pumice
