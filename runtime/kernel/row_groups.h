#pragma once

#include <algorithm>

#include "kernel/activation_ref.h"
#include "kernel/style.h"

namespace pumice {

// Workgroups to a row of a result whose columns do not depend on each other, by fours: on a GPU a few of
// those to an invocation.
inline uint32_t row_groups(const KernelStyle& style, const ActivationRef& result) {
  const uint32_t quads = result.padded_columns() / 4;
  return style.lane8 ? 1 : std::max(1u, quads / (style.workgroup * 4));
}

} // namespace pumice
