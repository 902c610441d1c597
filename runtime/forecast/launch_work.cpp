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
#include "shaders/matmul/quantize_rows.params.h"

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
    WeightCost{"q4_0", 4, 3, 3, 1.25, 8.5},    WeightCost{"q4_1", 4, 3, 1.5, 1.25, 8.5},
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
    WeightCost{"int4", 4, 3, 3, 1.25, 8.5},    WeightCost{"uint4", 4, 3, 1.5, 1.25, 8.5},
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

// Of a product, by all workgroups: those of some rows load all weights, or an expert's.
double loaded_weights(const Dispatch& dispatch) {
  const auto params = params_of<MatmulParams>(dispatch);
  const bool routed = constant(dispatch, MATMUL_ROUTED_ID, MATMUL_ROWS_OWN) == MATMUL_ROWS_ROUTED;
  const double share = routed ? double{1} * params.row_tiles / std::max(params.tiles, 1u) : 1;
  return weight_bytes(dispatch) * dispatch.groups[0] * share;
}

// Activations that the shared cache cannot keep until the next launch: it has to keep others too.
double spilled(double bytes, const Chip& chip) {
  return bytes > chip.cache_bytes / 2 ? bytes : 0;
}

// Of any kernel whose source is not looked at: an invocation asks for 16 bytes at a time.
LaunchWork plain_work(const Dispatch& dispatch, const Chip& chip) {
  LaunchWork work;
  work.groups = double{1} * dispatch.groups[0] * dispatch.groups[1] * dispatch.groups[2];
  work.invocations = std::max(1.0, constant(dispatch, 0, 64));
  work.memory_bytes = std::min(dispatch.bytes, weight_bytes(dispatch));
  if (!chip.cpu) work.memory_bytes += spilled(dispatch.bytes - work.memory_bytes, chip);
  work.flops = dispatch.flops;
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
  LaunchWork work = plain_work(dispatch, chip);
  const double blocks = params_of<MatmulParams>(dispatch).blocks;
  const double rows = constant(dispatch, MATMUL_ROWS_ID, 1), tiles = constant(dispatch, MATMUL_TILES_ID, 1);
  const double multiplications = dispatch.flops / 2;
  if (chip.cpu) {
    work.instructions = multiplications / rows * (cost.multiplies * chip.conversion_share + rows - 1);
    return work;
  }
  const bool integers = dispatch.kernel.starts_with("matmul.dot");
  work.trips = std::ceil(blocks / (work.invocations / 8));
  work.flight_bytes = tiles * (4 * cost.dwords + 8);
  const uint32_t codes = static_cast<uint32_t>(constant(dispatch, MATMUL_CODES_ID, CODES_FIELDS));
  constexpr double of_dot = 0.25; // four products in an instruction
  double converting = integers ? 1.5 : cost.integers, floats = integers ? of_dot : 1;
  if (!integers && codes == CODES_BYTES) converting = cost.bytes;
  if (!integers && codes == CODES_MANTISSA && cost.mantissa < cost.integers) {
    converting = cost.mantissa;
    floats += 1 / rows + 0.9 / tiles; // the subtraction, and of x
  }
  if (has_minimums(cost.type)) floats += 1 / tiles;
  constexpr double around = 80, x_loads = 16; // of a workgroup's end, and of 32 columns
  // The plain kernel takes one tile after the other.
  const double sharing = dispatch.kernel.starts_with("matmul_portable") ? 1 : tiles;
  work.integers = multiplications * converting / rows;
  work.instructions = work.integers + multiplications * floats + multiplications / 32 / sharing * x_loads +
                      around * work.groups * work.invocations;
  work.registers = 40 + tiles * cost.dwords * 2 + rows * tiles;
  // Each workgroup loads x: as numbers, or as codes that an earlier launch made of it.
  const bool codes_of_x = integers && constant(dispatch, MATMUL_OWN_BLOCKS_ID, 0) == 0;
  work.cache_bytes += work.groups * rows * blocks * (codes_of_x ? CODES_QUADS * 16 : 32 * 4);
  work.cache_bytes +=
      std::max(0.0, loaded_weights(dispatch) - std::min(dispatch.bytes, weight_bytes(dispatch)));
  return work;
}

