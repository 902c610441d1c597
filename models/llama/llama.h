#pragma once

#include "model/architecture.h"

namespace pumice {

struct Biases;
struct DecoderConfig;

Result<std::unique_ptr<ModelDefinition>> open_llama(const ModelFile& file);
// LLaMA's layers, for a model that they are a part of.
std::unique_ptr<ModelDefinition> make_llama(DecoderConfig config, bool gguf, const Biases& biases);

} // namespace pumice
