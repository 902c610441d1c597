#include <algorithm>
#include <bit>
#include <limits>

#include "base/align.h"
#include "kernel/recurrence/recurrence_variants.h"
#include "shaders/recurrence/chunks.params.h"

namespace pumice {

namespace {

// What both operations' kernels need.
struct Chunks {
  ChunkParams params = {};
  ActivationRef query, key, value, gates, result;
  StateRef state;
  uint32_t heads = 0;
  std::string variant;              // of the kernels
  std::optional<BufferRef> weights; // the scan's
  bool log_a = false;

  bool delta() const { return !weights; }
  uint32_t rows() const { return result.rows; }
};

void set_inputs(Chunks& chunks, const ActivationRef& query, const ActivationRef& key,
                const ActivationRef& value, const ActivationRef& gates, const ActivationRef& result,
                const StateRef& state) {
  chunks.query = query;
  chunks.key = key;
  chunks.value = value;
  chunks.gates = gates;
  chunks.result = result;
  chunks.state = state;
  ChunkParams& params = chunks.params;
  params.columns = result.columns;
  params.query_stride = query.stride;
  params.key_stride = key.stride;
  params.value_stride = value.stride;
  params.gates_stride = gates.stride;
  params.out_stride = result.stride;
  params.checkpoints = state.layout.checkpoints;
  params.drafts = state.layout.drafts;
}

// Floats of shared memory of a workgroup of chunk_states.
uint64_t shared_floats(uint32_t size, uint32_t columns) {
  return (align(size, 4) + CHUNK_ROWS) * columns + CHUNK_ROWS + 1;
}

// Columns of a workgroup of chunk_states: more share what they load, fewer keep more of the device busy. 0:
// the state of the fewest does not fit.
uint32_t workgroup_columns(const DeviceProfile& profile, uint32_t size, uint32_t heads, uint32_t head_dim) {
  constexpr uint32_t fewest = 8, most = 32;
  const auto fits = [&](uint32_t columns) {
    return shared_floats(size, columns) * sizeof(float) <= profile.shared_bytes;
  };
  if (!fits(fewest)) return 0;
  uint32_t columns = fewest;
  while (columns < most && columns < head_dim && fits(2 * columns) &&
         uint64_t{heads} * head_dim / (2 * columns) >= profile.busy_groups) {
    columns *= 2;
  }
  return columns;
}

// The most rows that go on with texts in the steps of one size, with guesses.
uint32_t decoding_rows(uint32_t sequences, const StateLayout& states) {
  return states.drafts == 0 ? sequences : std::bit_ceil(sequences * (states.drafts + 1));
}

// A step of no more rows than these mostly has few of each sequence, and a chunk for each of them would be
// all but empty. Nor does it store states between its rows, to which guesses go back.
bool runs(const DeviceProfile& profile, uint32_t rows, uint32_t decoding, uint32_t heads, uint32_t size) {
  constexpr uint32_t fewest_rows = 16;        // below, a chunk is mostly empty
  constexpr uint64_t matrices_bytes = 15'000; // of shared memory in chunk_matrices
  const uint64_t floats = uint64_t{rows} * heads * std::max<uint64_t>(align(size, 4), CHUNK_RECORD);
  return profile.shared_bytes >= matrices_bytes && workgroup_columns(profile, size, heads, 1) > 0 &&
         floats * sizeof(float) <= profile.range_bytes &&
         ((rows >= fewest_rows && rows > decoding) || profile.forced == delta_rule_chunked.name);
}

void set_cost(Dispatch& dispatch, double rows, double flops, double bytes) {
  dispatch.flops = rows * flops;
  dispatch.bytes = rows * bytes;
}

Status lower_chunks(Lowering& lowering, const Chunks& chunks) {
  const ChunkParams& params = chunks.params;
  const uint32_t rows = chunks.rows(), heads = chunks.heads, size = params.size;
  const bool one_run = most_runs(lowering, rows) == 1;
  const BufferRef matrices = lowering.temporary(uint64_t{rows} * heads * CHUNK_RECORD * sizeof(float));
  const uint64_t change_bytes = uint64_t{rows} * heads * align(size, 4) * sizeof(float);
  const std::optional<BufferRef> changes =
      chunks.delta() ? std::optional(lowering.temporary(change_bytes)) : std::nullopt;

  const auto prepare = [&](const char* kernel, Access made) {
    Dispatch dispatch;
    dispatch.kernel = kernel + chunks.variant;
    dispatch.set_params(params);
    dispatch.set_constant(CHUNKS_ONE_RUN_ID, one_run);
    dispatch.set_constant(CHUNKS_SIZE_ID, size);
    dispatch.bind(CHUNKS_STEP, lowering.step(), Access::read);
    dispatch.bind(CHUNKS_QUERY, chunks.query.buffer, Access::read);
    dispatch.bind(CHUNKS_KEY, chunks.key.buffer, Access::read);
    dispatch.bind(CHUNKS_MATRICES, matrices, made);
    if (changes) dispatch.bind(CHUNKS_CHANGES, *changes, made);
    if (chunks.weights) dispatch.bind(CHUNKS_WEIGHTS, *chunks.weights, Access::read);
    return dispatch;
  };
  const double n = size, c = CHUNK_ROWS, d = params.head_dim;
  Dispatch first = prepare("chunk_matrices.", Access::write);
  first.set_constant(CHUNKS_LOG_A_ID, chunks.log_a);
  first.bind(CHUNKS_VALUE, chunks.value.buffer, Access::read);
  first.bind(CHUNKS_GATES, chunks.gates.buffer, Access::read);
  if (chunks.delta()) first.bind(CHUNKS_RESULT, chunks.result.buffer, Access::write);
  // A run's first chunk may be short. Of several runs, each row may begin one.
  first.groups = {one_run ? (rows + 2 * CHUNK_ROWS - 2) / CHUNK_ROWS : rows, heads, 1};
  set_cost(first, rows, heads * (4 * n * c + (chunks.delta() ? c * (n + d) : 0)),
           heads * 4 * (3 * n + 2 * d + c));

  Dispatch second = prepare("chunk_states.", Access::read);
  const uint32_t columns = workgroup_columns(lowering.profile(), size, heads, params.head_dim);
  const bool quads = size % 4 == 0 && params.query_stride % 4 == 0 && params.key_stride % 4 == 0;
  second.set_constant(CHUNKS_QUADS_ID, quads);
  second.set_constant(CHUNKS_COLUMNS_ID, columns);
  if (!chunks.delta()) second.bind(CHUNKS_VALUE, chunks.value.buffer, Access::read);
  second.bind(CHUNKS_STATE, chunks.state.buffer, Access::read_write);
  second.bind(CHUNKS_RESULT, chunks.result.buffer, Access::read_write);
  const uint32_t blocks = (params.head_dim + columns - 1) / columns;
  // One more clears the padding.
  second.groups = {most_runs(lowering, rows), heads * blocks + 1, 1};
  set_cost(second, rows, heads * d * (6 * n + c), heads * 4 * (blocks * (3 * n + c) + 3 * d));

  lowering.emit(std::move(first));
  lowering.emit(std::move(second));
  return {};
}

bool delta_runs(const DeviceProfile& profile, const DeltaRuleArgs& args) {
  return runs(profile, args.result.rows, decoding_rows(args.sequences, args.state.layout),
              args.shape.value_heads, args.shape.key_dim);
}

Status lower_delta(Lowering& lowering, const DeltaRuleArgs& args) {
  Chunks chunks;
  set_inputs(chunks, args.query, args.key, args.value, args.gates, args.result, args.state);
  chunks.variant = "delta";
  chunks.heads = args.shape.value_heads;
  chunks.params.head_dim = args.shape.value_dim;
  chunks.params.size = args.shape.key_dim;
  chunks.params.key_share = args.shape.key_share();
  chunks.params.key_heads = args.shape.key_heads;
  return lower_chunks(lowering, chunks);
}

bool scan_runs(const DeviceProfile& profile, const SelectiveScanArgs& args) {
  return !args.shape.wide && runs(profile, args.result.rows, decoding_rows(args.sequences, args.state.layout),
                                  args.shape.heads, args.shape.size);
}

Status lower_scan(Lowering& lowering, const SelectiveScanArgs& args) {
  Chunks chunks;
  set_inputs(chunks, args.c, args.b, args.x, args.steps, args.result, args.state);
  chunks.variant = "scan";
  chunks.heads = args.shape.heads;
  chunks.weights = args.weights;
  chunks.log_a = args.shape.log_a;
  chunks.params.head_dim = args.shape.head_dim;
  chunks.params.size = args.shape.size;
  chunks.params.key_share = args.shape.heads / args.shape.groups;
  chunks.params.key_heads = args.shape.groups;
  chunks.params.weight_stride = weight_stride(args.shape.heads);
  chunks.params.least_step = args.shape.least_step;
  chunks.params.most_step = std::min(args.shape.most_step, std::numeric_limits<float>::max());
  return lower_chunks(lowering, chunks);
}

constexpr std::string_view summary = "For GPUs: many tokens, in chunks by products of matrices";

} // namespace

const KernelVariant<DeltaRuleArgs> delta_rule_chunked = {"chunked", summary, delta_runs, lower_delta};
const KernelVariant<SelectiveScanArgs> selective_scan_chunked = {"chunked", summary, scan_runs, lower_scan};

} // namespace pumice