// What tiles in shared memory have in common: matmul_tiled.comp and matmul.cm.comp.
struct Tile {
  double rows = 0, columns = 0; // of the result
  double depth = 0;             // columns of x in a pass
  double x_bytes = 0;           // of a number of x
  double passes = 0;
};

LaunchWork tile_work(const Dispatch& dispatch, const Chip& chip, const Tile& tile) {
  LaunchWork work = plain_work(dispatch, chip);
  work.tiles = true;
  const double weights = loaded_weights(dispatch), results = work.groups * tile.rows * tile.columns * 4;
  const double x = tile.rows * tile.depth * tile.passes * tile.x_bytes;
  work.cache_bytes = work.groups * x + weights + results;
  work.trips = tile.passes;
  work.flight_bytes =
      (tile.rows * tile.depth * tile.x_bytes + weights / work.groups / tile.passes) / work.invocations;
  constexpr double of_result = 20; // instructions
  work.instructions = work.groups * tile.rows * tile.columns * of_result;
  return work;
}

// Instructions, and how many of them are operations on integers or conversions.
struct Instructions {
  double all, integers;
};

void take(LaunchWork& work, double times, const Instructions& each) {
  work.instructions += times * each.all;
  work.integers += times * each.integers;
}

// For 16 bytes of x that are put into shared memory: with the places of both.
constexpr Instructions staged_quad = {8, 4};

// For a weight that becomes a number in shared memory: decoding, its scale, and rounding to halves.
Instructions staged_weight(const WeightCost& cost, bool halves, uint32_t codes) {
  constexpr double copied = 1.5; // load, store, their places, and zeros past the end
  if (halves && cost.type == "f16") return {copied, 0};
  double integers = cost.integers, floats = 1 + (has_minimums(cost.type) ? 1 : 0) + copied;
  if (codes == CODES_BYTES) integers = cost.bytes;
  if (codes == CODES_MANTISSA && cost.mantissa < cost.integers) {
    integers = cost.mantissa;
    floats += 1; // the subtraction
  }
  if (halves) { // packed, and clamped in pairs
    integers += 0.5;
    floats += 1;
  }
  return {integers + floats, integers};
}

// An invocation has some rows and eight columns, or a pair of them, and adds up four columns of x at a time.
LaunchWork tiled_work(const Dispatch& dispatch, const Chip& chip, const WeightCost& cost) {
  const double blocks = params_of<MatmulParams>(dispatch).blocks;
  const Tile tile = {constant(dispatch, MATMUL_ROWS_ID, 64), constant(dispatch, MATMUL_TILES_ID, 8) * 8, 32,
                     4, blocks};
  LaunchWork work = tile_work(dispatch, chip, tile);
  const double rows = constant(dispatch, MATMUL_OWN_ROWS_ID, 4);
  const double columns = tile.rows * tile.columns / work.invocations / rows;
  const double numbers = work.groups * blocks * tile.depth; // of a row, of all workgroups
  constexpr double load = 16, of_load = 1.5;                // bytes, instructions
  const double multiplications = numbers * tile.rows * tile.columns;
  const double loads = multiplications / 4 / rows / columns * (rows + columns);
  work.instructions += multiplications + loads * of_load;
  take(work, numbers * tile.rows / 4, staged_quad);
  take(work, numbers * tile.columns, staged_weight(cost, false, CODES_FIELDS));
  // Lanes that share a row or a column get it together: at least two of them do.
  constexpr double shared_by = 2;
  work.shared_bytes = loads * load / shared_by + numbers * (tile.rows + tile.columns) * 4;
  work.shared_kept = (tile.rows + tile.columns) * tile.depth * 4;
  work.registers = 40 + rows * columns + 4 * (rows + 1);
  return work;
}

