#include "kernel/position.h"

#include <bit>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "plan/lowering.h"

namespace pumice {

namespace {

double scaled(const RotaryConfig& config, double frequency) {
  if (config.scaling == RotaryScaling::none) return frequency;
  const double stretched = frequency / config.factor;
  if (config.scaling == RotaryScaling::linear) return stretched;
  // As Llama 3.1's reference code has it.
  const double waves = config.original_context * frequency / (2 * std::numbers::pi); // in the old context
  if (waves < config.low_freq_factor) return stretched;
  if (waves > config.high_freq_factor) return frequency;
  const double kept =
      (waves - config.low_freq_factor) / (double{config.high_freq_factor} - config.low_freq_factor);
  return (1 - kept) * stretched + kept * frequency;
}

// Heads to a workgroup: on a GPU few enough that a single row is spread, on a CPU all, as each workgroup has
// to make the row's table of sines.
uint32_t heads_per_group(const KernelStyle& style, const RotaryStoreArgs& args) {
  const uint32_t all = args.heads + 2 * args.cache.layout.kv_heads;
  return style.lane8 ? all : std::min(all, 4u);
}

// FNV-1a, so that layers with the same frequencies share a table.
uint64_t hash(std::span<const float> values) {
  uint64_t h = 0xcbf29ce484222325u;
  for (const std::byte byte : std::as_bytes(values)) {
    h = (h ^ static_cast<uint64_t>(byte)) * 0x100000001b3u;
  }
  return h;
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
  if (!config.factors.empty()) text += ", frequencies divided by a table";
  return text;
}

std::vector<double> rotary_frequencies(const RotaryConfig& config) {
  std::vector<double> frequencies(config.dim / 2);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double frequency = std::pow(double{config.base}, -2.0 * static_cast<double>(i) / config.dim);
    frequencies[i] = scaled(config, frequency);
    if (i < config.factors.size()) frequencies[i] /= config.factors[i];
  }
  return frequencies;
}

std::vector<float> rotary_table(std::span<const double> frequencies) {
  std::vector<float> table;
  for (const double frequency : frequencies) {
    // A file may hold a divisor of zero.
    const double turns = std::isfinite(frequency) ? frequency / (2 * std::numbers::pi) : 0;
    const double high = std::ldexp(turns - std::floor(turns), 32); // positions are whole: whole turns vanish
    const double low = std::ldexp(high - std::floor(high), 32);
    for (const double part : {high, low}) {
      table.push_back(std::bit_cast<float>(static_cast<uint32_t>(static_cast<uint64_t>(part))));
    }
  }
  return table;
}

Dispatch rotary_store(const KernelStyle& style, const RotaryStoreArgs& args) {
  const CacheLayout& cache = args.cache.layout;
  const bool rotates = args.pairs != RotaryPairs::none && args.rotary_dim > 0;
  const uint32_t heads = heads_per_group(style, args);
  Dispatch dispatch;
  dispatch.kernel = std::string("rotary_store.") + to_string(cache.type);
  dispatch.constants = {style.workgroup, static_cast<uint32_t>(rotates ? args.pairs : RotaryPairs::none),
                        args.head_dim, rotates ? args.rotary_dim : 0, heads};
  RotaryStoreParams params = {};
  params.heads = args.heads;
  params.kv_heads = cache.kv_heads;
  params.q_stride = args.q.stride;
  params.k_stride = args.k.stride;
  params.v_stride = args.v.stride;
  params.out_stride = args.result.stride;
  params.capacity = cache.capacity;
  params.sequences = cache.sequences;
  dispatch.set_params(params);
  dispatch.bind(ROTARY_STEP, args.step, Access::read);
  dispatch.bind(ROTARY_Q, args.q.buffer, Access::read);
  dispatch.bind(ROTARY_K, args.k.buffer, Access::read);
  dispatch.bind(ROTARY_V, args.v.buffer, Access::read);
  if (rotates) dispatch.bind(ROTARY_TURNS, args.table, Access::read);
  dispatch.bind(ROTARY_RESULT, args.result.buffer, Access::write);
  // Written only, but in part: what other positions hold must last.
  dispatch.bind(ROTARY_KEYS, args.cache.keys, Access::read_write);
  dispatch.bind(ROTARY_VALUES, args.cache.values, Access::read_write);
  const uint32_t all_heads = args.heads + 2 * cache.kv_heads;
  dispatch.groups = {args.q.rows, (all_heads + heads - 1) / heads, 1};
  const double elements = double{1} * args.q.rows * all_heads * args.head_dim;
  dispatch.flops = elements * 4;
  dispatch.bytes = elements * 8;
  return dispatch;
}

std::string RotaryStore::describe() const {
  return fmt::format("layer {} heads {} kv_heads {} head_dim {} rotary {}", layer, heads, kv_heads, head_dim,
                     pumice::describe(rotary));
}

Status RotaryStore::lower(Lowering& lowering, const Node& node) const {
  if (head_dim % 4 != 0) {
    return Error{Code::unsupported, fmt::format("Heads of {} dimensions, not a multiple of 4", head_dim)};
  }
  if (rotary.dim % 2 != 0 || rotary.dim > head_dim) {
    return Error{Code::invalid_argument,
                 fmt::format("{} dimensions of {} cannot be rotated", rotary.dim, head_dim)};
  }
  RotaryStoreArgs args;
  args.q = lowering.tensor(node.inputs[0]);
  args.k = lowering.tensor(node.inputs[1]);
  args.v = lowering.tensor(node.inputs[2]);
  args.heads = heads;
  args.head_dim = head_dim;
  args.pairs = rotary.pairs;
  args.rotary_dim = rotary.dim;
  if (rotary.pairs != RotaryPairs::none && rotary.dim > 0) {
    const std::vector<float> table = rotary_table(rotary_frequencies(rotary));
    PUMICE_TRY(args.table, lowering.constants(fmt::format("rotary {:016x}", hash(table)), table));
  }
  args.cache = lowering.cache(layer);
  args.result = lowering.tensor(node.output);
  args.step = lowering.step();
  lowering.emit(rotary_store(lowering.style(), args));
  return {};
}

TensorId rotary_store(Graph& graph, std::string name, TensorId q, TensorId k, TensorId v,
                      RotaryStore operation) {
  const uint32_t columns = operation.heads * operation.head_dim;
  return graph.add(std::move(operation), {q, k, v}, {}, {std::move(name), RowKind::tokens, columns});
}

} // namespace pumice
