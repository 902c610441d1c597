#pragma once

#include "tuning/kernel_case.h"

namespace pumice {

// An operation with a state, for checking the kernels of its family.
struct RecurrenceCase {
  enum class Kind { delta_rule, selective_scan };
  Kind kind = Kind::delta_rule;
  uint32_t groups =
      1;              // of heads that share what a state is changed and read with: the delta rule's key heads
  uint32_t size = 16; // of a channel's state: the delta rule's keys
  uint32_t heads = 1, head_dim = 16;
  uint32_t past = 0; // positions before, after which the state is kept
  uint32_t rows = 1;
  bool wide = false; // a scan's rates, see SelectiveScan

  const char* family() const { return kind == Kind::delta_rule ? "delta_rule" : "selective_scan"; }
  std::string name() const;
  std::unique_ptr<KernelCase> make() const;
};

} // namespace pumice