// Each group of invocations loads its rows and columns of a pass from shared memory, and multiplies them by
// matrices.
LaunchWork matrix_work(const Dispatch& dispatch, const Chip& chip, const WeightCost& cost) {
  const double depth = constant(dispatch, MATMUL_DEPTH_ID, 2) * 32;
  const auto params = params_of<MatmulParams>(dispatch);
  const double blocks = constant(dispatch, MATMUL_SPLIT_ID, 0) > 0 ? params.part_blocks : params.blocks;
  const Tile tile = {constant(dispatch, MATMUL_ROWS_ID, 64), constant(dispatch, MATMUL_TILES_ID, 8) * 8,
                     depth, 2, std::ceil(blocks * 32 / depth)};
  LaunchWork work = tile_work(dispatch, chip, tile);
  // A workgroup that multiplies together is divided among its subgroups by the driver: as squares, by halves.
  double groups = work.invocations / constant(dispatch, MATMUL_GROUP_ID, 32),
         down = constant(dispatch, MATMUL_GROUPS_DOWN_ID, 2);
  if (constant(dispatch, MATMUL_SCOPE_ID, MATRIX_OF_SUBGROUP) == MATRIX_OF_WORKGROUP) {
    groups = std::ceil(work.invocations / chip.subgroup);
    down = std::max(1.0, groups / 2);
  }
  const double own_rows = tile.rows / down, own_columns = tile.columns / (groups / down);
  const double numbers = work.groups * tile.passes * depth;
  const uint32_t codes = static_cast<uint32_t>(constant(dispatch, MATMUL_STAGED_CODES_ID, CODES_FIELDS));
  take(work, numbers * tile.rows / 8, staged_quad);
  take(work, numbers * tile.columns, staged_weight(cost, true, codes));
  const double multiplications = numbers * tile.rows * tile.columns;
  // Of a subgroup in a pass, as Mesa's compilers list them for NVIDIA and Intel: places, waits and loads of
  // the next pass; and its matrices, of which an instruction loads so many bytes and multiplies so many
  // numbers.
  constexpr double of_pass = 90, loaded = 512, multiplied = 2048;
  work.instructions +=
      work.groups * tile.passes * work.invocations *
      (of_pass + (own_rows + own_columns) * depth * 2 / loaded + own_rows * own_columns * depth / multiplied);
  if (chip.matrix_flops > 0)
    work.matrix_flops = 2 * multiplications;
  else
    work.instructions += multiplications; // the driver writes them out
  work.shared_bytes = numbers * 2 * (tile.rows + tile.columns + groups * (own_rows + own_columns));
  constexpr double quad = 8; // halves; one more for each row
  const double buffers = constant(dispatch, MATMUL_BUFFERS_ID, 1);
  work.overlaps = buffers > 1;
  work.shared_kept = buffers * (tile.rows + tile.columns) * (depth / quad + 1) * 16;
  const double staged = (tile.rows * depth / 2 + tile.columns * depth / 32 * cost.dwords) / work.invocations;
  work.registers = 40 + own_rows * own_columns / chip.subgroup + staged;
  return work;
}

struct CachedNumber {
  double bytes;   // of a number
  double convert; // instructions
};

CachedNumber cached_number(std::string_view kernel) {
  if (kernel.ends_with("f32")) return {4, 0};
  if (kernel.ends_with("q8_0_q4_0")) return {(34 + 18) / 64.0, 2.5};
  if (kernel.ends_with("q4_0") && !kernel.starts_with("qkv")) return {18.0 / 32, 3};
  if (kernel.ends_with("q8_0")) return {17.0 / 16, 2};
  return {2, 1};
}

