#include "forecast/launch_work.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>

#include "kernel/attention/attention.h"
#include "shaders/attention/attention.params.h"
#include "shaders/common/codes.h"
#include "shaders/matmul/matmul.params.h"

namespace pumice {

namespace {

// What a weight type costs a kernel of few rows, for each weight beside the multiply-add.
struct WeightCost {
  std::string_view type;
  double dwords;     // of 32 weights
  double integers;   // operations on integers, and conversions: CODES_FIELDS
  double bytes;      // CODES_BYTES
  double mantissa;   // CODES_MANTISSA, which has another one on floats
  double multiplies; // of a CPU: multiply-adds that take as long as a weight, all in all
};

// By shaders/common/weight.glsl; tools/compilers.sh says the same of matmul_subgroup's loop. multiplies: by
// timing lavapipe with AVX-512.
constexpr std::array costs = {
    WeightCost{"f32", 32, 0, 0, 0, 7},         WeightCost{"f16", 16, 1, 1, 1, 8},
    WeightCost{"bf16", 16, 1, 1, 1, 8},        WeightCost{"q8_0", 8, 2, 2, 2, 8.5},
    WeightCost{"q4_0", 4, 3, 3, 1.25, 7.2},    WeightCost{"q4_1", 4, 3, 1.5, 1.25, 8.5},
    WeightCost{"q5_0", 5, 4, 4, 2.5, 11},      WeightCost{"q5_1", 5, 4, 2.5, 2.5, 12},
    WeightCost{"q2_k", 2, 3, 1.5, 1.25, 12},   WeightCost{"q3_k", 3, 4, 4, 2.5, 13},
    WeightCost{"q4_k", 4, 3, 1.5, 1.25, 11.5}, WeightCost{"q5_k", 5, 4, 2.5, 2.5, 13},
    WeightCost{"q6_k", 6, 4, 4, 2.5, 13},      WeightCost{"iq4_nl", 4, 7, 7, 7, 15},
    WeightCost{"iq4_xs", 4, 7, 7, 7, 16},      WeightCost{"mxfp4", 4, 8, 8, 8, 16},
    WeightCost{"nvfp4", 4, 8, 8, 8, 16},       WeightCost{"iq1_s", 2, 3, 1.5, 3, 12},
    WeightCost{"iq1_m", 3, 5, 5, 5, 13},       WeightCost{"iq2_xxs", 3, 6, 6, 6, 13},
    WeightCost{"iq2_xs", 3, 6, 6, 6, 13},      WeightCost{"iq2_s", 3, 6, 6, 6, 13},
    WeightCost{"iq3_xxs", 4, 6, 6, 6, 13},     WeightCost{"iq3_s", 4, 4, 4, 4, 9},
    WeightCost{"tq1_0", 2, 3, 3, 1.25, 9},     WeightCost{"tq2_0", 2, 3, 3, 1.25, 9},
    WeightCost{"q1_0", 1, 5, 5, 5, 11},        WeightCost{"q2_0", 2, 3, 3, 1.25, 9},
    WeightCost{"f8_e4m3", 8, 10, 10, 10, 16},  WeightCost{"int8", 8, 2, 2, 2, 8.5},
    WeightCost{"int4", 4, 3, 3, 1.25, 7.2},    WeightCost{"uint4", 4, 3, 1.5, 1.25, 8.5},
    WeightCost{"nf4", 4, 12, 12, 12, 20}};

constexpr bool has_cost(std::string_view type) {
  return std::ranges::find(costs, type, &WeightCost::type) != costs.end();
}
#define PLAIN(name, ...) static_assert(has_cost(#name));
#define QUANTIZED PLAIN
#include "shaders/common/weight_types.def"

// Of the type that the kernel's name has behind `prefix`; "f16_halves" is a way to lay f16 out.
const WeightCost& cost_of(std::string_view kernel, std::string_view prefix) {
  std::string_view type = kernel.substr(std::min(prefix.size(), kernel.size()));
  if (const size_t end = type.find("_halves"); end != type.npos) type = type.substr(0, end);
  const auto found = std::ranges::find(costs, type, &WeightCost::type);
  return found == costs.end() ? costs[1] : *found;
}

bool has_minimums(std::string_view type) {
  return type.ends_with("_1") || type == "q2_k" || type == "q4_k" || type == "q5_k" || type == "iq1_s" ||
         type == "uint4";
}

template <class Params>
Params params_of(const Dispatch& dispatch) {
  Params params = {};
  std::memcpy(&params, dispatch.params.data(), std::min(sizeof(params), dispatch.params.size()));
  return params;
}

double constant(const Dispatch& dispatch, uint32_t id, double otherwise) {
  return id < dispatch.constants.size() ? dispatch.constants[id] : otherwise;
}

double weight_bytes(const Dispatch& dispatch) {
  double bytes = 0;
  for (const Dispatch::Binding& binding : dispatch.bindings) {
    if (binding.buffer.space == Space::weights) bytes += static_cast<double>(binding.buffer.bytes);
  }
  return bytes;
}

// Of any kernel whose source is not looked at: an invocation asks for 16 bytes at a time.
LaunchWork plain_work(const Dispatch& dispatch) {
  LaunchWork work;
  work.groups = double{1} * dispatch.groups[0] * dispatch.groups[1] * dispatch.groups[2];
  work.invocations = std::max(1.0, constant(dispatch, 0, 64));
  work.memory_bytes = std::min(dispatch.bytes, weight_bytes(dispatch));
  work.cache_bytes = dispatch.bytes;
  constexpr double load = 16, address = 3; // bytes, and instructions around four of them
  const double all = work.groups * work.invocations;
  work.instructions = std::max(dispatch.flops, dispatch.bytes / 4 * address) + 40 * all;
  work.flight_bytes = load;
  work.trips = std::clamp(dispatch.bytes / all / load, 2.0, 64.0);
  return work;
}

// Eight neighbouring invocations share a block of 32 columns of eight rows, for each of the workgroup's
// tiles.
LaunchWork product_work(const Dispatch& dispatch, const Chip& chip, const WeightCost& cost) {
  LaunchWork work = plain_work(dispatch);
  const double blocks = params_of<MatmulParams>(dispatch).blocks;
  const double rows = constant(dispatch, MATMUL_ROWS_ID, 1), tiles = constant(dispatch, MATMUL_TILES_ID, 1);
  const double multiplications = dispatch.flops / 2;
  if (chip.cpu) {
    work.instructions = multiplications / rows * (cost.multiplies + rows - 1);
    return work;
  }
  const bool integers = dispatch.kernel.starts_with("matmul.dot");
  work.trips = std::ceil(blocks / (work.invocations / 8));
  work.flight_bytes = tiles * (4 * cost.dwords + 8);
  const uint32_t codes = static_cast<uint32_t>(constant(dispatch, MATMUL_CODES_ID, CODES_FIELDS));
  double converting = integers ? 1.5 : cost.integers, floats = integers ? 0 : 1;
  if (!integers && codes == CODES_BYTES) converting = cost.bytes;
  if (!integers && codes == CODES_MANTISSA && cost.mantissa < cost.integers) {
    converting = cost.mantissa;
    floats += 1 / rows + 0.9 / tiles; // the subtraction, and of x
  }
  if (has_minimums(cost.type)) floats += 1 / tiles;
  const double per_weight = floats + chip.integer_slots * converting / rows;
  constexpr double around = 80, x_loads = 16; // of a workgroup's end, and of 32 columns
  work.instructions = multiplications * per_weight + multiplications / 32 / tiles * x_loads +
                      around * work.groups * work.invocations;
  work.registers = 40 + tiles * cost.dwords * 2 + rows * tiles;
  work.cache_bytes += work.groups * rows * blocks * 32 * 4; // each workgroup loads x
  return work;
}

struct CachedNumber {
  double bytes;   // of a number
  double convert; // instructions
};

CachedNumber cached_number(std::string_view kernel) {
  if (kernel.ends_with("f32")) return {4, 0};
  if (kernel.ends_with("q8_0")) return {17.0 / 16, 2};
  return {2, 1};
}

// Scores, then values. The dispatch's own figures are of a cache that is half full (attention.cpp).
LaunchWork attention_work(const Dispatch& dispatch, const Chip& chip, uint32_t positions) {
  const auto params = params_of<AttentionParams>(dispatch);
  const bool paged = constant(dispatch, ATTENTION_SHARED_ID, 0) > 1;
  const uint32_t capacity = paged ? params.position_limit : params.capacity;
  const double half = capacity / 2,
               counted = params.window > 0 ? std::min<double>(half, params.window) : half;
  double seen = std::min<double>(positions, capacity);
  if (params.window > 0) seen = std::min<double>(seen, params.window);
  const double size = constant(dispatch, ATTENTION_HEAD_DIM_ID, 64), rows = dispatch.groups[1];
  const CachedNumber type = cached_number(dispatch.kernel);
  const double multiplications = 2 * rows * params.heads * size * seen;
  const double cached = 2 * rows * params.kv_heads * size * type.bytes * seen;
  LaunchWork work = plain_work(dispatch);
  work.memory_bytes = cached;
  if (chip.cpu) {
    // Where the kernel makes its queries, keys and values itself, their product is a part of it.
    const double product = std::max(0.0, dispatch.flops / 2 - 2 * rows * params.heads * size * counted);
    const bool projects = dispatch.kernel.starts_with(projecting_attention);
    work.memory_bytes += projects ? weight_bytes(dispatch) : 0;
    work.cache_bytes = work.memory_bytes;
    work.instructions = multiplications * (1.5 + type.convert);
    if (projects) work.instructions += product * cost_of(dispatch.kernel, projecting_attention).multiplies;
    return work;
  }
  const double heads = constant(dispatch, ATTENTION_HEADS_ID, 1),
               span = constant(dispatch, ATTENTION_SPAN_ID, 256);
  const bool split = constant(dispatch, ATTENTION_SPLIT_ID, 0) > 0;
  const double spans = std::ceil(seen / span),
               blocks = split ? std::max(1.0, span / work.invocations) : std::ceil(seen / work.invocations);
  work.groups =
      double{1} * dispatch.groups[0] * rows * (split ? std::min<double>(spans, dispatch.groups[2]) : 1);
  // Loads of 16 bytes are under way: of a key's steps, then of the values of a slice's positions.
  constexpr double load = 16;
  const double ahead = std::max(1.0, constant(dispatch, ATTENTION_AHEAD_ID, 4));
  const double numbers = load / type.bytes, slices = std::max(1.0, work.invocations / (size / numbers));
  const double key_trips = std::ceil(size / numbers / ahead),
               value_trips = std::ceil(work.invocations / slices / ahead);
  constexpr double waits =
      6; // for the workgroup, around maxima and sums, as long as a load from the cache together
  work.flight_bytes = ahead * load;
  work.trips = blocks * (key_trips + value_trips) + waits / 4;
  // Fitted to an H200 after 64 and 4,160 tokens, with four loads under way: of a multiplication, with what is
  // read of shared memory for it, and of an invocation beside them, mostly sums over the workgroup. Loops
  // with more loads have no branches, which is by NVIDIA's compiler in Mesa 536 instructions where there were
  // 726. Subgroups without a position that is seen then score none: two fifths of what a head takes.
  const bool straight = ahead > 4;
  const double of_one = straight ? 4.0 * 536 / 726 : 4;
  constexpr double of_invocation = 600, of_head = 500, scoring = 0.4;
  const double span_positions = std::min(work.invocations, seen),
               scored = std::ceil(span_positions / chip.subgroup) * chip.subgroup / work.invocations,
               of_heads = heads * of_head * (straight ? 1 - scoring * (1 - std::min(scored, 1.0)) : 1);
  // And of one that rotates its queries first, as NVIDIA's compiler in Mesa lists it: half of the loop that
  // also stores.
  constexpr double of_rotation = 250, rotation_trips = 2;
  const bool rotates = dispatch.kernel.starts_with("attention_portable.rope.");
  if (rotates) work.trips += rotation_trips;
  work.instructions =
      multiplications * (of_one + chip.integer_slots * type.convert / heads) +
      (of_invocation + of_heads + (rotates ? of_rotation : 0)) * work.groups * work.invocations;
  work.registers = 48 + 12 * heads + 4 * ahead;
  work.cache_bytes = cached * std::max(1.0, dispatch.groups[0] / std::max(1.0, double{1} * params.kv_heads));
  return work;
}

LaunchWork combine_work(const Dispatch& dispatch, uint32_t positions) {
  LaunchWork work = plain_work(dispatch);
  const double size = constant(dispatch, ATTENTION_HEAD_DIM_ID, 64);
  const double spans = std::ceil(positions / constant(dispatch, ATTENTION_SPAN_ID, 256));
  constexpr double ahead = 16; // spans
  work.cache_bytes = work.groups * spans * (size + 2) * 4;
  work.instructions = work.groups * spans * work.invocations * 12;
  work.flight_bytes = ahead * 12;
  work.trips = 2 + std::ceil(spans / ahead);
  return work;
}

} // namespace

LaunchWork work_of(const Dispatch& dispatch, const Chip& chip, uint32_t positions) {
  const std::string_view kernel = dispatch.kernel;
  for (const std::string_view product :
       {"matmul_subgroup.", "matmul_portable.", "matmul.dot.", "matmul.cpu8."}) {
    if (kernel.starts_with(product)) return product_work(dispatch, chip, cost_of(kernel, product));
  }
  if (kernel.starts_with("attention_combine")) return combine_work(dispatch, positions);
  if (kernel.starts_with("attention_portable.") || kernel.starts_with("attention.cpu8.") ||
      kernel.starts_with("attention.half8"))
    return attention_work(dispatch, chip, positions);
  return plain_work(dispatch);
}

} // namespace pumice
