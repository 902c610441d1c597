#include <algorithm>
#include <bit>

#include "kernel/attention/attention_variants.h"
#include "kernel/lowering.h"

namespace pumice {

namespace {

// An invocation adds up some dimensions of a head; the workgroup covers at least one head.
uint32_t workgroup_size(const DeviceProfile& profile, const CacheLayout& layout) {
  const uint32_t chunks = layout.head_dim_padded() / (value_type(layout.type) == CacheType::f32 ? 4 : 8);
  return std::max(profile.cpu ? profile.workgroup : 2 * profile.workgroup, std::bit_ceil(chunks));
}

// Positions of a span, whose sums are made before the spans are added up. It is the same with and without
// splitting, so both give the same bits. An input is never divided, because it can begin anywhere.
// On a GPU each position of a span is an invocation's, so that no workgroup goes through blocks one by one.
uint32_t causal_span(const DeviceProfile& profile, uint32_t workgroup) {
  return profile.cpu ? (256 + workgroup - 1) / workgroup * workgroup : workgroup;
}

uint32_t span(const DeviceProfile& profile, uint32_t workgroup, const AttentionArgs& args) {
  return args.mask == AttentionMask::causal ? causal_span(profile, workgroup) : workgroup << 20;
}

uint32_t most_seen(const AttentionArgs& args) {
  const uint32_t capacity = args.cache.layout.capacity;
  return args.window > 0 ? std::min(args.window, capacity) : capacity;
}

// The most spans that the positions of one row can lie in.
uint32_t spans(uint32_t span, const AttentionArgs& args) {
  const uint32_t seen = most_seen(args);
  return args.window == 0 ? (seen + span - 1) / span : (seen + span - 2) / span + 1;
}

AttentionShape shape_of(const DeviceProfile& profile, const AttentionArgs& args, uint32_t fewest_groups = 1) {
  const bool small = args.cache.layout.head_dim <= 32;
  return attention_shape(args, fewest_groups, small ? profile.registers.small_head_queries : 4);
}

Dispatch prepare(const DeviceProfile& profile, const AttentionArgs& args, const AttentionShape& shape,
                 uint32_t split) {
  const uint32_t workgroup = workgroup_size(profile, args.cache.layout);
  Dispatch dispatch = prepare_attention(args, workgroup);
  dispatch.kernel = "attention_portable." + cache_kernel(args.cache.layout.type);
  dispatch.set_constant(ATTENTION_HEADS_ID, shape.heads);
  dispatch.set_constant(ATTENTION_TOKENS_ID, shape.tokens);
  dispatch.set_constant(ATTENTION_KEEP_ID, args.sums ? 1 : 0);
  dispatch.set_constant(ATTENTION_SPAN_ID, span(profile, workgroup, args));
  dispatch.set_constant(ATTENTION_SPLIT_ID, split);
  // Other shapes have branches in their loops, for which compilers keep what was loaded in memory.
  const CacheType type = args.cache.layout.type;
  const bool straight = split > 0 && shape.tokens == 1 && !is_scaled(type);
  if (straight && !profile.cpu) dispatch.set_constant(ATTENTION_AHEAD_ID, profile.registers.attention_loads);
  finish_attention(dispatch, args, shape);
  if (args.store) {
    dispatch.kernel = "attention_portable.rope." + cache_kernel(type);
    store_itself(dispatch, *args.store);
  }
  return dispatch;
}

bool runs(const DeviceProfile&, const AttentionArgs&) {
  return true;
}

Status lower(Lowering& lowering, const AttentionArgs& args) {
  const AttentionArgs stored = store_first(lowering, args);
  emit_parts(lowering, stored, [&](const AttentionArgs& part) {
    return prepare(lowering.profile(), part, shape_of(lowering.profile(), part), 0);
  });
  return {};
}

// Bytes of the sums over the spans of one row.
uint64_t span_sum_bytes(const DeviceProfile& profile, const AttentionArgs& args) {
  const CacheLayout& layout = args.cache.layout;
  const uint32_t count = spans(span(profile, workgroup_size(profile, layout), args), args);
  return uint64_t{args.heads} * count * (layout.head_dim + 2) * sizeof(float);
}

// Splitting pays only if one workgroup for each group of heads would leave the device idle.
bool split_runs(const DeviceProfile& profile, const AttentionArgs& args) {
  const uint32_t workgroup = workgroup_size(profile, args.cache.layout);
  if (args.mask != AttentionMask::causal || most_seen(args) <= span(profile, workgroup, args)) return false;
  if (span_sum_bytes(profile, args) > profile.range_bytes) return false;
  const uint32_t groups = args.q.rows * args.cache.layout.kv_heads * shape_of(profile, args).group_workgroups;
  return profile.forced == attention_split_kv.name || groups < profile.busy_groups;
}

// Whether the last workgroup of a row and heads can add up their spans. What takes its buffers' places cannot
// be.
bool last_adds_up(const AttentionArgs& args, const AttentionShape& shape) {
  const CacheLayout& layout = args.cache.layout;
  return !args.sums && !args.chosen && args.bias.buckets == 0 && layout.split == CacheSplit::whole &&
         uint64_t{args.q.rows} * layout.kv_heads * shape.group_workgroups <= StepLayout::counters;
}

// `args` has some of the step's rows: from `first_row` on.
void emit_split(Lowering& lowering, const AttentionArgs& args, uint32_t first_row,
                const BufferRef& span_sums) {
  const DeviceProfile& profile = lowering.profile();
  const CacheLayout& layout = args.cache.layout;
  const uint32_t span = pumice::span(profile, workgroup_size(profile, layout), args),
                 count = spans(span, args);
  // After few tokens there is one span: a large device then has more workgroups of fewer heads.
  const AttentionShape shape = shape_of(profile, args, profile.cores / 8);
  const bool last = last_adds_up(args, shape);
  AttentionArgs part = args;
  for (const CacheRef& cache : args.cache.parts()) {
    part.cache = cache;
    Dispatch each = prepare(profile, part, shape, last ? ATTENTION_SPLIT_LAST : ATTENTION_SPLIT_APART);
    set_spans(each, count, first_row);
    // A part of positions goes over its own spans, the others over those that a row sees.
    each.groups[2] = layout.split == CacheSplit::positions ? layout.part_size / span : count;
    bind_spans(each, span_sums, Access::write);
    if (last) {
      each.bind(ATTENTION_RESULT, args.result.buffer, Access::write);
      each.bind(ATTENTION_COUNTERS, lowering.counters(), Access::read_write);
    }
    lowering.emit(std::move(each));
  }
  if (!last) emit_combine(lowering, args, span_sums, {span, count, first_row});
}

// Its buffers are more than every device has.
bool rope_runs(const DeviceProfile& profile, const AttentionArgs& args) {
  return profile.storage_buffers > ATTENTION_TABLE && can_store_itself(args);
}

Status lower_rope(Lowering& lowering, const AttentionArgs& args) {
  const DeviceProfile& profile = lowering.profile();
  if (split_runs(profile, args)) {
    emit_split(lowering, args, 0, lowering.temporary(span_sum_bytes(profile, args)));
  } else {
    lowering.emit(prepare(profile, args, shape_of(profile, args), 0));
  }
  return {};
}

// Rows are divided evenly among as many dispatches as it takes for a binding to reach the sums of each.
Status lower_split(Lowering& lowering, const AttentionArgs& args) {
  AttentionArgs stored = store_first(lowering, args);
  stored.one_sequence = false; // one row for each workgroup: rows have different spans
  const uint64_t row_bytes = span_sum_bytes(lowering.profile(), stored);
  const uint32_t rows = stored.q.rows;
  const uint64_t most = lowering.profile().range_bytes / row_bytes, parts = (rows + most - 1) / most;
  const uint32_t each = static_cast<uint32_t>((rows + parts - 1) / parts);
  const BufferRef span_sums = lowering.temporary(each * row_bytes);
  for (uint32_t first = 0; first < rows; first += each) {
    stored.q.rows = std::min(each, rows - first);
    emit_split(lowering, stored, first, span_sums.at(0, stored.q.rows * row_bytes));
  }
  return {};
}

} // namespace

uint32_t attention_block(const DeviceProfile& profile, const CacheLayout& layout, bool causal) {
  const uint32_t workgroup = workgroup_size(profile, layout); // a multiple of the other variants' tiles
  const bool spans =
      !profile.cpu8 || profile.forced == attention_portable.name; // the variant for CPUs has none
  return causal && spans ? causal_span(profile, workgroup) : workgroup;
}

const KernelVariant<AttentionArgs> attention_rope = {
    "rope", "For GPUs: one token, rotated and stored in the cache by the kernel that attends", rope_runs,
    lower_rope};
const KernelVariant<AttentionArgs> attention_split_kv = {
    "split-kv", "For GPUs: few tokens and a long cache, which is divided among workgroups", split_runs,
    lower_split};
const KernelVariant<AttentionArgs> attention_portable = {.name = "portable",
                                                         .summary = "For any device: the plain kernel",
                                                         .runs = runs,
                                                         .lower = lower,
                                                         .for_cpus = true};

} // namespace pumice
