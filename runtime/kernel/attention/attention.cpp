#include "kernel/attention/attention.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "kernel/attention/attention_variants.h"
#include "kernel/lowering.h"

namespace pumice {

namespace {

constexpr std::array variants = {&attention_cpu8_qkv, &attention_cpu8_rope, &attention_cpu8,
                                 &attention_rope,     &attention_split_kv,  &attention_cm,
                                 &attention_portable};

// An estimate: a plan does not know how full the cache will be, so this takes it as half full.
double positions_seen(const AttentionArgs& args) {
  const uint32_t half = args.cache.layout.capacity / 2;
  const uint32_t sides = args.mask == AttentionMask::bidirectional ? 2 : 1;
  return args.window > 0 ? std::min(half, args.window * sides) : half;
}

// Caches are measured in classes of lengths: powers of two, and all above the longest one together.
uint32_t capacity_class(uint32_t capacity) {
  constexpr uint32_t shortest = 256, longest = 4096;
  return std::clamp(std::bit_ceil(capacity), shortest, longest);
}

// ATTENTION_BIASED_ID's value.
uint32_t biased(const AttentionArgs& args) {
  if (args.bias_scores) return 2;
  if (args.bias.by_place()) return 3;
  return args.bias.buckets > 0 ? 1 : 0;
}

} // namespace

Dispatch prepare_attention(const AttentionArgs& args, uint32_t workgroup, uint32_t context) {
  const CacheLayout& layout = args.cache.layout;
  assert(args.heads % layout.kv_heads == 0);
  assert(args.q.columns == args.heads * layout.head_dim);
  const BoundView q = bound_view(args.q);

  AttentionParams params = {};
  params.q_first = q.first;
  params.q_stride = args.q.stride;
  params.result_stride = args.result.stride;
  params.sums_stride = args.sums ? args.sums->stride : 0;
  params.heads = args.heads;
  params.kv_heads = layout.kv_heads;
  params.capacity = layout.stored_positions();
  params.position_limit = layout.position_limit();
  params.window = args.window;
  params.context = context;
  params.details = args.step_layout.details();
  params.sequence_quads = args.step_layout.sequence_quads();
  params.cache_indirection = args.step_layout.cache_indirection();
  params.indirection_entries = args.step_layout.indirection_entries();
  params.sequences = layout.stored_sequences();
  params.max_distance = args.bias.max_distance;
  params.scale = args.soft_cap > 0 ? args.scale / args.soft_cap : args.scale;
  params.cap = args.soft_cap;
  params.part_first = layout.part_first;

  Dispatch dispatch;
  dispatch.set_params(params);
  const bool beams = args.mask == AttentionMask::causal && args.step_layout.positions > 0;
  const uint32_t shared = layout.pages ? cache_page_positions : beams ? 1 : 0;
  dispatch.constants = {
      workgroup,    layout.head_dim, args.soft_cap > 0 ? 1u : 0u, static_cast<uint32_t>(args.mask),
      biased(args), shared};
  if (args.chunked) dispatch.set_constant(ATTENTION_CHUNKED_ID, 1);
  if (args.whole_pictures) dispatch.set_constant(ATTENTION_PICTURES_ID, 1);
  if (args.patch_windows) dispatch.set_constant(ATTENTION_PATCH_WINDOWS_ID, 1);
  if (args.run > 0) dispatch.set_constant(ATTENTION_RUN_ID, args.run);
  if (args.joined > 1) dispatch.set_constant(ATTENTION_JOINED_ID, args.joined);
  if (layout.split != CacheSplit::whole)
    dispatch.set_constant(ATTENTION_PARTS_ID, static_cast<uint32_t>(layout.split));
  if (layout.values_are_keys) dispatch.set_constant(ATTENTION_VALUES_ARE_KEYS_ID, 1);
  if (args.sinks) {
    dispatch.set_constant(ATTENTION_SINKS_ID, 1);
    dispatch.bind(ATTENTION_SINKS, *args.sinks, Access::read);
  }
  if (args.chosen) {
    dispatch.set_constant(ATTENTION_CHOSEN_ID, args.chosen->stride);
    dispatch.bind(ATTENTION_CHOSEN, args.chosen->buffer, Access::read);
  }
  dispatch.bind(ATTENTION_STEP, args.step, Access::read);
  dispatch.bind(ATTENTION_Q, q.buffer, Access::read);
  dispatch.bind(ATTENTION_KEYS, args.cache.keys, args.store ? Access::read_write : Access::read);
  dispatch.bind(ATTENTION_RESULT, args.result.buffer, Access::write);
  if (args.bias.buckets > 0) {
    if (args.bias_scores) {
      dispatch.set_constant(ATTENTION_BUCKETS_ID, args.bias.buckets);
      dispatch.set_constant(ATTENTION_BIAS_STRIDE_ID, args.bias_scores->stride);
    }
    if (args.bias.by_place()) dispatch.set_constant(ATTENTION_BUCKETS_ID, args.bias.places());
    dispatch.bind(ATTENTION_BIAS_TABLE, args.bias_scores ? args.bias_scores->buffer : args.bias_table,
                  Access::read);
    dispatch.bind(ATTENTION_BIAS_BUCKETS, args.bias_buckets, Access::read);
  }
  return dispatch;
}

namespace {

// make_log_bucket_position() and the clamping of DeBERTa's own code, in floats as there. Distances below the
// middle of a side's buckets have one each.
uint32_t content_bucket(const RelativeBias& bias, int64_t query_minus_key) {
  const int64_t side = bias.buckets / 2, middle = side / 2, distance = std::abs(query_minus_key);
  int64_t bucket = query_minus_key;
  if (bias.rounded && distance > middle) {
    const float farther = std::log(static_cast<float>(distance) / static_cast<float>(middle)) /
                          std::log(static_cast<float>(bias.max_distance - 1) / static_cast<float>(middle));
    bucket = static_cast<int64_t>(std::ceil(farther * static_cast<float>(middle - 1))) + middle;
    if (query_minus_key < 0) bucket = -bucket;
  }
  return static_cast<uint32_t>(std::clamp<int64_t>(bucket + side, 0, 2 * side - 1));
}

} // namespace

uint32_t RelativeBias::place_bucket(uint32_t query, uint32_t key) const {
  const uint32_t offsets = place_buckets() - 3;
  if (query == 0) return key == 0 ? offsets + 2 : offsets;
  if (key == 0) return offsets + 1;
  const uint32_t down = (query - 1) / patch_columns + patch_rows - 1 - (key - 1) / patch_columns;
  const uint32_t across = (query - 1) % patch_columns + patch_columns - 1 - (key - 1) % patch_columns;
  return down * (2 * patch_columns - 1) + across;
}

uint32_t RelativeBias::bucket(int64_t key_minus_query) const {
  if (by_content) return content_bucket(*this, -key_minus_query);
  const uint32_t side = both_ways ? buckets / 2 : buckets;
  const uint32_t first = both_ways && key_minus_query > 0 ? side : 0;
  const int64_t distance = both_ways ? std::abs(key_minus_query) : std::max<int64_t>(-key_minus_query, 0);
  const uint32_t exact = exact_buckets();
  if (distance < exact) return first + static_cast<uint32_t>(distance);
  // In floats as T5's own code: buckets begin where its rounding has it.
  const float size = std::log(static_cast<float>(distance) / static_cast<float>(exact));
  const float largest = static_cast<float>(std::log(static_cast<double>(max_distance) / exact));
  const float further = size / largest * static_cast<float>(side - exact);
  return first + std::min(exact + static_cast<uint32_t>(further), side - 1);
}

std::span<const KernelVariant<AttentionArgs>* const> attention_variants() {
  return variants;
}

static const FamilyRegistration attention_registration("attention", list_variants<attention_variants>);

std::string attention_shape_class(const AttentionArgs& args) {
  const CacheLayout& layout = args.cache.layout;
  // With few rows the best variant depends on the cache's length: split-kv divides it.
  const std::string length = args.q.rows < 16 ? fmt::format(" x {}", capacity_class(layout.capacity)) : "";
  return fmt::format("attention {} {} x {} of {} in {}{}{}{}", to_string(layout.type),
                     rows_class(args.q.rows), args.heads, layout.head_dim, layout.kv_heads, length,
                     args.store ? " storing" : "", args.chosen ? " chosen" : "");
}

Status attention(Lowering& lowering, const AttentionArgs& args) {
  const std::string shape_class = attention_shape_class(args);
  const KernelVariant<AttentionArgs>& variant =
      choose_variant(attention_variants(), lowering.profile(), args, shape_class);
  if (args.projection && &variant != &attention_cpu8_qkv) PUMICE_CHECK(matmul(lowering, *args.projection));
  // For CPU drivers the variants' order is always the order of speed.
  return lower_variant(lowering, attention_variants(), args, shape_class, lowering.profile().cpu8);
}

AttentionShape attention_shape(const AttentionArgs& args, uint32_t fewest_groups, uint32_t most_queries) {
  const CacheLayout& layout = args.cache.layout;
  const uint32_t group = args.heads / layout.kv_heads;
  const uint32_t fit = std::min(most_queries, layout.head_dim <= 128 ? 4u : layout.head_dim <= 256 ? 2u : 1u);
  // As many heads as fit, divided as evenly as possible among the group's workgroups.
  uint32_t workgroups = (group + fit - 1) / fit;
  while (workgroups < group && workgroups * layout.kv_heads * args.q.rows < fewest_groups) ++workgroups;
  AttentionShape shape;
  shape.heads = (group + workgroups - 1) / workgroups;
  shape.group_workgroups = (group + shape.heads - 1) / shape.heads;
  if (args.one_sequence) {
    while (shape.heads * shape.tokens * 2 <= fit && shape.tokens < args.q.rows) shape.tokens *= 2;
  }
  return shape;
}

void set_spans(Dispatch& dispatch, uint32_t spans, uint32_t first_row) {
  AttentionParams params;
  std::memcpy(&params, dispatch.params.data(), sizeof(params));
  params.spans = spans;
  params.first_row = first_row;
  std::memcpy(dispatch.params.data(), &params, sizeof(params));
}

uint32_t carry(const CacheLayout& whole, uint32_t part) {
  if (whole.split != CacheSplit::positions) return 0;
  return part == 0 ? ATTENTION_CARRY_LEAVES : ATTENTION_CARRY_TAKES | ATTENTION_CARRY_LEAVES;
}

void emit_parts(Lowering& lowering, const AttentionArgs& args,
                const std::function<Dispatch(const AttentionArgs&)>& prepare) {
  const CacheLayout& layout = args.cache.layout;
  const bool carries = layout.split == CacheSplit::positions;
  // The sums are one span of each row.
  const uint64_t bytes = uint64_t{args.q.rows} * args.heads * (layout.head_dim + 2) * sizeof(float);
  const BufferRef sums = carries ? lowering.temporary(bytes) : BufferRef{};
  AttentionArgs part = args;
  const std::vector<CacheRef> parts = args.cache.parts();
  for (uint32_t i = 0; i < parts.size(); ++i) {
    part.cache = parts[i];
    Dispatch each = prepare(part);
    if (carries) {
      each.set_constant(ATTENTION_CARRY_ID, carry(layout, i));
      set_spans(each, 1, 0);
      bind_spans(each, sums, i == 0 ? Access::write : Access::read_write);
    }
    lowering.emit(std::move(each));
  }
  if (!carries) return;
  AttentionArgs all = args;
  all.sinks.reset(); // the first part began with them
  emit_combine(lowering, all, sums, {.span = UINT32_MAX / 4, .count = 1});
}

void bind_spans(Dispatch& dispatch, const BufferRef& sums, Access access) {
  static_assert(ATTENTION_SPANS == ATTENTION_SUMS);
  std::erase_if(dispatch.bindings, [](const Dispatch::Binding& binding) {
    return binding.slot == ATTENTION_RESULT || binding.slot == ATTENTION_SUMS;
  });
  dispatch.bind(ATTENTION_SPANS, sums, access);
}

void emit_combine(Lowering& lowering, const AttentionArgs& args, const BufferRef& sums, const Spans& spans) {
  // A dimension to an invocation, where there are many of them.
  const DeviceProfile& profile = lowering.profile();
  const uint32_t workgroup =
      profile.cpu ? profile.workgroup : std::clamp(std::bit_ceil(args.cache.layout.head_dim), 32u, 128u);
  Dispatch all = prepare_attention(args, workgroup);
  all.kernel = "attention_combine";
  all.set_constant(ATTENTION_HEADS_ID, 1);
  all.set_constant(ATTENTION_TOKENS_ID, 1);
  all.set_constant(ATTENTION_KEEP_ID, args.sums ? 1 : 0);
  all.set_constant(ATTENTION_SPAN_ID, spans.span);
  set_spans(all, spans.count, spans.first_row);
  std::erase_if(all.bindings, [](const Dispatch::Binding& binding) {
    return binding.slot == ATTENTION_Q || binding.slot == ATTENTION_KEYS;
  });
  if (args.sums) all.bind(ATTENTION_SUMS, args.sums->buffer, Access::write);
  all.bind(ATTENTION_ALL_SPANS, sums, Access::read);
  all.groups = {args.heads, args.q.rows, 1};
  all.flops = all.bytes = static_cast<double>(sums.bytes);
  lowering.emit(std::move(all));
}

void finish_attention(Dispatch& dispatch, const AttentionArgs& args, const AttentionShape& shape) {
  const CacheLayout& layout = args.cache.layout;
  dispatch.bind(ATTENTION_VALUES, args.cache.values, args.store ? Access::read_write : Access::read);
  if (args.sums) dispatch.bind(ATTENTION_SUMS, args.sums->buffer, Access::write);
  const uint32_t token_groups = (args.q.rows + shape.tokens - 1) / shape.tokens;
  dispatch.groups = {layout.kv_heads * shape.group_workgroups, token_groups, 1};
  const double seen = positions_seen(args);
  dispatch.flops = 4.0 * args.q.rows * args.heads * layout.head_dim * seen;
  dispatch.bytes = 1.0 * token_groups * layout.kv_heads * shape.group_workgroups *
                       (layout.key_tile_bytes() + layout.value_tile_bytes()) / 8 * seen +
                   8.0 * args.q.rows * args.q.columns;
}

Dispatch attention_weights(const DeviceProfile& profile, const AttentionArgs& args, uint32_t context) {
  const CacheLayout& layout = args.cache.layout;
  Dispatch dispatch = prepare_attention(args, profile.workgroup, context);
  dispatch.kernel = "attention_weights." + cache_kernel(layout.type);
  dispatch.bind(ATTENTION_SUMS, args.sums->buffer, Access::read);
  dispatch.groups = {args.heads, args.q.rows, 1};
  const double scores = args.q.rows * args.heads * positions_seen(args);
  dispatch.flops = 2.0 * layout.head_dim * scores;
  dispatch.bytes = layout.key_tile_bytes() / 8 * scores + 4.0 * args.q.rows * args.heads * context;
  return dispatch;
}

float linear_bias_slope(uint32_t head, uint32_t heads) {
  const uint32_t power = std::bit_floor(heads);
  if (head < power) return std::exp2(-8.0f * static_cast<float>(head + 1) / static_cast<float>(power));
  return std::exp2(-4.0f * static_cast<float>(2 * (head - power) + 1) / static_cast<float>(power));
}

std::string Attention::describe() const {
  std::string text = fmt::format("layer {} heads {} scale {:.6g}", layer, heads, scale);
  if (soft_cap > 0) text += fmt::format(" capped at {:g}", soft_cap);
  if (window > 0) text += fmt::format(" {} {}", chunked ? "chunk" : "window", window);
  if (sinks) text += " sinks";
  if (chosen > 0) text += fmt::format(" of {} chosen positions", chosen);
  if (mask == AttentionMask::bidirectional) text += " both ways";
  if (patch_windows) text += " in windows of patches";
  if (run > 0) text += fmt::format(" in runs of {}", run);
  if (joined > 1) text += fmt::format(" of {} rows in one", joined);
  if (mask == AttentionMask::cross) text += " of the encoder's input";
  if (mask == AttentionMask::causal_input) text += " of its input so far";
  if (bias.by_place()) {
    text += fmt::format(" bias of {} buckets by place in {} x {}", bias.buckets, bias.patch_rows,
                        bias.patch_columns);
  } else if (bias.buckets > 0) {
    text += fmt::format(" bias of {} buckets to {}", bias.buckets, bias.max_distance);
  }
  if (bias.linear) text += fmt::format(" linear bias to {}", bias.max_distance);
  return text;
}

namespace {

constexpr uint32_t largest_bias_distance = 1 << 20;
constexpr uint32_t most_places = 1 << 13; // whose pairs have a bucket each

// A linear bias becomes a table with a bucket for each distance. Its size does not depend on the session's
// context, because constants are uploaded once for all plans.
Status lower_linear_bias(Lowering& lowering, AttentionArgs& args) {
  const uint32_t farthest = args.bias.max_distance;
  const bool causal =
      args.mask == AttentionMask::causal; // otherwise a text is no longer than its input may be
  if (farthest == 0 || farthest > largest_bias_distance || (causal && lowering.context() > farthest + 1)) {
    return Error{Code::unsupported,
                 fmt::format("a linear bias for distances to {} does not fit a context of {} tokens",
                             farthest, lowering.context())};
  }
  args.bias.buckets = farthest + 1;
  std::vector<float> table, buckets(size_t{2} * farthest + 1);
  for (uint32_t distance = 0; distance <= farthest; ++distance) {
    for (uint32_t head = 0; head < args.heads; ++head) {
      table.push_back(-linear_bias_slope(head, args.heads) * static_cast<float>(distance));
    }
    buckets[farthest - distance] = buckets[farthest + distance] = static_cast<float>(distance);
  }
  const std::string key = fmt::format("linear bias to {}", farthest);
  PUMICE_TRY(args.bias_table, lowering.constants(fmt::format("{} of {} heads", key, args.heads), table));
  PUMICE_TRY(args.bias_buckets, lowering.constants(key, buckets));
  return {};
}

// The bucket of each distance.
Status lower_buckets(const RelativeBias& bias, Lowering& lowering, AttentionArgs& args) {
  std::vector<float> buckets;
  const int64_t farthest = bias.max_distance;
  for (int64_t distance = -farthest; distance <= farthest; ++distance) {
    buckets.push_back(static_cast<float>(bias.bucket(distance)));
  }
  const std::string key = fmt::format("buckets {} to {}{}{}{}", bias.buckets, bias.max_distance,
                                      bias.both_ways ? " both ways" : "",
                                      bias.by_content ? " by content" : "", bias.rounded ? " rounded" : "");
  PUMICE_TRY(args.bias_buckets, lowering.constants(key, buckets));
  return {};
}

// The bucket of each pair of places.
Status lower_place_buckets(const RelativeBias& bias, Lowering& lowering, AttentionArgs& args) {
  std::vector<float> buckets;
  for (uint32_t query = 0; query < bias.places(); ++query) {
    for (uint32_t key = 0; key < bias.places(); ++key)
      buckets.push_back(static_cast<float>(bias.place_bucket(query, key)));
  }
  PUMICE_TRY(args.bias_buckets,
             lowering.constants(
                 fmt::format("buckets by place in {} x {}", bias.patch_rows, bias.patch_columns), buckets));
  return {};
}

Status lower_bias(const RelativeBias& bias, std::span<const WeightId> table, Lowering& lowering,
                  AttentionArgs& args) {
  if (bias.linear) return lower_linear_bias(lowering, args);
  if (bias.buckets == 0) return {};
  if (bias.by_content) return lower_buckets(bias, lowering, args);
  assert(table.size() == 1);
  if (!bias.by_place() && (bias.exact_buckets() == 0 || bias.max_distance <= bias.exact_buckets() ||
                           bias.max_distance > largest_bias_distance)) {
    return Error{
        Code::unsupported,
        fmt::format("a relative bias of {} buckets for distances to {} is not supported: it needs at least "
                    "{} buckets, and distances to more than {} and at most {}",
                    bias.buckets, bias.max_distance, bias.both_ways ? 4 : 2, bias.exact_buckets(),
                    largest_bias_distance)};
  }
  const WeightView& view = lowering.graph().weight(table[0]).view;
  if (view.rows != bias.buckets || view.columns != args.heads) {
    return Error{Code::invalid_argument,
                 fmt::format("{}: it has {} buckets of {} heads, and the settings say {} of {}",
                             view.tensor->name, view.rows, view.columns, bias.buckets, args.heads)};
  }
  PUMICE_TRY(args.bias_table, lowering.vector(table));
  return bias.by_place() ? lower_place_buckets(bias, lowering, args) : lower_buckets(bias, lowering, args);
}

// Refuses what no kernel can do.
Status check(const Attention& attention, const CacheLayout& layout) {
  if (layout.head_dim == 0 || layout.head_dim > largest_head_dim) {
    return Error{Code::unsupported,
                 fmt::format("layer {}: heads of {} dimensions are not supported: they may have 1 to {}",
                             attention.layer, layout.head_dim, largest_head_dim)};
  }
  if ((attention.mask == AttentionMask::cross && attention.window > 0) ||
      (attention.mask != AttentionMask::causal && attention.chunked)) {
    return Error{Code::internal,
                 fmt::format("layer {}: a {} of {} positions of another text", attention.layer,
                             attention.chunked ? "chunk" : "window", attention.window)};
  }
  if (attention.whole_pictures && (attention.mask != AttentionMask::causal || attention.chunked)) {
    return Error{Code::internal,
                 fmt::format("layer {}: whole pictures need a causal mask without chunks", attention.layer)};
  }
  const bool some_rows = attention.patch_windows || attention.run > 0 || attention.joined != 1;
  if (some_rows && (attention.mask != AttentionMask::bidirectional || attention.window > 0 ||
                    attention.joined == 0 || (attention.patch_windows && attention.joined > 1))) {
    return Error{Code::internal, fmt::format("layer {}: windows of patches, runs and joined rows need a "
                                             "bidirectional mask without a window",
                                             attention.layer)};
  }
  if (layout.window != 0 && (attention.window == 0 || attention.window > layout.window)) {
    return Error{Code::internal,
                 fmt::format("layer {}: attention over {} positions, and the cache keeps {} of them",
                             attention.layer, attention.window ? std::to_string(attention.window) : "all",
                             layout.window)};
  }
  if (attention.bias.linear && attention.mask == AttentionMask::cross) {
    return Error{Code::unsupported,
                 fmt::format("layer {}: a linear bias of positions of another text", attention.layer)};
  }
  if (attention.bias.by_content &&
      ((attention.mask != AttentionMask::bidirectional && attention.mask != AttentionMask::causal_input) ||
       attention.bias.buckets % 2 != 0 || attention.bias.buckets < 4 || attention.bias.max_distance < 2 ||
       attention.bias.max_distance > largest_bias_distance ||
       (attention.bias.rounded && attention.bias.max_distance - 1 <= attention.bias.buckets / 4))) {
    return Error{Code::unsupported,
                 fmt::format("layer {}: a bias by content of {} buckets for distances to {} is not supported",
                             attention.layer, attention.bias.buckets, attention.bias.max_distance)};
  }
  if (attention.bias.by_place() &&
      (attention.mask != AttentionMask::bidirectional || attention.bias.patch_columns == 0 ||
       attention.bias.places() > most_places || attention.bias.buckets != attention.bias.place_buckets())) {
    return Error{Code::unsupported,
                 fmt::format("layer {}: a bias by place of {} buckets in {} x {} patches is not supported",
                             attention.layer, attention.bias.buckets, attention.bias.patch_rows,
                             attention.bias.patch_columns)};
  }
  if (attention.mask == AttentionMask::cross && attention.bias.buckets > 0) {
    return Error{Code::internal,
                 fmt::format("layer {}: a bias by distance between two texts", attention.layer)};
  }
  return {};
}

// Whether neighbouring rows mostly see the same positions. A step with no more rows than sequences is a
// decoding step, with one row for each sequence. Sequences with cache_indirection are beams of one input, and
// with cross-attention they all see that input.
bool mostly_one_source(const AttentionArgs& args) {
  const StepLayout& step = args.step_layout;
  if (args.mask == AttentionMask::bidirectional || args.mask == AttentionMask::causal_input) return true;
  if (args.mask == AttentionMask::cross) return step.positions > 0 || args.q.rows > step.sequences;
  return args.cache.layout.sequences == 1 || args.q.rows > args.cache.layout.sequences;
}

Result<AttentionArgs> lower_args(const Attention& attention, std::span<const WeightId> weights,
                                 Lowering& lowering, const Node& node) {
  AttentionArgs args;
  args.q = lowering.tensor(node.inputs[0]);
  args.cache = lowering.cache(attention.layer);
  args.heads = attention.heads;
  args.scale = attention.scale;
  args.soft_cap = attention.soft_cap;
  args.window = attention.window;
  args.mask = attention.mask;
  args.chunked = attention.chunked;
  args.whole_pictures = attention.whole_pictures;
  args.patch_windows = attention.patch_windows;
  args.run = attention.run;
  args.joined = attention.joined;
  args.bias = attention.bias;
  args.step_layout = lowering.step_layout();
  args.one_sequence = mostly_one_source(args);
  args.result = lowering.tensor(node.output);
  args.step = lowering.step();
  PUMICE_CHECK(check(attention, args.cache.layout));
  if (attention.bias.by_content) args.bias_scores = lowering.tensor(node.inputs.back());
  if (attention.chosen > 0 && lowering.context() > attention.chosen)
    args.chosen = lowering.tensor(node.inputs.back());
  if (attention.sinks) {
    PUMICE_TRY(args.sinks, lowering.vector(weights));
    return args;
  }
  PUMICE_CHECK(lower_bias(attention.bias, weights, lowering, args));
  return args;
}

} // namespace

Status Attention::lower(Lowering& lowering, const Node& node) const {
  PUMICE_TRY(AttentionArgs args, lower_args(*this, node.weights, lowering, node));
  if (!node.more_outputs.empty()) args.sums = lowering.tensor(node.more_outputs[0]);
  return pumice::attention(lowering, args);
}

std::string StoringAttention::describe() const {
  return (rotary ? fmt::format("({}) ", rotary->describe()) : "") + attention.describe();
}

Result<AttentionArgs> StoringAttention::args(Lowering& lowering, const Node& node) const {
  const size_t norms = rotary ? rotary->norm_weights() : 0;
  const std::span<const WeightId> weights = node.weights;
  PUMICE_TRY(AttentionArgs args, lower_args(attention, weights.subspan(norms), lowering, node));
  if (rotary) {
    PUMICE_TRY(args.store, rotary->args(lowering, node.inputs, weights.first(norms)));
  } else {
    CacheStore store;
    store.layer = attention.layer;
    PUMICE_TRY(args.store, store.args(lowering, std::span(node.inputs).subspan(1)));
  }
  return args;
}

Status StoringAttention::lower(Lowering& lowering, const Node& node) const {
  PUMICE_TRY(const AttentionArgs args, this->args(lowering, node));
  return pumice::attention(lowering, args);
}

std::string ProjectingAttention::describe() const {
  return fmt::format("({}) {}", projection.describe(), attention.describe());
}

Status ProjectingAttention::lower(Lowering& lowering, const Node& node) const {
  const auto own = node.weights.begin() + static_cast<ptrdiff_t>(projection_weights);
  Node product, rest;
  product.inputs = node.inputs;
  product.weights.assign(node.weights.begin(), own);
  product.output = node.more_outputs[0];
  rest.inputs = {q, k, v};
  rest.weights.assign(own, node.weights.end());
  rest.output = node.output;
  PUMICE_TRY(const std::vector<MatmulArgs> products, projection.args(lowering, product));
  PUMICE_TRY(AttentionArgs args, attention.args(lowering, rest));
  if (products.size() == 1) {
    args.projection = products[0];
  } else {
    for (const MatmulArgs& each : products) PUMICE_CHECK(matmul(lowering, each));
  }
  return pumice::attention(lowering, args);
}

Status AttentionWeights::lower(Lowering& lowering, const Node& node) const {
  PUMICE_TRY(AttentionArgs args, lower_args(attention, weights, lowering, node));
  args.sums = lowering.tensor(node.inputs[1]);
  for (const CacheRef& part : args.cache.parts()) {
    args.cache = part;
    lowering.emit(pumice::attention_weights(lowering.profile(), args, args.result.columns / args.heads));
  }
  return {};
}

TensorId attention(Graph& graph, std::string name, TensorId q, const Attention& operation,
                   std::optional<WeightId> weight, std::optional<TensorId> last_input) {
  const Tensor& queries = graph.tensor(q);
  std::vector<TensorId> inputs = {q};
  if (last_input) inputs.push_back(*last_input);
  std::vector<WeightId> weights;
  if (weight) weights.push_back(*weight);
  return graph.add(operation, std::move(inputs), std::move(weights),
                   {std::move(name), queries.rows, queries.columns});
}

TensorId attention_weights(Graph& graph, std::string name, TensorId attention, uint32_t context) {
  const size_t at = graph.producer(attention);
  const auto* operation = dynamic_cast<const Attention*>(graph.nodes()[at].operation.get());
  assert(operation);
  AttentionWeights weights;
  weights.attention = *operation;
  weights.weights = graph.nodes()[at].weights;
  const TensorId q = graph.nodes()[at].inputs[0];
  const RowKind rows = graph.tensor(attention).rows;
  const TensorId sums = graph.add_output(at, {name + ".sums", rows, operation->heads * 2});
  std::vector<TensorId> inputs = {q, sums};
  if (operation->bias.by_content || operation->chosen > 0) inputs.push_back(graph.nodes()[at].inputs.back());
  return graph.insert(at + 1, std::make_shared<AttentionWeights>(std::move(weights)), std::move(inputs),
                      {std::move(name), rows, weights.attention.heads * context});
}

} // namespace pumice
