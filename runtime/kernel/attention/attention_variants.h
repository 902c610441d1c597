#pragma once

#include <functional>

#include "kernel/attention/attention.h"

namespace pumice {

// As attention_cpu8_rope, and the kernel also computes the row's query, key and value.
extern const KernelVariant<AttentionArgs> attention_cpu8_qkv;
// For CPU drivers that run a subgroup as one vector of 8 lanes: steps of one row. The kernel also rotates the
// row and stores its key and value in the cache.
extern const KernelVariant<AttentionArgs> attention_cpu8_rope;
// For the same drivers: everything stays in registers.
extern const KernelVariant<AttentionArgs> attention_cpu8;
// For GPUs and steps of one row: as attention_split_kv, and the kernel also rotates the row and stores its
// key and value in the cache.
extern const KernelVariant<AttentionArgs> attention_rope;
// For GPUs and few rows: as attention_portable, and each span of positions has a workgroup of its own.
extern const KernelVariant<AttentionArgs> attention_split_kv;
// For many rows on devices with cooperative matrices of 16-bit floats.
extern const KernelVariant<AttentionArgs> attention_cm;
// For any device: a workgroup's invocations share the positions.
extern const KernelVariant<AttentionArgs> attention_portable;

// Emits args.store, if it is set, before the attention. Returns the arguments without it.
AttentionArgs store_first(Lowering& lowering, const AttentionArgs& args);
// Whether a kernel can do so itself. Only in steps of one row: with several, a row could read a key before
// another workgroup has stored it.
bool can_store_itself(const AttentionArgs& args);
// Sets the parameters, buffers and specialisation constants of a kernel that does.
void store_itself(Dispatch& dispatch, const RotaryStoreArgs& store);

// The queries of one workgroup. They share its loads; each needs registers, more for larger heads.
struct AttentionShape {
  uint32_t heads = 1;            // of one group
  uint32_t group_workgroups = 1; // workgroups for all heads of a group
  uint32_t tokens = 1;
};
AttentionShape attention_shape(const AttentionArgs& args, uint32_t fewest_groups = 1,
                               uint32_t most_queries = 4);

// Sets the parameters, buffers and specialisation constants that all variants and attention_weights share.
Dispatch prepare_attention(const AttentionArgs& args, uint32_t workgroup, uint32_t context = 0);
// Sets the other buffers, the groups and the cost of a dispatch that writes a result.
void finish_attention(Dispatch& dispatch, const AttentionArgs& args, const AttentionShape& shape);

// Emits what `prepare` makes of each part of the cache. Between parts of positions the kernel keeps its sums
// as one span of each row.
void emit_parts(Lowering& lowering, const AttentionArgs& args,
                const std::function<Dispatch(const AttentionArgs&)>& prepare);
// ATTENTION_CARRY_* of a part whose sums stay sums until all parts have been added.
uint32_t carry(const CacheLayout& whole, uint32_t part);

// The spans of positions that sums were made over.
struct Spans {
  uint32_t span = 0;  // positions of one
  uint32_t count = 0; // the most of one row
  uint32_t first_row = 0;
};
void set_spans(Dispatch& dispatch, uint32_t spans, uint32_t first_row);
// Binds the sums of spans in place of the result.
void bind_spans(Dispatch& dispatch, const BufferRef& sums, Access access);
// Emits what makes the result of the sums of spans.
void emit_combine(Lowering& lowering, const AttentionArgs& args, const BufferRef& sums, const Spans& spans);

} // namespace pumice
