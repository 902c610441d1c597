#pragma once

#include <algorithm>
#include <cstring>

#include "kernel/activation_ref.h"
#include "kernel/lowering.h"
#include "kernel/recurrence/recurrence.h"
#include "kernel/variant.h"

namespace pumice {

struct DeltaRuleArgs {
  const DeltaRule& shape;
  ActivationRef query, key, value, gates, result;
  StateRef state;
  uint32_t sequences = 1; // that the rows may belong to
};

struct SelectiveScanArgs {
  const SelectiveScan& shape;
  ActivationRef x, b, c, steps, result;
  BufferRef weights;
  StateRef state;
  uint32_t sequences = 1; // that the rows may belong to
};

// For CPU drivers that run a subgroup as one vector of 8 lanes: a run's states stay in registers.
extern const KernelVariant<DeltaRuleArgs> delta_rule_cpu8;
extern const KernelVariant<SelectiveScanArgs> selective_scan_cpu8;
// For GPUs and many rows of a sequence: chunks of rows by products of matrices, see
// shaders/recurrence/chunks.params.h.
extern const KernelVariant<DeltaRuleArgs> delta_rule_chunked;
extern const KernelVariant<SelectiveScanArgs> selective_scan_chunked;
// For any device: a channel of a run to an invocation, one position after the other.
extern const KernelVariant<DeltaRuleArgs> delta_rule_portable;
extern const KernelVariant<SelectiveScanArgs> selective_scan_portable;

std::span<const KernelVariant<DeltaRuleArgs>* const> delta_rule_variants();
std::span<const KernelVariant<SelectiveScanArgs>* const> selective_scan_variants();

Error does_not_fit(const Operation& operation, const std::string& what);
// From one of several vectors in a buffer to the next.
uint32_t weight_stride(uint32_t count);

// Of one number of a result.
struct ChannelCost {
  double flops = 0;
  double bytes = 0;
};
// The most runs that a step of so many rows has. Kernels look for the runs among the rows: each row's
// workgroups are idle unless a run begins there. A single sequence has one run, which begins with the step.
uint32_t most_runs(const Lowering& lowering, uint32_t rows);
// Workgroups for each run, and as many of its channels as they have invocations, or `channels`.
void set_channel_work(Dispatch& dispatch, const Lowering& lowering, const ActivationRef& result,
                      const ChannelCost& cost, uint32_t channels = 0);

// Rows of a dispatch whose invocations go round so many loops for each row. Lavapipe ends an invocation's
// loops without a word after 65,535 rounds of all of them together.
uint32_t rows_of_part(const DeviceProfile& profile, uint32_t rows, uint32_t loops_per_row);

// Emits a dispatch for each part of the rows, one after the other; each goes on from the states that the one
// before left.
template <class Params>
void emit_in_parts(Lowering& lowering, const Dispatch& whole, uint32_t rows, uint32_t loops_per_row) {
  const uint32_t most = rows_of_part(lowering.profile(), rows, loops_per_row);
  for (uint32_t first = 0; first < rows; first += most) {
    Dispatch part = whole;
    Params params;
    std::memcpy(&params, part.params.data(), sizeof(params));
    params.first_row = first;
    params.end_row = std::min(rows, first + most);
    part.set_params(params);
    const uint32_t count = params.end_row - first;
    if (part.groups[0] > 1) part.groups[0] = count; // a workgroup for each row
    part.flops *= static_cast<double>(count) / rows;
    part.bytes *= static_cast<double>(count) / rows;
    lowering.emit(std::move(part));
  }
}

// How the kernels for CPU drivers have their states in registers.
struct VectorShape {
  uint32_t size = 0;     // of a channel's state
  uint32_t channels = 1; // of a workgroup, all of one head
  bool uniform = false;  // whole vectors, which are loaded by address
};
bool fits_vectors(const DeviceProfile& profile, uint32_t size);
VectorShape vector_shape(const DeviceProfile& profile, uint32_t size, uint32_t head_dim);

} // namespace pumice
