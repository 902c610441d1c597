#pragma once

#include <array>
#include <cstdint>

namespace pumice {

// The points of ggml's grids, which the types IQ1, IQ2 and IQ3 have instead of codes. They are a part of
// these formats: no formula makes them.
//   IQ1 and IQ2: eight numbers of two bits, the first in the lowest. IQ1: -1, 0, 1; IQ2: 8, 25, 43
//   IQ3: four numbers of four bits. IQ3_XXS: 4, 12, 20, 28, 36, 44, 52, 62; IQ3_S: 1, 3, 5 up to 15
extern const std::array<uint16_t, 2048> iq1_grid;
extern const std::array<uint16_t, 256> iq2_xxs_grid;
extern const std::array<uint16_t, 512> iq2_xs_grid;
extern const std::array<uint16_t, 1024> iq2_s_grid;
extern const std::array<uint16_t, 256> iq3_xxs_grid;
extern const std::array<uint16_t, 512> iq3_s_grid;

} // namespace pumice
