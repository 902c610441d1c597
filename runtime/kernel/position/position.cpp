#include "kernel/position/position.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "io/checksum.h"
#include "kernel/lowering.h"

namespace pumice {

namespace {

double llama3(const RotaryConfig& config, double frequency) {
  // As Llama 3.1's reference code has it.
  const double stretched = frequency / config.factor;
  const double waves = config.original_context * frequency / (2 * std::numbers::pi); // in the old context
  if (waves < config.low_freq_factor) return stretched;
  if (waves > config.high_freq_factor) return frequency;
  const double kept =
      (waves - config.low_freq_factor) / (double{config.high_freq_factor} - config.low_freq_factor);
  return (1 - kept) * stretched + kept * frequency;
}

// The pair (with a fraction) that makes this many revolutions in the original context.
double pair_of_revolutions(const RotaryConfig& config, double revolutions) {
  const double waves = config.original_context / (revolutions * 2 * std::numbers::pi);
  return config.dim * std::log(waves) / (2 * std::log(double{config.base}));
}

double yarn(const RotaryConfig& config, double frequency, size_t pair) {
  double low = pair_of_revolutions(config, config.beta_fast),
         high = pair_of_revolutions(config, config.beta_slow);
  if (config.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, config.dim - 1.0);
  if (low == high) high += 0.001;
  const double stretch = std::clamp((static_cast<double>(pair) - low) / (high - low), 0.0, 1.0);
  return stretch * frequency / config.factor + (1 - stretch) * frequency;
}

double scaled(const RotaryConfig& config, double frequency, size_t pair) {
  switch (config.scaling) {
  case RotaryScaling::linear:
    return frequency / config.factor;
  case RotaryScaling::llama3:
    return llama3(config, frequency);
  case RotaryScaling::yarn:
    return yarn(config, frequency, pair);
  case RotaryScaling::none:
  case RotaryScaling::longrope:
    break;
  }
  return frequency;
}

// Counting queries, then keys, then values.
uint32_t all_heads(const RotaryStoreArgs& args) {
  const CacheLayout& cache = args.cache.layout;
  return args.heads + cache.kv_heads * (cache.values_are_keys ? 1 : 2);
}

// Heads of a workgroup. On a GPU few, so that a single row is spread over workgroups. On a CPU nearly always
// all, because each workgroup computes the row's table of sines.
uint32_t heads_per_group(const DeviceProfile& profile, const RotaryStoreArgs& args) {
  return std::min(all_heads(args), profile.cpu ? 256u : 4u);
}

// The table's key: layers with the same frequencies share a table.
uint64_t hash(std::span<const float> values) {
  Checksum checksum;
  checksum.add(std::as_bytes(values));
  return checksum.value();
}

} // namespace

const char* to_string(RotaryPairs pairs) {
  switch (pairs) {
  case RotaryPairs::none:
    return "none";
  case RotaryPairs::neighbouring:
    return "neighbouring";
  case RotaryPairs::half_split:
    return "half_split";
  case RotaryPairs::quarters:
    return "quarters";
  }
  return "unknown";
}

std::string describe(const RotaryConfig& config) {
  if (config.pairs == RotaryPairs::none) return "none";
  std::string text =
      fmt::format("{} dimensions {}, base {:g}", config.dim, to_string(config.pairs), config.base);
  if (config.scaling == RotaryScaling::linear) text += fmt::format(", linear scaling {:g}", config.factor);
  if (config.scaling == RotaryScaling::llama3) {
    text += fmt::format(", llama3 scaling {:g} ({:g} to {:g} of {})", config.factor, config.low_freq_factor,
                        config.high_freq_factor, config.original_context);
  }
  if (config.scaling == RotaryScaling::yarn) {
    text +=
        fmt::format(", yarn scaling {:g} of {} (beta {:g} to {:g}), magnitude {:.6g}", config.factor,
                    config.original_context, config.beta_fast, config.beta_slow, rotary_magnitude(config));
  }
  if (config.scaling == RotaryScaling::longrope) {
    text += fmt::format(", longrope scaling {:g} of {}, magnitude {:.6g}", config.factor,
                        config.original_context, rotary_magnitude(config));
  }
  if (config.query_growth != 0) text += fmt::format(", queries grow by {:g}", config.query_growth);
  if (!config.factors.empty()) text += ", frequencies divided by a table";
  if (config.places == PlaceKind::patches) text += ", by places in pictures";
  if (config.places == PlaceKind::text || config.places == PlaceKind::interleaved) {
    text += fmt::format(", by {}places: {} pairs in the text, {} down, {} across",
                        config.places == PlaceKind::text ? "" : "interleaved ", config.text_pairs,
                        config.down_pairs, config.dim / 2 - config.text_pairs - config.down_pairs);
  }
  return text;
}

std::vector<double> rotary_frequencies(const RotaryConfig& config, uint32_t context) {
  const bool longer = config.scaling == RotaryScaling::longrope && context > config.original_context;
  const std::vector<float>& factors = longer ? config.long_factors : config.factors;
  std::vector<double> frequencies(config.dim / 2);
  const uint32_t different = config.places == PlaceKind::patches ? config.dim / 4 : config.dim / 2;
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double frequency = std::pow(double{config.base}, -static_cast<double>(i % different) / different);
    frequencies[i] = scaled(config, frequency, i);
    if (i < factors.size()) frequencies[i] /= factors[i];
  }
  return frequencies;
}