// attention.cm.comp: a workgroup goes over tiles of positions. Instructions by what NVIDIA's compiler in Mesa
// lists of its loop, where all rows see all of a tile.
void take_matrices(LaunchWork& work, const Dispatch& dispatch, const Chip& chip, double seen,
                   const CachedNumber& type) {
  constexpr double positions = ATTENTION_MATRIX_KEYS, half = 2, word = 4; // bytes
  const double rows = constant(dispatch, ATTENTION_ROWS_ID, 64), n = constant(dispatch, ATTENTION_N_ID, 16),
               k = constant(dispatch, ATTENTION_K_ID, 16), m = constant(dispatch, ATTENTION_M_ID, 16);
  const double unit = std::max(n, k), size = constant(dispatch, ATTENTION_HEAD_DIM_ID, 64),
               padded = std::ceil(size / unit) * unit;
  const double groups = work.invocations / constant(dispatch, ATTENTION_GROUP_ID, 32),
               down = std::min(groups, rows / m), across = groups / down;
  const bool held = constant(dispatch, ATTENTION_HELD_ID, 0) > 0,
             apart = constant(dispatch, ATTENTION_APART_ID, 1) > 0;
  const double passes = seen / positions + 1; // the first and the last are not whole
  const double tile = positions * padded * half, scores = rows * positions;
  const double tiles = work.groups * passes;
  work.tiles = true;
  work.matrix_flops = chip.matrix_flops > 0 ? tiles * 2 * scores * 2 * padded : 0;
  // Keys and values go in once, and each row of subgroups reads them; scores, then weights, go in and out.
  work.shared_bytes = tiles * (2 * tile * (1 + down) + scores * (2 * word + half * (1 + across)) +
                               (held ? 0 : across * rows * padded * half));
  // Of 16 bytes that are staged, of a score that becomes a weight, and of an invocation's loads and products
  // of matrices and all else in a pass.
  constexpr Instructions of_quad = {27, 14};
  const double of_pass = 110 + 1.7 * padded;
  constexpr double of_score = 8, of_end = 2000;
  const double quads = 2 * positions * padded * type.bytes / 16;
  work.instructions =
      tiles * (scores * of_score + work.invocations * of_pass) + work.groups * work.invocations * of_end;
  take(work, tiles * quads * (type.bytes < 2 ? 2 : 1), of_quad);
  if (chip.matrix_flops == 0) work.instructions += tiles * scores * 2 * padded;
  work.shared_kept = std::max(held ? rows * (padded + 8) * half : 0,
                              (positions * (apart ? 2 : 1) + (held ? 0 : rows)) * (padded + 8) * half +
                                  scores * word + rows * 16);
  work.registers = 64 + (rows * padded * (held ? 1.5 : 1) + scores) / work.invocations;
  work.trips = passes;
  work.flight_bytes = 2 * positions * size * type.bytes / work.invocations;
}

constexpr double spans_ahead = 16; // whose sums are being loaded

// Sums of the spans of so many heads, of which a workgroup adds up `together`. It waits twice before it loads
// them: for the rows, or for its own stores and the counter.
void add_spans(LaunchWork& work, double heads, double spans, double size, double together) {
  work.cache_bytes += heads * spans * (size + 2) * 4;
  work.instructions += heads * spans * work.invocations * 12;
  work.trips += 2 + std::ceil(spans * together / spans_ahead);
}

