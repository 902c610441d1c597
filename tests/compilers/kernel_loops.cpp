#include "compilers/kernel_loops.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string_view>

#include "shaders/attention/attention.params.h"
#include "shaders/matmul/matmul.params.h"
#include "shaders/recurrence/chunks.params.h"
#include "shaders/recurrence/delta_rule.params.h"
#include "shaders/recurrence/selective_scan.params.h"

using namespace pumice;

namespace {

// What workgroups load more than once mostly comes from a cache, so many times as fast as memory.
constexpr double cache_speed = 4;

template <class Params>
Params params_of(const Dispatch& dispatch) {
  Params params;
  std::memcpy(&params, dispatch.params.data(), sizeof(params));
  return params;
}

KernelWork work_of_groups(double invocations, double bytes) {
  KernelWork work;
  work.invocations = invocations;
  work.bytes = bytes;
  return work;
}

double groups_of(const Dispatch& dispatch) {
  return double{1} * dispatch.groups[0] * dispatch.groups[1] * dispatch.groups[2];
}

// Kernels with shared tiles have three loops in the one over columns: one fetches x, one fetches and decodes
// weights, 32 of them at a time, and one multiplies.
void add_tile_loops(KernelWork& work, const Dispatch& dispatch, double passes, double depth,
                    double multiplying, double multiplications) {
  const double invocations = dispatch.constants[0];
  const double fetch_x = 20, fetch_weights = 150;
  const double x_passes = std::ceil(8 * depth * dispatch.constants[MATMUL_ROWS_ID] / invocations);
  const double weight_passes = std::ceil(8 * depth * dispatch.constants[MATMUL_TILES_ID] / invocations);
  work.loops = {{fetch_x, passes * x_passes, 2},
                {fetch_weights, passes * weight_passes, 2},
                {multiplications, passes * multiplying, 2}};
  work.loop_instructions = fetch_x + fetch_weights + multiplications;
}

// Bytes that all workgroups of a product load: each its part of the weights and of x.
double loaded_by_matmul(const Dispatch& dispatch) {
  double bytes = 0;
  for (const Dispatch::Binding& binding : dispatch.bindings) {
    const double all = static_cast<double>(binding.buffer.bytes);
    if (binding.slot == MATMUL_WEIGHTS || binding.slot == MATMUL_SCALES) bytes += all * dispatch.groups[0];
    if (binding.slot == MATMUL_X) bytes += all * dispatch.groups[1];
  }
  return bytes;
}

KernelWork matmul_work(const Dispatch& dispatch) {
  const double blocks = params_of<MatmulParams>(dispatch).blocks;
  const double invocations = dispatch.constants[0], tiles = dispatch.constants[MATMUL_TILES_ID];
  const double sums = 8 * tiles * dispatch.constants[MATMUL_ROWS_ID];
  KernelWork work =
      work_of_groups(invocations, std::max(dispatch.bytes, loaded_by_matmul(dispatch) / cache_speed));
  if (dispatch.kernel.starts_with("matmul.cm")) {
    const double depth = dispatch.constants[MATMUL_DEPTH_ID]; // blocks of columns in a pass
    const double multiplying = depth * 32 / dispatch.constants[MATMUL_K_ID];
    add_tile_loops(work, dispatch, blocks / depth, depth, multiplying, 20);
    return work;
  }
  if (dispatch.kernel.starts_with("matmul_tiled")) {
    const double own_sums = sums / invocations;
    add_tile_loops(work, dispatch, blocks, 1, 8, 4 * own_sums + 20);
    work.multiplications = blocks * 32 * own_sums;
    return work;
  }
  // Eight invocations share a block of columns. The plain kernel takes one tile after the other.
  const double passes = blocks / (invocations / 8);
  const bool in_integers = dispatch.kernel.starts_with("matmul.dot"); // four in an instruction
  const bool by_tile = !in_integers && !dispatch.kernel.starts_with("matmul_subgroup") &&
                       dispatch.constants[MATMUL_TILES_ID] > 1;
  work.loops =
      by_tile ? std::vector<KernelLoop>{{1, passes * tiles, 2}} : std::vector<KernelLoop>{{1, passes, 1}};
  work.multiplications = passes * (in_integers ? 8 : 32) * sums / 8;
  return work;
}

// Its inner loops are as in the same kernel where it splits the positions: they need not be known.
KernelWork attention_work(const Dispatch& dispatch) {
  const double queries =
      double{1} * dispatch.constants[ATTENTION_HEADS_ID] * dispatch.constants[ATTENTION_TOKENS_ID];
  const double positions = dispatch.constants[0], head_dim = dispatch.constants[ATTENTION_HEAD_DIM_ID];
  const double multiplications = 2 * queries * head_dim * positions;
  const double passes = dispatch.flops / 2 / multiplications / groups_of(dispatch);
  KernelWork work = work_of_groups(positions, dispatch.bytes);
  work.loops = {{1, passes, 1}};
  work.multiplications = passes * multiplications / positions;
  return work;
}

// The plain kernels of recurrences: loops over a state in the one over rows. The state is loaded again for
// each row, by the same invocations.
KernelWork recurrence_work(const Dispatch& dispatch, double rows, double size,
                           std::initializer_list<double> instructions, double multiplications) {
  KernelWork work = work_of_groups(dispatch.constants[0], dispatch.bytes / std::min(rows, cache_speed));
  for (const double each : instructions) work.loops.push_back({each, rows * size, 2});
  work.multiplications = rows * size * multiplications;
  return work;
}

KernelWork delta_rule_work(const Dispatch& dispatch) {
  const auto params = params_of<DeltaRuleParams>(dispatch);
  return recurrence_work(dispatch, params.end_row - params.first_row, params.size, {9, 8}, 5);
}

KernelWork selective_scan_work(const Dispatch& dispatch) {
  const auto params = params_of<SelectiveScanParams>(dispatch);
  return recurrence_work(dispatch, params.end_row - params.first_row, params.size, {8}, 3);
}

// shaders/recurrence/chunk_matrices.comp, function after function. Compilers unroll the loops over a tile's
// columns, a chunk's rows, and what an invocation loads of a tile.
KernelWork chunk_matrices_work(const Dispatch& dispatch, bool delta) {
  const auto params = params_of<ChunkParams>(dispatch);
  constexpr double rows = CHUNK_ROWS, invocations = CHUNK_INVOCATIONS, tile = 16;
  const double tiles = std::ceil(params.size / tile), products = delta ? 16 : 8; // of an invocation
  KernelWork work = work_of_groups(invocations, dispatch.bytes);
  work.loops = {{30 * rows * tile / invocations, tiles, 1},        // loads a tile
                {tile * (2 * products + 8), tiles, 1},             // multiplies it
                {rows * (delta ? 20 : 14), rows / invocations, 0}, // apply_scales: an invocation for each row
                {12, rows * rows / invocations, 1}};               // writes the matrices
  work.multiplications = tiles * tile * products;
  if (delta) {
    const double columns = std::ceil((params.size + params.head_dim) / invocations);
    constexpr double triangle = rows * (rows - 1) / 2;
    work.loops.push_back({2 * triangle + 20 * rows, columns, 1}); // solve
    work.multiplications += columns * triangle;
  }
  return work;
}

// shaders/recurrence/chunk_states.comp, loop after loop.
KernelWork chunk_states_work(const Dispatch& dispatch, bool delta) {
  const auto params = params_of<ChunkParams>(dispatch);
  constexpr double rows = CHUNK_ROWS, invocations = CHUNK_INVOCATIONS;
  const double columns = dispatch.constants[CHUNKS_COLUMNS_ID], size = params.size;
  const double sharing = invocations / columns, own_rows = rows / sharing; // of invocations with one column
  // A launch does not say how many rows it has, but what it computes.
  const double chunks =
      std::ceil(dispatch.flops / groups_of(dispatch) / (columns * (6 * size + rows)) / rows);
  const double quads = std::ceil(size / 4), own_quads = std::ceil(quads / sharing);
  const double load = dispatch.constants[CHUNKS_QUADS_ID] ? 4 : 16; // four keys or queries
  const double blocks = std::ceil(params.head_dim / columns);       // each loads the head's queries and keys
  KernelWork work = work_of_groups(invocations, dispatch.bytes / std::min(blocks, cache_speed));
  work.loops = {{6 + own_rows * (load + (delta ? 16 : 6)), chunks * quads, 2}, // read_state
                {15 * own_rows, chunks, 1},                                    // the rows' changes
                {25, chunks * own_rows, 2},                                    // their results
                {14, chunks * own_rows * rows / 8, 3},           // what earlier rows add to them
                {14, chunks * own_quads, 2},                     // advance_state
                {load + 8, chunks * own_quads * rows, 3},        // each row's part in it
                {6 * std::ceil(size / sharing), chunks / 2, 1}}; // keeps states
  work.multiplications =
      chunks * (quads * 4 * own_rows * (delta ? 2 : 1) + rows / 2 * own_rows + own_quads * 4 * rows);
  return work;
}

// Launches beside those of a variant's own kernel, whose loops do not matter.
constexpr std::array side_kernels = {"attention_combine", "halve_rows", "quantize_rows", "rotary_store"};

} // namespace

