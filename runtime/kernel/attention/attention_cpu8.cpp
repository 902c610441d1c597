#include <bit>

#include "kernel/attention/attention_variants.h"
#include "kernel/loads.h"
#include "kernel/lowering.h"
#include "kernel/matmul/matmul_variants.h"
#include "shaders/matmul/matmul.params.h"

namespace pumice {

namespace {

// Few heads are divided among at least two workgroups, so that a CPU with two cores uses both.
constexpr uint32_t fewest_groups = 2;

// Whether short inputs see each other in less time than the loops take to compile, unrolled.
bool is_soon_done(const AttentionArgs& args) {
  constexpr uint64_t few = 10'000'000; // multiplications
  const uint64_t rows = args.q.rows, columns = args.heads * args.cache.layout.head_dim;
  return args.mask == AttentionMask::bidirectional && rows * rows * columns <= few;
}

Dispatch prepare(const DeviceProfile& profile, const AttentionArgs& args, const AttentionShape& shape,
                 const std::string& variant) {
  Dispatch dispatch = prepare_attention(args, 8);
  dispatch.kernel = "attention.cpu8." + variant + cache_kernel(args.cache.layout.type);
  // Unrolled loops are up to twice as fast as long as the code stays small. Loads by lane from storage
  // buffers are so much code that they are slower with it, and compiling takes seconds, as it does with
  // texels.
  const uint32_t code = shape.heads * shape.tokens * args.cache.layout.head_dim;
  const bool pays = profile.uniform_loads || (profile.texel_loads && !is_soon_done(args));
  const bool unroll = pays && code <= 256;
  dispatch.set_constant(ATTENTION_HEADS_ID, shape.heads);
  dispatch.set_constant(ATTENTION_TOKENS_ID, shape.tokens);
  dispatch.set_constant(ATTENTION_KEEP_ID, args.sums ? 1 : 0);
  dispatch.set_constant(ATTENTION_UNROLL_ID, unroll ? 1 : 0);
  dispatch.set_constant(ATTENTION_LOAD_ID, fastest_load(profile));
  if (profile.half_loads && args.cache.layout.type == CacheType::f16)
    dispatch.set_constant(ATTENTION_DOT_SUMS_ID, 8);
  finish_attention(dispatch, args, shape);
  return dispatch;
}

// Whether keys and values can come from addresses that all lanes share, which those of a cache that beams
// share cannot. Such loads are made even where no lane is active, so every address must be in the cache: a
// part of one may lack a row's sequence.
bool has_uniform_addresses(const DeviceProfile& profile, const AttentionArgs& args) {
  const CacheLayout& layout = args.cache.layout;
  const bool shared = args.mask == AttentionMask::causal && args.step_layout.positions > 0;
  return profile.uniform_loads && layout.split == CacheSplit::whole && !layout.values_are_keys && !shared;
}

bool half_vectors(const DeviceProfile& profile, const AttentionArgs& args) {
  const CacheLayout& layout = args.cache.layout;
  return profile.half_loads && layout.type == CacheType::f16 && layout.head_dim % 8 == 0 &&
         has_uniform_addresses(profile, args);
}

// Compilers take loads by lane apart for processors without AVX-512.
bool uniform_cache(const DeviceProfile& profile, const AttentionArgs& args) {
  const CacheLayout& layout = args.cache.layout;
  const uint32_t dimensions = layout.type == CacheType::f16 ? 16 : 8; // in eight dwords
  return profile.vector_registers < 32 && (layout.type == CacheType::f32 || layout.type == CacheType::f16) &&
         layout.head_dim % dimensions == 0 && has_uniform_addresses(profile, args);
}

void pass_cache(Dispatch& dispatch, const CacheRef& cache) {
  dispatch.pass_address(sizeof(AttentionParams) + offsetof(QueryParams, keys), cache.keys);
  dispatch.pass_address(sizeof(AttentionParams) + offsetof(QueryParams, values), cache.values);
}

bool runs(const DeviceProfile& profile, const AttentionArgs& args) {
  return profile.cpu8 && !args.chosen;
}

Status lower(Lowering& lowering, const AttentionArgs& args) {
  const AttentionArgs stored = store_first(lowering, args);
  const AttentionShape shape = attention_shape(stored, fewest_groups);
  const DeviceProfile& profile = lowering.profile();
  const CacheLayout& layout = stored.cache.layout;
  const bool carries = layout.split == CacheSplit::positions;
  const uint64_t bytes = uint64_t{stored.q.rows} * stored.heads * (layout.head_dim + 9) * sizeof(float);
  const BufferRef carried = carries ? lowering.temporary(bytes) : BufferRef{};
  AttentionArgs part = stored;
  for (uint32_t i = 0; i < layout.parts(); ++i) {
    part.cache = {layout.part(i), stored.cache.place(i).keys, stored.cache.place(i).values};
    Dispatch dispatch = prepare(profile, part, shape, "");
    dispatch.params.resize(sizeof(AttentionParams) + sizeof(QueryParams));
    if (profile.uniform_loads)
      dispatch.pass_address(sizeof(AttentionParams) + offsetof(QueryParams, q), stored.q.buffer);
    if (half_vectors(profile, stored)) {
      dispatch.kernel = "attention.half8";
      pass_cache(dispatch, part.cache);
    } else if (uniform_cache(profile, stored)) {
      dispatch.set_constant(ATTENTION_CACHE_LOAD_ID, LOAD_UNIFORM);
      pass_cache(dispatch, part.cache);
    }
    if (fastest_load(profile) == LOAD_TEXEL) {
      dispatch.set_constant(ATTENTION_CACHE_LOAD_ID, LOAD_TEXEL);
      dispatch.read_texels(ATTENTION_KEY_TEXELS, ATTENTION_KEYS);
      dispatch.read_texels(ATTENTION_VALUE_TEXELS, ATTENTION_VALUES);
      dispatch.read_texels(ATTENTION_KEY_DWORD_TEXELS, ATTENTION_KEYS);
      dispatch.read_texels(ATTENTION_VALUE_DWORD_TEXELS, ATTENTION_VALUES);
    }
    if (carries) {
      const bool last = i + 1 == layout.parts();
      dispatch.set_constant(ATTENTION_CARRY_ID,
                            carry(layout, i) & (last ? ATTENTION_CARRY_TAKES : UINT32_MAX));
      dispatch.bind(ATTENTION_CARRIED, carried, i == 0 ? Access::write : Access::read_write);
    }
    lowering.emit(std::move(dispatch));
  }
  return {};
}

// What a kernel stores itself it must not read as texels, and where these are fast, the kernel that does is
// faster.
bool rotary_runs(const DeviceProfile& profile, const AttentionArgs& args) {
  return runs(profile, args) && fastest_load(profile) != LOAD_TEXEL && can_store_itself(args);
}

Dispatch prepare_rotary(const DeviceProfile& profile, const AttentionArgs& args) {
  Dispatch dispatch = prepare(profile, args, attention_shape(args, fewest_groups), "rope.");
  store_itself(dispatch, *args.store);
  return dispatch;
}

Status lower_rotary(Lowering& lowering, const AttentionArgs& args) {
  Dispatch dispatch = prepare_rotary(lowering.profile(), args);
  if (half_vectors(lowering.profile(), args)) {
    dispatch.kernel = "attention.half8.rope";
    dispatch.params.resize(sizeof(AttentionParams) + sizeof(QueryParams));
    pass_cache(dispatch, args.cache);
  }
  lowering.emit(std::move(dispatch));
  return {};
}

// Each workgroup computes its own heads' columns of the product, with the product kernel that would be chosen
// anyway. Where there are workgroups for all threads, this is as fast as a product before it and saves a
// barrier. With sixteen registers its sums go through the stack, and it takes longer.
bool projected_runs(const DeviceProfile& profile, const AttentionArgs& args) {
  if (!args.projection || !rotary_runs(profile, args) || profile.threads == 0) return false;
  if (profile.vector_registers < 32) return false;
  if (args.sums || args.sinks || args.bias.buckets > 0) return false;
  const MatmulArgs& product = *args.projection;
  const CacheLayout& layout = args.cache.layout;
  const AttentionShape shape = attention_shape(args, fewest_groups);
  const bool for_all = layout.kv_heads % profile.threads == 0 || layout.kv_heads >= 4 * profile.threads;
  const bool plain = !product.gated && !product.residual && !product.next_norm && !product.selected_by &&
                     product.activation == Activation::none && !product.routing && !product.adapter;
  return for_all && plain && shape.group_workgroups == 1 && layout.type == CacheType::f16 &&
         layout.head_dim % 32 == 0 && chosen_matmul(profile, product) == matmul_cpu8.name;
}

Status lower_projected(Lowering& lowering, const AttentionArgs& args) {
  const DeviceProfile& profile = lowering.profile();
  const MatmulArgs& product = *args.projection;
  const RotaryStoreArgs& store = *args.store;
  Dispatch dispatch = prepare_rotary(profile, args);
  dispatch.kernel = std::string(projecting_attention) + cpu8_kernel_variant(product.format);
  const auto first_tile = [&](const ActivationRef& view) {
    return static_cast<uint32_t>((view.buffer.offset - product.result.buffer.offset) / sizeof(float) / 8);
  };
  const RowScale scale = product.row_scale.value_or(RowScale{1, 0, 0});
  dispatch.set_constant(ATTENTION_EPILOGUE_ID, matmul_epilogue(product));
  dispatch.set_constant(ATTENTION_BLOCKS_ID, product.format.blocks());
  dispatch.set_constant(ATTENTION_K_TILE_ID, first_tile(store.k));
  dispatch.set_constant(ATTENTION_V_TILE_ID, first_tile(store.v));
  dispatch.set_constant(ATTENTION_SCALE_COLUMNS_ID, scale.columns);
  dispatch.set_constant(ATTENTION_SCALE_SUMS_ID, scale.sums_at);
  dispatch.set_constant(ATTENTION_SCALE_EPS_ID, std::bit_cast<uint32_t>(scale.eps));
  dispatch.params.resize(sizeof(AttentionParams) + sizeof(ProjectionParams));
  constexpr size_t addresses = sizeof(AttentionParams);
  if (profile.uniform_loads) {
    dispatch.pass_address(addresses + offsetof(ProjectionParams, weights), product.weight.payload);
    dispatch.pass_address(addresses + offsetof(ProjectionParams, x), product.x.buffer);
  }
  for (Dispatch::Binding& binding : dispatch.bindings) {
    if (binding.slot == ATTENTION_Q) binding = {ATTENTION_Q, product.result.buffer, Access::read_write};
  }
  dispatch.bind(ATTENTION_WEIGHTS, product.weight.payload, Access::read);
  dispatch.bind(ATTENTION_X, product.x.buffer, Access::read);
  if (product.format.scaled()) {
    dispatch.bind(ATTENTION_SCALES, product.weight.scales, Access::read);
    if (profile.uniform_loads)
      dispatch.pass_address(addresses + offsetof(ProjectionParams, scales), product.weight.scales);
  }
  if (product.bias) dispatch.bind(ATTENTION_PROJECTION_BIAS, *product.bias, Access::read);
  Dispatch alone;
  estimate_matmul(alone, product);
  dispatch.flops += alone.flops;
  dispatch.bytes += alone.bytes;
  lowering.emit(std::move(dispatch));
  return {};
}

} // namespace

const KernelVariant<AttentionArgs> attention_cpu8 = {.name = "cpu8",
                                                     .summary = "For CPU drivers: everything in registers",
                                                     .runs = runs,
                                                     .lower = lower,
                                                     .for_cpus = true};
const KernelVariant<AttentionArgs> attention_cpu8_qkv = {
    .name = "cpu8-qkv",
    .summary = "For CPU drivers: as cpu8-rope, and query, key and value are computed in the same kernel",
    .runs = projected_runs,
    .lower = lower_projected,
    .for_cpus = true};
const KernelVariant<AttentionArgs> attention_cpu8_rope = {
    .name = "cpu8-rope",
    .summary = "For CPU drivers: one token, rotated and stored in the cache by the same kernel",
    .runs = rotary_runs,
    .lower = lower_rotary,
    .for_cpus = true};

} // namespace pumice
