#pragma once

#include <vector>

#include "models/decoder/decoder.h"

namespace pumice {

// GGUF's key of how many pairs of a head turn with the place in the text, down and across.
inline constexpr const char* place_sections_key = "rope.dimension_sections";

// The same numbers as the file has them: "mrope_section" in config.json, of GGUF's list the first three; else
// the fallback.
Result<std::vector<uint32_t>> read_place_sections(const Settings& settings, std::vector<uint32_t> fallback);

// Makes the rotary positions of a decoder that reads pictures (`d.config.pictures`) places in its text and in
// these, text or interleaved, and refuses a token of pictures that the vocabulary lacks.
Status set_picture_places(const Settings& settings, const std::vector<uint32_t>& sections, PlaceKind kind,
                          Decoder& d);

} // namespace pumice
