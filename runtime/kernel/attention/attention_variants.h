#pragma once

#include "kernel/attention/attention.h"

namespace pumice {

// As the next one, and it makes the row's query, key and value too.
extern const KernelVariant<AttentionArgs> attention_projected;
// For CPU drivers that run a subgroup as one vector of 8 lanes: a step's one row, whose key and value the
// kernel puts into the cache itself.
extern const KernelVariant<AttentionArgs> attention_rotary;
// For the same drivers: everything stays in registers.
extern const KernelVariant<AttentionArgs> attention_cpu8;
// For GPUs and few rows: as the next one, and each span of positions has a workgroup of its own.
extern const KernelVariant<AttentionArgs> attention_split;
// For many rows on devices that multiply matrices of halves.
extern const KernelVariant<AttentionArgs> attention_cm;
// For any device: a workgroup's invocations share the positions.
extern const KernelVariant<AttentionArgs> attention_base;

// A descriptor begins at a multiple of this on every device.
constexpr uint64_t descriptor_alignment = 256;

// The arguments once what has to be stored first has been emitted.
AttentionArgs store_first(Lowering& lowering, const AttentionArgs& args);

// How many queries one workgroup takes: they share its loads, and each needs registers by the head's size.
struct AttentionShape {
  uint32_t heads = 1; // of one group
  uint32_t parts = 1; // workgroups for all heads of a group
  uint32_t tokens = 1;
};
AttentionShape attention_shape(const AttentionArgs& args, uint32_t fewest_groups = 1);

// What all variants and attention_weights tell their kernels, the buffers that all of them use and the first
// specialisation constants.
Dispatch prepare_attention(const AttentionArgs& args, uint32_t workgroup, uint32_t context = 0);
// The other buffers, the groups and the cost of those that leave a result.
void finish_attention(Dispatch& dispatch, const AttentionArgs& args, const AttentionShape& shape);

} // namespace pumice