std::optional<KernelWork> kernel_work(const Dispatch& dispatch) {
  const std::string_view kernel = dispatch.kernel;
  const auto is = [&](std::string_view name) {
    return kernel.starts_with(name) && (kernel.size() == name.size() || kernel[name.size()] == '.');
  };
  if (kernel.find(".cpu8") != kernel.npos) return {};
  // Only measuring takes it, as all that rounds: no order needs to know what it costs.
  if (is("matmul") && dispatch.constants.size() > MATMUL_SPLIT_ID) return {};
  if (is("matmul") || is("matmul_portable") || is("matmul_tiled") || is("matmul_subgroup"))
    return matmul_work(dispatch);
  // Of attention by matrices the loops are three deep, and compilers' estimates of them are far off.
  if (is("attention_portable")) return attention_work(dispatch);
  // How long the runs of several sequences are is not the launch's.
  const bool delta = is("chunk_matrices.delta") || is("chunk_states.delta");
  if (is("chunk_matrices") && dispatch.constants[CHUNKS_ONE_RUN_ID])
    return chunk_matrices_work(dispatch, delta);
  if (is("chunk_states") && dispatch.constants[CHUNKS_ONE_RUN_ID]) return chunk_states_work(dispatch, delta);
  if (is("delta_rule_portable") && dispatch.groups[0] == 1) return delta_rule_work(dispatch);
  if (is("selective_scan_portable") && dispatch.groups[0] == 1) return selective_scan_work(dispatch);
  for (const char* name : side_kernels) {
    if (is(name)) return work_of_groups(dispatch.constants[0], dispatch.bytes);
  }
  return {};
}
