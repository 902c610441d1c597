#include "kernel/recurrence/gru.h"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "base/align.h"
#include "kernel/lowering.h"
#include "kernel/weight_packing.h"
#include "shaders/recurrence/attentive_gru.params.h"
#include "shaders/recurrence/gru.params.h"

namespace pumice {

namespace {

// Some drivers end a shader's loops after 65,535 passes in all. A longer recurrence is several launches.
constexpr double most_passes = 60000;
constexpr uint32_t columns_of_an_invocation = 16; // of an invocation
constexpr uint32_t largest_gru_workgroup = 128;

// A workgroup computes a whole state, so more invocations are worth it than elsewhere.
uint32_t gru_workgroup(const DeviceProfile& profile, uint32_t hidden) {
  const uint32_t wanted = std::bit_ceil(
      profile.cpu ? (hidden + columns_of_an_invocation - 1) / columns_of_an_invocation : hidden);
  return std::clamp(wanted, std::min(profile.workgroup, largest_gru_workgroup), largest_gru_workgroup);
}

Error gru_does_not_fit(const Operation& operation, const std::string& what) {
  return {Code::unsupported,
          fmt::format("{} {} does not fit {}", operation.name(), operation.describe(), what)};
}

uint32_t weight_floats(uint64_t elements) {
  return static_cast<uint32_t>(align(elements, uint64_t{merged_columns}));
}

// Columns of a state that an invocation computes.
double columns_of(uint32_t hidden, uint32_t width) {
  return (hidden + width - 1) / width;
}

// Passes of a product's loops: eight columns in each, then what is left one by one.
double product_passes(uint32_t columns) {
  return columns / 8 + columns % 8 + 3;
}

// How many positions one launch computes, where each takes so many passes of loops.
Result<uint32_t> steps_of_launch(const Operation& operation, double passes, uint32_t rows) {
  if (passes > most_passes)
    return gru_does_not_fit(operation, fmt::format("{} passes of a kernel's loops", most_passes));
  return static_cast<uint32_t>(std::min<double>(rows, most_passes / std::max(passes, 1.0)));
}

// Launches of `steps` positions each.
template <class Params>
void emit_parts(Lowering& lowering, const Dispatch& whole, Params params, uint32_t rows, uint32_t steps) {
  const uint32_t parts = (rows + steps - 1) / steps;
  for (uint32_t part = 0; part < parts; ++part) {
    Dispatch dispatch = whole;
    params.first_step = part * steps;
    params.steps = steps;
    dispatch.flops /= parts;
    dispatch.bytes /= parts;
    dispatch.set_params(params);
    lowering.emit(std::move(dispatch));
  }
}

} // namespace

std::string Gru::describe() const {
  return fmt::format("of {} columns", hidden);
}

Status Gru::lower(Lowering& lowering, const Node& node) const {
  const DeviceProfile& profile = lowering.profile();
  const uint32_t directions = static_cast<uint32_t>(node.inputs.size());
  const ActivationRef gates = lowering.tensor(node.inputs.front()),
                      backward = lowering.tensor(node.inputs.back()), result = lowering.tensor(node.output);
  if (hidden > most_gru_columns || gates.columns != 3 * hidden || backward.columns != 3 * hidden ||
      result.columns != directions * hidden) {
    return gru_does_not_fit(*this, fmt::format("gates of {} columns", gates.columns));
  }
  PUMICE_TRY(const BufferRef weights, lowering.vector(node.weights));
  const uint32_t width = gru_workgroup(profile, hidden);
  Dispatch dispatch;
  dispatch.kernel = "gru";
  dispatch.constants = {width, hidden};
  GruParams params = {};
  params.gates_stride = gates.stride;
  params.backward_stride = backward.stride;
  params.out_stride = result.stride;
  params.bias = weight_floats(uint64_t{3} * hidden * hidden);
  params.direction = params.bias + weight_floats(uint64_t{3} * hidden);
  params.directions = directions;
  params.details = lowering.step_layout().details();
  dispatch.bind(GRU_STEP, lowering.step(), Access::read);
  dispatch.bind(GRU_GATES, gates.buffer, Access::read);
  dispatch.bind(GRU_BACKWARD, backward.buffer, Access::read);
  dispatch.bind(GRU_WEIGHTS, weights, Access::read);
  dispatch.bind(GRU_RESULT, result.buffer, Access::read_write);
  dispatch.groups = {result.rows, directions, 1};
  dispatch.flops = 6.0 * hidden * hidden * directions * result.rows;
  dispatch.bytes = 12.0 * hidden * hidden * directions * result.rows;
  const double passes = columns_of(hidden, width) * (3 * product_passes(hidden) + 16);
  PUMICE_TRY(const uint32_t steps, steps_of_launch(*this, passes, result.rows));
  emit_parts(lowering, dispatch, params, result.rows, steps);
  return {};
}

std::string AttentiveGru::describe() const {
  return fmt::format("of {} columns, states in cache {}, the input in cache {}", hidden, states, memory);
}

Status AttentiveGru::lower(Lowering& lowering, const Node& node) const {
  const DeviceProfile& profile = lowering.profile();
  const ActivationRef x = lowering.tensor(node.inputs[0]), result = lowering.tensor(node.output);
  const CacheRef kept = lowering.cache(states), read = lowering.cache(memory);
  const CacheLayout &own = kept.layout, &input = read.layout;
  if (own.type != CacheType::f32 && own.type != CacheType::f16) {
    return Error{Code::unsupported,
                 fmt::format("a cache of {} cannot keep the states of a recurrent decoder: use f32 or f16",
                             to_string(own.type))};
  }
  if (hidden > most_gru_columns || x.columns != hidden || result.columns != 3 * hidden || own.kv_heads != 1 ||
      own.head_dim != hidden || input.kv_heads != 1 || input.head_dim != hidden) {
    return gru_does_not_fit(*this, fmt::format("{} columns", x.columns));
  }
  PUMICE_TRY(const BufferRef weights, lowering.vector(node.weights));
  const uint32_t width = gru_workgroup(profile, hidden);
  const bool keeps = !node.more_outputs.empty();
  const ActivationRef shares = keeps ? lowering.tensor(node.more_outputs[0]) : ActivationRef{};
  const StepLayout& layout = lowering.step_layout();
  Dispatch dispatch;
  dispatch.kernel = std::string("attentive_gru.") + to_string(own.type);
  dispatch.constants = {width, hidden, layout.positions > 0 ? 1u : 0u, keeps ? 1u : 0u};
  AttentiveGruParams params = {};
  params.x_stride = x.stride;
  params.out_stride = result.stride;
  params.shares_stride = shares.stride;
  params.shares = shares.columns;
  params.memory_capacity = input.capacity;
  params.capacity = own.capacity;
  params.sequences = own.sequences;
  params.sequence_quads = layout.sequence_quads();
  params.cache_indirection = layout.cache_indirection();
  params.indirection_positions = layout.positions;
  const uint32_t square = weight_floats(uint64_t{hidden} * hidden);
  params.bridge_bias = square;
  params.query = params.bridge_bias + weight_floats(hidden);
  params.score = params.query + square;
  params.cell_input = params.score + weight_floats(hidden);
  params.cell_input_bias = params.cell_input + weight_floats(uint64_t{6} * hidden * hidden);
  params.cell_state = params.cell_input_bias + weight_floats(uint64_t{3} * hidden);
  params.cell_state_bias = params.cell_state + weight_floats(uint64_t{3} * hidden * hidden);
  dispatch.bind(ATTENTIVE_GRU_STEP, lowering.step(), Access::read);
  dispatch.bind(ATTENTIVE_GRU_X, x.buffer, Access::read);
  dispatch.bind(ATTENTIVE_GRU_KEYS, read.keys, Access::read);
  dispatch.bind(ATTENTIVE_GRU_VALUES, read.values, Access::read);
  dispatch.bind(ATTENTIVE_GRU_STATES, kept.keys, Access::read_write);
  dispatch.bind(ATTENTIVE_GRU_MATRICES, weights, Access::read);
  dispatch.bind(ATTENTIVE_GRU_RESULT, result.buffer, Access::read_write);
  dispatch.bind(ATTENTIVE_GRU_SHARES, keeps ? shares.buffer : result.buffer,
                keeps ? Access::write : Access::read_write);
  dispatch.groups = {result.rows, 1, 1};
  const double positions = input.capacity;
  dispatch.flops = result.rows * hidden * (20.0 * hidden + 8.0 * positions);
  dispatch.bytes = 4.0 * result.rows * hidden * (10.0 * hidden + 2.0 * positions);
  const double scores = positions / width * (hidden / 4.0 + width + 8) * (keeps ? 2 : 1);
  const double products = 4 * product_passes(hidden) + 3 * product_passes(2 * hidden);
  const double passes = columns_of(hidden, width) * (2 * positions + products + 32) + scores + positions;
  PUMICE_TRY(const uint32_t steps, steps_of_launch(*this, passes, result.rows));
  emit_parts(lowering, dispatch, params, result.rows, steps);
  return {};
}

TensorId gru(Graph& graph, std::string name, std::span<const TensorId> gates,
             std::span<const GruWeights> weights, uint32_t hidden) {
  Gru operation;
  operation.hidden = hidden;
  std::vector<WeightId> ids;
  for (const GruWeights& each : weights) ids.insert(ids.end(), {each.matrix, each.bias});
  return graph.add(operation, {gates.begin(), gates.end()}, std::move(ids),
                   {std::move(name), RowKind::tokens, static_cast<uint32_t>(gates.size()) * hidden});
}

TensorId attentive_gru(Graph& graph, std::string name, TensorId x, const AttentiveGruWeights& weights,
                       const AttentiveGru& operation) {
  return graph.add(operation, {x},
                   {weights.bridge, weights.bridge_bias, weights.query, weights.score, weights.input,
                    weights.input_bias, weights.state, weights.state_bias},
                   {std::move(name), RowKind::tokens, 3 * operation.hidden});
}

TensorId attentive_gru_weights(Graph& graph, std::string name, TensorId gru, uint32_t context) {
  return graph.add_output(graph.producer(gru), {std::move(name), RowKind::tokens, context});
}

} // namespace pumice