double rotary_magnitude(const RotaryConfig& config) {
  const double factor = config.factor;
  if (config.scaling != RotaryScaling::yarn && config.scaling != RotaryScaling::longrope) return 1;
  if (config.attention_factor) return *config.attention_factor;
  if (factor <= 1) return 1;
  if (config.scaling == RotaryScaling::longrope) {
    return std::sqrt(1 + std::log(factor) / std::log(static_cast<double>(config.original_context)));
  }
  const auto grown = [&](double weight) { return 0.1 * weight * std::log(factor) + 1; };
  if (config.mscale != 0 && config.mscale_all_dim != 0) {
    return grown(config.mscale) / grown(config.mscale_all_dim);
  }
  return grown(1);
}

std::vector<float> rotary_table(std::span<const double> frequencies) {
  std::vector<float> table;
  for (const double frequency : frequencies) {
    // A file may hold a divisor of zero.
    const double revolutions = std::isfinite(frequency) ? frequency / (2 * std::numbers::pi) : 0;
    const double high =
        std::ldexp(revolutions - std::floor(revolutions), 32); // whole revolutions change nothing
    const double low = std::ldexp(high - std::floor(high), 32);
    for (const double part : {high, low}) {
      table.push_back(std::bit_cast<float>(static_cast<uint32_t>(static_cast<uint64_t>(part))));
    }
  }
  return table;
}

RotaryConstants rotary_constants(const RotaryStoreArgs& args) {
  RotaryConstants constants;
  if (args.rotary_dim > 0 && args.pairs != RotaryPairs::none) {
    constants.pairs = static_cast<uint32_t>(args.pairs);
    constants.dim = args.rotary_dim;
  }
  if (args.query_norm) constants.norms += ROTARY_NORM_QUERIES;
  if (args.key_norm) constants.norms += ROTARY_NORM_KEYS;
  if (args.value_norm) constants.norms += ROTARY_NORM_VALUES;
  if (args.norm_after) constants.norms += ROTARY_NORM_AFTER;
  if (args.query_growth != 0) {
    constants.growth = std::bit_cast<uint32_t>(args.query_growth);
    constants.growth_length = args.growth_length;
    constants.growth_start = args.growth_start;
  }
  constants.places = static_cast<uint32_t>(args.places);
  constants.text_pairs = args.text_pairs;
  constants.down_pairs = args.down_pairs;
  return constants;
}

