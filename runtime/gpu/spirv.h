#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace pumice {

// What is read of compiled kernels, from their code.

// Whether a kernel declares subgroup operations or cooperative matrices.
bool uses_subgroups(std::span<const uint32_t> code);
// The axes along which a kernel asks how many workgroups there are (gl_NumWorkGroups).
std::array<bool, 3> counted_axes(std::span<const uint32_t> code);

} // namespace pumice
