#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "model/model.h"

namespace pumice {

// Whether the rows of a picture see all of it: no step may then have only some of them.
bool has_bidirectional_pictures(const Model& model);

// The rows of a picture that lie side by side with a position: the first of them, and the one after the last.
// Nothing if the position has none.
std::pair<uint32_t, uint32_t> picture_at(std::span<const uint32_t> tokens, uint32_t at);

// How many of `count` rows from `first` on a step may have, so that no picture is cut.
uint32_t rows_of_whole_pictures(std::span<const uint32_t> tokens, uint32_t first, uint32_t count);

} // namespace pumice