Dispatch rotary_store(const DeviceProfile& profile, const RotaryStoreArgs& args) {
  const CacheLayout& cache = args.cache.layout;
  const RotaryConstants constants = rotary_constants(args);
  const uint32_t heads = heads_per_group(profile, args);
  Dispatch dispatch;
  dispatch.kernel = "rotary_store." + cache_kernel(cache.type);
  dispatch.constants = {
      profile.workgroup, constants.pairs,  args.head_dim,           constants.dim,         heads,
      constants.norms,   constants.growth, constants.growth_length, constants.growth_start};
  if (cache.split != CacheSplit::whole)
    dispatch.set_constant(ROTARY_PARTS_ID, static_cast<uint32_t>(cache.split));
  if (args.places != PlaceKind::none) {
    dispatch.set_constant(ROTARY_PLACES_ID, constants.places);
    dispatch.set_constant(ROTARY_TEXT_PAIRS_ID, constants.text_pairs);
    dispatch.set_constant(ROTARY_DOWN_PAIRS_ID, constants.down_pairs);
  }
  if (cache.pages > 0) dispatch.set_constant(ROTARY_SHARED_ID, cache_page_positions);
  RotaryStoreParams params = {};
  params.heads = args.heads;
  params.kv_heads = cache.kv_heads;
  params.value_heads = cache.values_are_keys ? 0 : cache.kv_heads;
  params.q_stride = args.q.stride;
  params.k_stride = args.k.stride;
  params.v_stride = args.v.stride;
  params.out_stride = args.result.stride;
  params.capacity = cache.stored_positions();
  params.position_limit = cache.position_limit();
  params.sequences = cache.stored_sequences();
  params.part_first = cache.part_first;
  params.details = args.step_layout.details();
  params.sequence_quads = args.step_layout.sequence_quads();
  params.cache_indirection = args.step_layout.cache_indirection();
  params.indirection_entries = args.step_layout.indirection_entries();
  params.magnitude = args.magnitude;
  params.norm_eps = args.norm_eps;
  params.norm_offset = args.norm_offset;
  dispatch.set_params(params);
  dispatch.bind(ROTARY_STEP, args.step, Access::read);
  // Without queries, or without keys and values, the kernel does not use their slots. They are bound to
  // memory that this launch uses anyway.
  const bool stores = cache.kv_heads > 0;
  const ActivationRef& rows = stores ? args.k : args.q;
  dispatch.bind(ROTARY_Q, args.heads > 0 ? args.q.buffer : args.k.buffer, Access::read);
  dispatch.bind(ROTARY_K, rows.buffer, Access::read);
  dispatch.bind(ROTARY_V, stores ? args.v.buffer : rows.buffer, Access::read);
  if (constants.reads_table()) dispatch.bind(ROTARY_TABLE, args.table, Access::read);
  dispatch.bind(ROTARY_RESULT, args.heads > 0 ? args.result.buffer : args.cache.values, Access::write);
  // The kernel only writes, but other positions of the cache must keep their contents: read_write.
  const Access cached = stores ? Access::read_write : Access::read;
  dispatch.bind(ROTARY_KEYS, args.cache.keys, cached);
  dispatch.bind(ROTARY_VALUES, args.cache.values, cached);
  const uint32_t all = all_heads(args);
  dispatch.groups = {rows.rows, (all + heads - 1) / heads, 1};
  const double elements = double{1} * rows.rows * all * args.head_dim;
  dispatch.flops = elements * 4;
  dispatch.bytes = elements * 8;
  return dispatch;
}

void emit_rotary_store(Lowering& lowering, RotaryStoreArgs args) {
  for (const CacheRef& part : args.cache.parts()) {
    args.cache = part;
    lowering.emit(rotary_store(lowering.profile(), args));
    args.heads = 0; // the first launch has rotated the queries
  }
}

