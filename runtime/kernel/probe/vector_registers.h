#pragma once

#include <cstdint>

namespace pumice {

// How many vectors of 8 floats the processor's registers hold: 32 with AVX-512VL, otherwise 16. A CPU driver
// compiles for the processor that it runs on.
uint32_t vector_registers();

} // namespace pumice
