#include <cstring>

#include "kernel/attention_variants.h"
#include "plan/lowering.h"

namespace pumice {

namespace {

// A step of few heads is cut so that a CPU of two cores has something to do for each.
constexpr uint32_t fewest_groups = 2;

Dispatch prepare(const KernelStyle& style, const AttentionArgs& args, const AttentionShape& shape,
                 const std::string& variant) {
  Dispatch dispatch = prepare_attention(args, 8);
  dispatch.kernel = "attention.lane8." + variant + to_string(args.cache.layout.type);
  // Compilers that know uniform loads (Mesa 26's) make up to twice as fast a kernel of unrolled loops, as
  // long as its code stays small. Older ones make a slower one of them, and take seconds for it.
  const bool unroll = style.uniform_loads && shape.heads * shape.tokens * args.cache.layout.head_dim <= 256;
  for (uint32_t constant : {shape.heads, shape.tokens, args.sums ? 1u : 0u, unroll ? 1u : 0u}) {
    dispatch.constants.push_back(constant);
  }
  finish_attention(dispatch, args, shape);
  return dispatch;
}

bool runs(const KernelStyle& style, const AttentionArgs&) {
  return style.lane8;
}

Status lower(Lowering& lowering, const AttentionArgs& args) {
  const AttentionArgs stored = store_first(lowering, args);
  const AttentionShape shape = attention_shape(stored, fewest_groups);
  lowering.emit(prepare(lowering.style(), stored, shape, ""));
  return {};
}

// Only a row that is alone finds all that it sees in the cache before others have stored theirs.
bool rotary_runs(const KernelStyle& style, const AttentionArgs& args) {
  return style.lane8 && args.store && args.q.rows == 1 && args.sight == Sight::past &&
         args.q.buffer.offset % descriptor_alignment == 0;
}

Status lower_rotary(Lowering& lowering, const AttentionArgs& args) {
  const RotaryStoreArgs& store = *args.store;
  Dispatch dispatch = prepare(lowering.style(), args, attention_shape(args, fewest_groups), "rotary.");
  const RotaryConstants constants = rotary_constants(store);
  for (uint32_t constant : {constants.pairs, constants.dim, constants.norms}) {
    dispatch.constants.push_back(constant);
  }
  AttentionParams params;
  std::memcpy(&params, dispatch.params.data(), sizeof(params));
  params.k_stride = store.k.stride;
  params.v_stride = store.v.stride;
  params.magnitude = store.magnitude;
  params.norm_eps = store.norm_eps;
  params.norm_offset = store.norm_offset;
  dispatch.set_params(params);
  dispatch.bind(ATTENTION_K, store.k.buffer, Access::read);
  dispatch.bind(ATTENTION_V, store.v.buffer, Access::read);
  if (constants.reads_table()) dispatch.bind(ATTENTION_TABLE, store.table, Access::read);
  lowering.emit(std::move(dispatch));
  return {};
}

} // namespace

const KernelVariant<AttentionArgs> attention_lane8 = {"lane8", runs, lower};
const KernelVariant<AttentionArgs> attention_rotary = {"rotary", rotary_runs, lower_rotary};

} // namespace pumice
