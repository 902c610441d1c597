#include "kernel/recurrence/recurrence.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/align.h"
#include "kernel/lowering.h"
#include "kernel/weight_packing.h"
#include "shaders/recurrence/causal_convolution.params.h"
#include "shaders/recurrence/delta_gates.params.h"
#include "shaders/recurrence/delta_rule.params.h"
#include "shaders/recurrence/head_norm.params.h"
#include "shaders/recurrence/selective_scan.params.h"

namespace pumice {

namespace {

Error does_not_fit(const Operation& operation, const std::string& what) {
  return {Code::invalid_argument,
          fmt::format("{} {} does not fit {}", operation.name(), operation.describe(), what)};
}

template <class Op>
struct EveryRow : Op {
  bool by_row() const override { return false; }
};

// From one of several vectors in a buffer to the next.
uint32_t weight_stride(uint32_t count) {
  return static_cast<uint32_t>(align(count, merged_columns));
}

// A workgroup for each row, which is idle unless a run begins there, and for as many channels as it has
// invocations.
void set_work(Dispatch& dispatch, const DeviceProfile& profile, const ActivationRef& result, double flops,
              double bytes) {
  const uint32_t groups = (result.padded_columns() + profile.workgroup - 1) / profile.workgroup;
  dispatch.groups = {result.rows, groups, 1};
  dispatch.flops = flops * result.rows * result.columns;
  dispatch.bytes = bytes * result.rows * result.columns;
}

} // namespace

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
  dispatch.set_params(params);
  dispatch.bind(CAUSAL_CONVOLUTION_STEP, lowering.step(), Access::read);
  dispatch.bind(CAUSAL_CONVOLUTION_X, x.buffer, Access::read);
  dispatch.bind(CAUSAL_CONVOLUTION_TAPS, weights, Access::read);
  dispatch.bind(CAUSAL_CONVOLUTION_BIAS, bias, Access::read);
  dispatch.bind(CAUSAL_CONVOLUTION_STATE, kept.buffer, Access::read_write);
  dispatch.bind(CAUSAL_CONVOLUTION_RESULT, result.buffer, Access::write);
  set_work(dispatch, lowering.profile(), result, 2.0 * taps, 8);
  lowering.emit(std::move(dispatch));
  return {};
}

std::string SelectiveScan::describe() const {
  return fmt::format("{} heads of {}, states of {} in {} groups", heads, head_dim, size, groups);
}

Status SelectiveScan::lower(Lowering& lowering, const Node& node) const {
  const ActivationRef x = lowering.tensor(node.inputs[0]), b = lowering.tensor(node.inputs[1]),
                      c = lowering.tensor(node.inputs[2]), steps = lowering.tensor(node.inputs[3]),
                      result = lowering.tensor(node.output);
  const StateRef kept = lowering.state(state);
  const bool fits = groups > 0 && heads % groups == 0 && x.columns == columns() &&
                    b.columns == groups * size && c.columns == b.columns && steps.columns == heads;
  if (!fits || kept.layout.floats != state_floats()) {
    return does_not_fit(*this, fmt::format("{}, {}, {} and {} columns and a state of {}", x.columns,
                                           b.columns, c.columns, steps.columns, kept.layout.floats));
  }
  PUMICE_TRY(const BufferRef weights, lowering.vector(node.weights));
  Dispatch dispatch;
  dispatch.kernel = "selective_scan";
  dispatch.constants = {lowering.profile().workgroup, log_a};
  SelectiveScanParams params = {};
  params.columns = columns();
  params.head_dim = head_dim;
  params.group_heads = heads / groups;
  params.size = size;
  params.x_stride = x.stride;
  params.b_stride = b.stride;
  params.c_stride = c.stride;
  params.steps_stride = steps.stride;
  params.out_stride = result.stride;
  params.checkpoints = kept.layout.checkpoints;
  params.weight_stride = weight_stride(heads);
  params.least_step = least_step;
  params.most_step = std::min(most_step, std::numeric_limits<float>::max());
  dispatch.set_params(params);
  dispatch.bind(SELECTIVE_SCAN_STEP, lowering.step(), Access::read);
  dispatch.bind(SELECTIVE_SCAN_X, x.buffer, Access::read);
  dispatch.bind(SELECTIVE_SCAN_B, b.buffer, Access::read);
  dispatch.bind(SELECTIVE_SCAN_C, c.buffer, Access::read);
  dispatch.bind(SELECTIVE_SCAN_STEPS, steps.buffer, Access::read);
  dispatch.bind(SELECTIVE_SCAN_WEIGHTS, weights, Access::read);
  dispatch.bind(SELECTIVE_SCAN_STATE, kept.buffer, Access::read_write);
  dispatch.bind(SELECTIVE_SCAN_RESULT, result.buffer, Access::write);
  set_work(dispatch, lowering.profile(), result, 5.0 * size, 8.0 * size);
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

std::string DeltaRule::describe() const {
  return fmt::format("{} heads of {} from {} of {}", value_heads, value_dim, key_heads, key_dim);
}

Status DeltaRule::lower(Lowering& lowering, const Node& node) const {
  const ActivationRef query = lowering.tensor(node.inputs[0]), key = lowering.tensor(node.inputs[1]),
                      value = lowering.tensor(node.inputs[2]), gates = lowering.tensor(node.inputs[3]),
                      result = lowering.tensor(node.output);
  const StateRef kept = lowering.state(state);
  const bool fits = key_heads > 0 && value_heads % key_heads == 0 && query.columns == key_heads * key_dim &&
                    key.columns == query.columns && value.columns == columns() &&
                    gates.columns == 2 * value_heads;
  if (!fits || kept.layout.floats != state_floats()) {
    return does_not_fit(*this, fmt::format("{}, {}, {} and {} columns and a state of {}", query.columns,
                                           key.columns, value.columns, gates.columns, kept.layout.floats));
  }
  Dispatch dispatch;
  dispatch.kernel = "delta_rule";
  dispatch.constants = {lowering.profile().workgroup};
  DeltaRuleParams params = {};
  params.columns = columns();
  params.head_dim = value_dim;
  params.key_share = tiled ? 1 : value_heads / key_heads;
  params.key_heads = key_heads;
  params.size = key_dim;
  params.query_stride = query.stride;
  params.key_stride = key.stride;
  params.value_stride = value.stride;
  params.gates_stride = gates.stride;
  params.out_stride = result.stride;
  params.checkpoints = kept.layout.checkpoints;
  dispatch.set_params(params);
  dispatch.bind(DELTA_RULE_STEP, lowering.step(), Access::read);
  dispatch.bind(DELTA_RULE_QUERY, query.buffer, Access::read);
  dispatch.bind(DELTA_RULE_KEY, key.buffer, Access::read);
  dispatch.bind(DELTA_RULE_VALUE, value.buffer, Access::read);
  dispatch.bind(DELTA_RULE_GATES, gates.buffer, Access::read);
  dispatch.bind(DELTA_RULE_STATE, kept.buffer, Access::read_write);
  dispatch.bind(DELTA_RULE_RESULT, result.buffer, Access::write);
  set_work(dispatch, lowering.profile(), result, 11.0 * key_dim, 12.0 * key_dim);
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
  return graph.add(operation, {in.x, in.b, in.c, in.steps}, {in.step_bias, in.a, in.skip},
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
