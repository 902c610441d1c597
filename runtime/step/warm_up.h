#pragma once

#include "step/batch.h"
#include "step/encoder.h"

namespace pumice {

// Runs steps of each size that a batch needs, in slices, until the costs of all dispatches are known. The
// caches are empty afterwards.
Status warm_up(Batch& batch, Slicer& slicer);

// How often a step runs until its costs are known, and the seconds of a slice.
inline constexpr int warm_up_rounds = 3;
inline constexpr double warm_up_slice_seconds = 1e-3;

// The inputs of steps of each size that an encoder needs: pictures and sounds are blank, and of a text the
// token 0. Steps that may take long are left out.
Result<std::vector<std::vector<EncoderInput>>> blank_steps(Encoder& encoder);

} // namespace pumice
