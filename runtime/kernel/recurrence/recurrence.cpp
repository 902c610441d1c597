#include "kernel/recurrence/recurrence.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/align.h"
#include "kernel/lowering.h"
#include "kernel/recurrence/recurrence_variants.h"
#include "kernel/weight_packing.h"
#include "shaders/recurrence/causal_convolution.params.h"
#include "shaders/recurrence/delta_gates.params.h"
#include "shaders/recurrence/head_norm.params.h"

namespace pumice {

namespace {

template <class Op>
struct EveryRow : Op {
  bool by_row() const override { return false; }
};

} // namespace

Error does_not_fit(const Operation& operation, const std::string& what) {
  return {Code::invalid_argument,
          fmt::format("{} {} does not fit {}", operation.name(), operation.describe(), what)};
}

uint32_t weight_stride(uint32_t count) {
  return static_cast<uint32_t>(align(count, merged_columns));
}

uint32_t most_runs(const Lowering& lowering, uint32_t rows) {
  return lowering.step_layout().sequences == 1 ? 1 : rows;
}

void set_channel_work(Dispatch& dispatch, const Lowering& lowering, const ActivationRef& result,
                      const ChannelCost& cost, uint32_t channels) {
  if (channels == 0) channels = lowering.profile().workgroup;
  const uint32_t groups = (result.padded_columns() + channels - 1) / channels;
  dispatch.groups = {most_runs(lowering, result.rows), groups, 1};
  dispatch.flops = cost.flops * result.rows * result.columns;
  dispatch.bytes = cost.bytes * result.rows * result.columns;
}

uint32_t rows_of_part(const DeviceProfile& profile, uint32_t rows, uint32_t loops_per_row) {
  constexpr uint32_t most_loops = 60'000;
  if (!profile.cpu) return rows;
  return std::clamp(most_loops / (loops_per_row + 2), 1u, rows);
}

bool fits_vectors(const DeviceProfile& profile, uint32_t size) {
  constexpr uint32_t largest = 256; // of a state; its registers are 8 lanes wide
  return profile.cpu8 && size <= largest;
}

VectorShape vector_shape(const DeviceProfile& profile, uint32_t size, uint32_t head_dim) {
  VectorShape shape;
  shape.size = size;
  // Two share their loads, and their states fit the registers. The same for any number of rows: compilers
  // fuse additions with multiplications in other places where the shape is another.
  shape.channels = head_dim % 2 == 0 ? 2 : 1;
  shape.uniform = profile.uniform_loads && size % 8 == 0;
  return shape;
}

std::string CausalConvolution::describe() const {
  return fmt::format("of {} positions, {}", taps, to_string(activation));
}

Status CausalConvolution::lower(Lowering& lowering, const Node& node) const {
  const ActivationRef x = lowering.tensor(node.inputs[0]), result = lowering.tensor(node.output);
  const StateRef kept = lowering.state(state);
  if (taps < 2 || taps > most_taps || kept.layout.floats != state_floats(x.columns, taps)) {
    return does_not_fit(*this, fmt::format("{} columns and a state of {}", x.columns, kept.layout.floats));
  }
  PUMICE_TRY(const BufferRef weights, lowering.vector(node.weights[0]));
  BufferRef bias = weights;
  const bool has_bias = node.weights.size() > 1;
  if (has_bias) {
    PUMICE_TRY(bias, lowering.vector(node.weights[1]));
  }
  Dispatch dispatch;
  dispatch.kernel = "causal_convolution";
  dispatch.constants = {lowering.profile().workgroup, taps, static_cast<uint32_t>(activation), has_bias};
  CausalConvolutionParams params = {};
  params.columns = x.columns;
  params.x_stride = x.stride;
  params.out_stride = result.stride;
  params.checkpoints = kept.layout.checkpoints;
  params.drafts = kept.layout.drafts;
  dispatch.set_params(params);
  dispatch.bind(CAUSAL_CONVOLUTION_STEP, lowering.step(), Access::read);
  dispatch.bind(CAUSAL_CONVOLUTION_X, x.buffer, Access::read);
  dispatch.bind(CAUSAL_CONVOLUTION_TAPS, weights, Access::read);
  dispatch.bind(CAUSAL_CONVOLUTION_BIAS, bias, Access::read);
  dispatch.bind(CAUSAL_CONVOLUTION_STATE, kept.buffer, Access::read_write);
  dispatch.bind(CAUSAL_CONVOLUTION_RESULT, result.buffer, Access::write);
  set_channel_work(dispatch, lowering, result, {2.0 * taps, 8});
  lowering.emit(std::move(dispatch));
  return {};
}

Status DeltaGates::lower(Lowering& lowering, const Node& node) const {
  const ActivationRef decays = lowering.tensor(node.inputs[0]), rates = lowering.tensor(node.inputs[1]),
                      result = lowering.tensor(node.output);
  PUMICE_TRY(const BufferRef weights, lowering.vector(node.weights));
  Dispatch dispatch;
  dispatch.kernel = "delta_gates";
  dispatch.constants = {lowering.profile().workgroup, log_a};
  DeltaGatesParams params = {};
  params.heads = decays.columns;
  params.decays_stride = decays.stride;
  params.rates_stride = rates.stride;
  params.out_stride = result.stride;
  params.weight_stride = weight_stride(decays.columns);
  dispatch.set_params(params);
  dispatch.bind(DELTA_GATES_STEP, lowering.step(), Access::read);
  dispatch.bind(DELTA_GATES_DECAYS, decays.buffer, Access::read);
  dispatch.bind(DELTA_GATES_RATES, rates.buffer, Access::read);
  dispatch.bind(DELTA_GATES_WEIGHTS, weights, Access::read);
  dispatch.bind(DELTA_GATES_RESULT, result.buffer, Access::write);
  dispatch.groups = {result.rows, 1, 1};
  dispatch.flops = 20.0 * result.rows * result.columns;
  dispatch.bytes = 8.0 * result.rows * result.columns;
  lowering.emit(std::move(dispatch));
  return {};
}

std::string HeadNorm::describe() const {
  return fmt::format("of {} columns, eps {:g}", head_dim, eps);
}

Status HeadNorm::lower(Lowering& lowering, const Node& node) const {
  const ActivationRef x = lowering.tensor(node.inputs[0]), result = lowering.tensor(node.output);
  if (head_dim == 0 || x.columns % head_dim) {
    return does_not_fit(*this, fmt::format("{} columns", x.columns));
  }
  PUMICE_TRY(const BufferRef weight, lowering.vector(node.weights[0]));
  Dispatch dispatch;
  dispatch.kernel = "head_norm";
  dispatch.constants = {lowering.profile().workgroup};
  HeadNormParams params = {};
  params.columns = x.columns;
  params.head_dim = head_dim;
  params.weights = static_cast<uint32_t>(lowering.graph().weight(node.weights[0]).view.rows *
                                         lowering.graph().weight(node.weights[0]).view.columns);
  params.x_stride = x.stride;
  params.out_stride = result.stride;
  params.eps = eps;
  dispatch.set_params(params);
  dispatch.bind(HEAD_NORM_STEP, lowering.step(), Access::read);
  dispatch.bind(HEAD_NORM_X, x.buffer, Access::read);
  dispatch.bind(HEAD_NORM_WEIGHT, weight, Access::read);
  dispatch.bind(HEAD_NORM_RESULT, result.buffer, Access::write);
  dispatch.groups = {result.rows, 1, 1};
  dispatch.flops = 4.0 * result.rows * result.columns;
  dispatch.bytes = 8.0 * result.rows * result.columns;
  lowering.emit(std::move(dispatch));
  return {};
}

TensorId causal_convolution(Graph& graph, std::string name, TensorId x, WeightId weights,
                            std::optional<WeightId> bias, const CausalConvolution& operation) {
  std::vector<WeightId> ids = {weights};
  if (bias) ids.push_back(*bias);
  return graph.add(operation, {x}, std::move(ids),
                   {std::move(name), RowKind::tokens, graph.tensor(x).columns});
}

TensorId selective_scan(Graph& graph, std::string name, const SelectiveScanInputs& in,
                        const SelectiveScan& operation) {
  return graph.add(operation, {in.x, in.b, in.c, in.steps}, {in.step_bias, in.skip, in.a},
                   {std::move(name), RowKind::tokens, operation.columns()});
}

TensorId delta_rule(Graph& graph, std::string name, const DeltaRuleInputs& in, const DeltaRule& operation) {
  DeltaGates opening;
  opening.log_a = operation.log_a;
  const TensorId gates = graph.add(opening, {in.decays, in.rates}, {in.decay_bias, in.a},
                                   {name + ".gates", RowKind::tokens, 2 * operation.value_heads});
  return graph.add(operation, {in.query, in.key, in.value, gates}, {},
                   {std::move(name), RowKind::tokens, operation.columns()});
}

TensorId head_norm(Graph& graph, std::string name, TensorId x, WeightId weight, uint32_t head_dim,
                   float eps) {
  HeadNorm operation;
  operation.head_dim = head_dim;
  operation.eps = eps;
  return graph.add(operation, {x}, {weight}, {std::move(name), RowKind::tokens, graph.tensor(x).columns});
}

TensorId add_every_row(Graph& graph, std::string name, TensorId a, TensorId b) {
  return graph.add(EveryRow<Add>(), {a, b}, {}, {std::move(name), RowKind::tokens, graph.tensor(a).columns});
}

TensorId gate_every_row(Graph& graph, std::string name, TensorId a, TensorId b, Activation activation) {
  EveryRow<Gate> operation;
  operation.activation = activation;
  return graph.add(operation, {a, b}, {}, {std::move(name), RowKind::tokens, graph.tensor(a).columns});
}

TensorId sigmoid_gate_every_row(Graph& graph, std::string name, TensorId a, TensorId b) {
  return graph.add(EveryRow<GateRows>(), {a, b}, {},
                   {std::move(name), RowKind::tokens, graph.tensor(a).columns});
}

} // namespace pumice