std::string RotaryStore::describe() const {
  std::string text = fmt::format("layer {} heads {} kv_heads {} head_dim {} rotary {}", layer, heads,
                                 kv_heads, head_dim, pumice::describe(rotary));
  if (query_norm) text += ", queries normed";
  if (key_norm) text += ", keys normed";
  if (value_norm) text += ", values normed";
  if (norm_after) text += " after the rotation";
  return text;
}

namespace {

// The table of revolutions for a session with this context, then the norms' weights.
std::vector<float> make_table(const RotaryStore& operation, uint32_t context, const Graph& graph,
                              std::span<const WeightId> norms) {
  std::vector<float> table;
  if (operation.rotary.pairs != RotaryPairs::none) {
    table = rotary_table(rotary_frequencies(operation.rotary, context));
  }
  if (operation.unit_norms)
    table.resize(table.size() + (size_t{operation.query_norm} + operation.key_norm) * operation.head_dim,
                 1.0f);
  for (WeightId id : norms) {
    const std::vector<float> weights = decode_vector(graph.weight(id).view);
    table.insert(table.end(), weights.begin(), weights.begin() + operation.head_dim);
  }
  return table;
}

Status check(const RotaryStore& operation, const Graph& graph, std::span<const WeightId> norms) {
  const uint32_t head_dim = operation.head_dim;
  const RotaryConfig& rotary = operation.rotary;
  if (rotary.dim % 2 != 0 || rotary.dim > head_dim) {
    return Error{
        Code::invalid_argument,
        fmt::format("{} of a head's {} dimensions are to be rotated: it must be an even number, at most all",
                    rotary.dim, head_dim)};
  }
  if (rotary.text_pairs + rotary.down_pairs > rotary.dim / 2 ||
      (rotary.places == PlaceKind::patches && rotary.dim % 4 != 0)) {
    return Error{Code::invalid_argument,
                 fmt::format("{} rotated dimensions of a head cannot be divided among places in a picture",
                             rotary.dim)};
  }
  for (const std::vector<float>* factors : {&rotary.factors, &rotary.long_factors}) {
    if (factors->empty() || factors->size() == rotary.dim / 2) continue;
    return Error{
        Code::invalid_argument,
        fmt::format("there are {} factors for the frequencies of {} rotated dimensions, which need {}",
                    factors->size(), rotary.dim, rotary.dim / 2)};
  }
  if (operation.norm_after && rotary_magnitude(rotary) != 1) {
    return Error{Code::unsupported, fmt::format("norms after a rotation of magnitude {:g} are not supported",
                                                rotary_magnitude(rotary))};
  }
  assert(norms.size() == operation.norm_weights());
  for (WeightId id : norms) {
    const WeightView& view = graph.weight(id).view;
    if (view.rows * view.columns == head_dim) continue;
    return Error{Code::invalid_argument,
                 fmt::format("{}: it has {} weights, and the norm is over heads of {} dimensions",
                             view.tensor->name, view.rows * view.columns, head_dim)};
  }
  return {};
}

} // namespace

