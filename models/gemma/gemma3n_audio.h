#pragma once

#include <span>

#include "models/registry.h"

namespace pumice {

// The encoder of Gemma 3n's sounds, of a folder that has it.
OpenedDefinition open_gemma3n_sounds(const ModelFile& file);

// How the embedder of pictures or of sounds makes one of the decoder's embeddings of a token of its own: the
// product of its norm with `matrix`, before the last norm.
void project_token(std::span<const float> table, uint64_t token, std::span<const float> norm,
                   std::span<const float> matrix, uint64_t columns, float eps, std::span<float> to);

} // namespace pumice
