#include <cstring>

#include "kernel/attention/attention_variants.h"
#include "kernel/lowering.h"
#include "shaders/attention/attention.params.h"

namespace pumice {

AttentionArgs store_first(Lowering& lowering, const AttentionArgs& args) {
  AttentionArgs stored = args;
  if (!args.store) return stored;
  RotaryStoreArgs store = *args.store;
  if (store.heads > 0) {
    stored.q.stride = stored.q.padded_columns();
    stored.q.buffer = lowering.temporary(uint64_t{stored.q.rows} * stored.q.stride * sizeof(float));
    store.result = stored.q;
  }
  emit_rotary_store(lowering, std::move(store));
  stored.store.reset();
  return stored;
}

bool can_store_itself(const AttentionArgs& args) {
  const CacheType type = args.cache.layout.type;
  return args.store && key_type(type) == value_type(type) && args.q.rows == 1 &&
         args.mask == AttentionMask::causal && !args.cache.layout.values_are_keys &&
         args.cache.layout.split == CacheSplit::whole && args.q.buffer.offset % descriptor_alignment == 0;
}

void store_itself(Dispatch& dispatch, const RotaryStoreArgs& store) {
  const RotaryConstants constants = rotary_constants(store);
  dispatch.set_constant(ATTENTION_PAIRS_ID, constants.pairs);
  dispatch.set_constant(ATTENTION_ROTARY_DIM_ID, constants.dim);
  dispatch.set_constant(ATTENTION_NORMS_ID, constants.norms);
  if (constants.growth_length > 0) {
    dispatch.set_constant(ATTENTION_GROWTH_ID, constants.growth);
    dispatch.set_constant(ATTENTION_GROWTH_LENGTH_ID, constants.growth_length);
    dispatch.set_constant(ATTENTION_GROWTH_START_ID, constants.growth_start);
  }
  if (constants.places != ROTARY_PLACES_NONE) {
    dispatch.set_constant(ATTENTION_PLACES_ID, constants.places);
    dispatch.set_constant(ATTENTION_TEXT_PAIRS_ID, constants.text_pairs);
    dispatch.set_constant(ATTENTION_DOWN_PAIRS_ID, constants.down_pairs);
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
}

} // namespace pumice
