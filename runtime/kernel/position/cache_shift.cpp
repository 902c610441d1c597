#include "kernel/position/cache_shift.h"

#include "shaders/position/cache_shift.params.h"

namespace pumice {

Dispatch cache_shift(const DeviceProfile& profile, const CacheShiftArgs& args) {
  const CacheLayout& cache = args.cache.layout;
  const bool rotates = args.pairs != RotaryPairs::none && args.rotary_dim > 0;
  Dispatch dispatch;
  dispatch.kernel = std::string("cache_shift.") + to_string(cache.type);
  dispatch.constants = {profile.workgroup, rotates ? static_cast<uint32_t>(args.pairs) : ROTARY_PAIRS_NONE,
                        rotates ? args.rotary_dim : 0, cache.head_dim_padded()};
  dispatch.set_params(
      CacheShiftParams{cache.kv_heads, cache.capacity, args.sequence, args.first, args.distance, 0});
  if (rotates) dispatch.bind(SHIFT_TABLE, args.table, Access::read);
  dispatch.bind(SHIFT_KEYS, args.cache.keys, Access::read_write);
  dispatch.bind(SHIFT_VALUES, args.cache.values, Access::read_write);
  dispatch.groups = {args.count, cache.kv_heads, cache.values_are_keys ? 1u : 2u};
  const uint64_t tile = cache.key_tile_bytes() + (cache.values_are_keys ? 0 : cache.value_tile_bytes());
  dispatch.bytes = 2.0 * args.count * static_cast<double>(tile) / 8 * cache.kv_heads;
  return dispatch;
}

} // namespace pumice