Result<RotaryStoreArgs> RotaryStore::args(Lowering& lowering, std::span<const TensorId> inputs,
                                          std::span<const WeightId> norms) const {
  PUMICE_CHECK(check(*this, lowering.graph(), norms));
  RotaryStoreArgs args;
  args.q = lowering.tensor(inputs[0]);
  args.k = lowering.tensor(inputs[1]);
  args.v = lowering.tensor(inputs[2]);
  args.heads = heads;
  args.head_dim = head_dim;
  args.pairs = rotary.pairs;
  args.rotary_dim = rotary.dim;
  args.magnitude = static_cast<float>(rotary_magnitude(rotary));
  args.query_growth = rotary.query_growth;
  args.growth_length = rotary.original_context;
  args.growth_start = rotary.growth_start;
  args.places = rotary.places;
  args.text_pairs = rotary.text_pairs;
  args.down_pairs = rotary.places == PlaceKind::patches ? rotary.dim / 4 : rotary.down_pairs;
  args.step_layout = lowering.step_layout();
  args.query_norm = query_norm;
  args.key_norm = key_norm;
  args.value_norm = value_norm;
  args.norm_after = norm_after;
  args.norm_eps = norm_eps;
  args.norm_offset = norm_offset;
  // Every plan requests the tables of short and of long contexts, because tables that the first plan does not
  // request are not on the device for later plans.
  for (uint32_t context : {0u, UINT32_MAX, lowering.context()}) {
    const std::vector<float> table = make_table(*this, context, lowering.graph(), norms);
    if (table.empty()) break;
    PUMICE_TRY(args.table, lowering.constants(fmt::format("rotary {:016x}", hash(table)), table));
  }
  args.cache = lowering.cache(layer);
  args.step = lowering.step();
  return args;
}

Status RotaryStore::lower(Lowering& lowering, const Node& node) const {
  PUMICE_TRY(RotaryStoreArgs store, args(lowering, node.inputs, node.weights));
  store.result = lowering.tensor(node.output);
  emit_rotary_store(lowering, std::move(store));
  return {};
}

Status RotateQueries::lower(Lowering& lowering, const Node& node) const {
  const TensorId q = node.inputs[0];
  const TensorId inputs[] = {q, q, q};
  PUMICE_TRY(RotaryStoreArgs args, rotary.args(lowering, inputs, node.weights));
  args.cache.layout.kv_heads = 0;
  args.result = lowering.tensor(node.output);
  lowering.emit(rotary_store(lowering.profile(), args));
  return {};
}

std::string CacheStore::describe() const {
  return fmt::format("layer {}", layer);
}

Result<RotaryStoreArgs> CacheStore::args(Lowering& lowering, std::span<const TensorId> inputs) const {
  RotaryStoreArgs args;
  args.k = lowering.tensor(inputs[0]);
  args.v = lowering.tensor(inputs[1]);
  args.cache = lowering.cache(layer);
  args.head_dim = args.cache.layout.head_dim;
  args.step = lowering.step();
  const uint32_t columns = args.cache.layout.kv_heads * args.head_dim;
  if (args.k.columns != columns || args.v.columns != columns) {
    return Error{Code::internal,
                 fmt::format("layer {}: keys of {} and values of {} columns do not fit a cache of {}", layer,
                             args.k.columns, args.v.columns, columns)};
  }
  return args;
}

Status CacheStore::lower(Lowering& lowering, const Node& node) const {
  PUMICE_TRY(RotaryStoreArgs store, args(lowering, node.inputs));
  emit_rotary_store(lowering, std::move(store));
  return {};
}

TensorId cache_store(Graph& graph, std::string name, TensorId k, TensorId v, uint32_t layer) {
  CacheStore operation;
  operation.layer = layer;
  return graph.add(std::move(operation), {k, v}, {}, {std::move(name), graph.tensor(k).rows, 0});
}

TensorId rotary_store(Graph& graph, std::string name, TensorId q, TensorId k, TensorId v,
                      RotaryStore operation, std::vector<WeightId> norm_weights) {
  const uint32_t columns = operation.heads * operation.head_dim;
  return graph.add(std::move(operation), {q, k, v}, std::move(norm_weights),
                   {std::move(name), RowKind::tokens, columns});
}

TensorId rotate_queries(Graph& graph, std::string name, TensorId q, RotaryStore operation,
                        std::vector<WeightId> norm_weights) {
  const uint32_t columns = operation.heads * operation.head_dim;
  RotateQueries rotate;
  rotate.rotary = std::move(operation);
  return graph.add(std::move(rotate), {q}, std::move(norm_weights),
                   {std::move(name), RowKind::tokens, columns});
}

} // namespace pumice
