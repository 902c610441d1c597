#pragma once

#include <initializer_list>
#include <string>
#include <utility>

#include "kernel/lowering.h"
#include "kernel/row_groups.h"

namespace pumice {

// A launch of a kernel that has workgroups of their own for each row of its result, which is its buffer
// `slot`. What such kernels have in common: the size of a workgroup is constant 0, before `constants`, the
// step block is buffer 0, and by default they read as many numbers as they write.
inline Dispatch row_launch(const Lowering& lowering, std::string kernel, uint32_t slot,
                           const ActivationRef& result, std::initializer_list<uint32_t> constants = {}) {
  Dispatch dispatch;
  dispatch.kernel = std::move(kernel);
  dispatch.constants = {lowering.profile().workgroup};
  dispatch.constants.insert(dispatch.constants.end(), constants);
  dispatch.bind(0, lowering.step(), Access::read);
  dispatch.bind(slot, result.buffer, Access::write);
  dispatch.groups = {result.rows, row_groups(lowering.profile(), result), 1};
  dispatch.bytes = 8.0 * result.rows * result.columns;
  return dispatch;
}

} // namespace pumice
