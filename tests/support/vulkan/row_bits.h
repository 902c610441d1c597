#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "kernel/device_context.h"

// On CPU drivers a row has the same bits in steps of any size. On GPUs few rows and many take different
// kernels, whose sums have other orders (runtime/README.md, "Which bits are the same"). Tests that compare
// steps of several sizes do it here.

// Whether two results of steps of several sizes are the same: to the bit on CPU drivers, elsewhere within
// what models' answers are held to.
bool same_in_any_step(std::span<const float> a, std::span<const float> b);
bool same_in_any_step(const std::map<std::string, std::vector<float>>& a,
                      const std::map<std::string, std::vector<float>>& b);

// A device on which steps of all sizes take the same kernels, for comparing bits: on a GPU those for any
// device.
pumice::DeviceContext one_kernel_context(pumice::DeviceContext context);
