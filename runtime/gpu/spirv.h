#pragma once

#include <array>

#include "gpu/kernel_table.h"

namespace pumice {

// What is read of compiled kernels.

// Whether a kernel declares subgroup operations or cooperative matrices.
bool uses_subgroups(const KernelBinary& kernel);
// The axes along which a kernel asks how many workgroups there are (gl_NumWorkGroups).
std::array<bool, 3> counted_axes(const KernelBinary& kernel);

} // namespace pumice
