#pragma once

#include "models/decoder/builder.h"

namespace pumice {

// What Gemma 3n and Gemma 4 have of each token for each layer, beside its embedding.

// [tokens, layers * size]: the mean of the token's embedding for each layer, in a table of `rows` rows, and a
// projection of its first embedding, times the square root of two.
TensorId per_layer_inputs(DecoderBuilder& builder, TensorId embedded, uint32_t size, uint32_t rows);
// What the layer makes of its part of these and x: to be added to what the layer gives.
TensorId gated_layer_input(DecoderBuilder& builder, TensorId x, TensorId layer_inputs, uint32_t layer,
                           uint32_t size);

} // namespace pumice