// Scores, then values. The dispatch's own figures are of a cache that is half full (attention.cpp).
LaunchWork attention_work(const Dispatch& dispatch, const Chip& chip, const StepExtent& step) {
  const auto params = params_of<AttentionParams>(dispatch);
  const bool paged = constant(dispatch, ATTENTION_SHARED_ID, 0) > 1;
  const uint32_t capacity = paged ? params.position_limit : params.capacity;
  const double half = capacity / 2,
               counted = params.window > 0 ? std::min<double>(half, params.window) : half;
  double seen = std::min<double>(step.mean_positions(), capacity);
  if (params.window > 0) seen = std::min<double>(seen, params.window);
  const double size = constant(dispatch, ATTENTION_HEAD_DIM_ID, 64), row_groups = dispatch.groups[1];
  const double rows =
      std::min<double>(step.rows, row_groups * std::max(1.0, constant(dispatch, ATTENTION_TOKENS_ID, 1)));
  const CachedNumber type = cached_number(dispatch.kernel);
  const double multiplications = 2 * rows * params.heads * size * seen;
  // Each workgroup's rows load them; from memory they come once, those of each sequence.
  const double of_sequence = 2.0 * params.kv_heads * size * type.bytes * seen,
               cached = of_sequence * std::max<double>(row_groups, step.sequences());
  LaunchWork work = plain_work(dispatch, chip);
  work.flops = 2 * multiplications;
  work.memory_bytes = of_sequence * step.sequences() * std::min<double>(step.most_positions(), capacity) /
                      std::min<double>(step.mean_positions(), capacity);
  if (chip.cpu) {
    // Where the kernel makes its queries, keys and values itself, their product is a part of it.
    const double product = std::max(0.0, dispatch.flops / 2 - 2 * rows * params.heads * size * counted);
    const bool projects = dispatch.kernel.starts_with(projecting_attention);
    work.memory_bytes += projects ? weight_bytes(dispatch) : 0;
    work.cache_bytes = work.memory_bytes;
    work.instructions = multiplications * (1.5 + type.convert);
    const double converting =
        cost_of(dispatch.kernel, projecting_attention).multiplies * chip.conversion_share;
    if (projects) work.instructions += product * converting;
    return work;
  }
  if (dispatch.kernel.starts_with("attention.cm.")) {
    work.cache_bytes =
        cached * std::max(1.0, dispatch.groups[0] / std::max(1.0, double{1} * params.kv_heads));
    take_matrices(work, dispatch, chip, seen, type);
    return work;
  }
  const double heads = constant(dispatch, ATTENTION_HEADS_ID, 1),
               span = constant(dispatch, ATTENTION_SPAN_ID, 256);
  const bool split = constant(dispatch, ATTENTION_SPLIT_ID, 0) > 0;
  const double spans = std::ceil(seen / span),
               blocks = split ? std::max(1.0, span / work.invocations) : std::ceil(seen / work.invocations);
  work.groups =
      double{1} * dispatch.groups[0] * row_groups * (split ? std::min<double>(spans, dispatch.groups[2]) : 1);
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
  work.integers = multiplications * type.convert / heads;
  work.instructions =
      multiplications * of_one + work.integers +
      (of_invocation + of_heads + (rotates ? of_rotation : 0)) * work.groups * work.invocations;
  work.registers = 48 + 12 * heads + 4 * ahead;
  work.cache_bytes = cached * std::max(1.0, dispatch.groups[0] / std::max(1.0, double{1} * params.kv_heads));
  if (constant(dispatch, ATTENTION_SPLIT_ID, 0) == ATTENTION_SPLIT_LAST)
    add_spans(work, rows * params.heads, spans, size, heads);
  return work;
}

LaunchWork combine_work(const Dispatch& dispatch, const Chip& chip, double positions) {
  LaunchWork work = plain_work(dispatch, chip);
  const double size = constant(dispatch, ATTENTION_HEAD_DIM_ID, 64);
  const double spans = std::ceil(positions / constant(dispatch, ATTENTION_SPAN_ID, 256));
  work.cache_bytes = work.instructions = work.trips = 0;
  add_spans(work, work.groups, spans, size, 1);
  work.flight_bytes = spans_ahead * 12;
  return work;
}

} // namespace

LaunchWork work_of(const Dispatch& dispatch, const Chip& chip, const StepExtent& step) {
  const std::string_view kernel = dispatch.kernel;
  for (const std::string_view product : {"matmul_subgroup.", "matmul_portable.", "matmul.dot.",
                                         "matmul.cpu8.", "matmul_tiled.", "matmul.cm."}) {
    if (!kernel.starts_with(product)) continue;
    const WeightCost& cost = cost_of(kernel, product);
    if (!chip.cpu && product == "matmul_tiled.") return tiled_work(dispatch, chip, cost);
    if (!chip.cpu && product == "matmul.cm.") return matrix_work(dispatch, chip, cost);
    return product_work(dispatch, chip, cost);
  }
  if (kernel.starts_with("attention_combine")) return combine_work(dispatch, chip, step.mean_positions());
  if (kernel.starts_with("attention_portable.") || kernel.starts_with("attention.cpu8.") ||
      kernel.starts_with("attention.half8") || kernel.starts_with("attention.cm."))
    return attention_work(dispatch, chip, step);
  return plain_work(dispatch, chip);
}

} // namespace pumice
