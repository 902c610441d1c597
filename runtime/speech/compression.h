#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace pumice {

// How many times smaller a text becomes by DEFLATE, as zlib.compress() of Python has it, within some percent:
// the bytes are counted, not written. A decoder that repeats itself writes what compresses well (Radford et
// al. 2022). An empty text has a ratio of 0.
double compression_ratio(std::string_view text);

} // namespace pumice
