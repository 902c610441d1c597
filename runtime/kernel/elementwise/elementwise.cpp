#include "kernel/elementwise/elementwise.h"

#include <fmt/format.h>

#include "kernel/row_kernel.h"
#include "shaders/elementwise/elementwise.params.h"
#include "shaders/elementwise/sparse_gate.params.h"

namespace pumice {

namespace {

uint32_t shader_kind(ElementwiseKind kind) {
  switch (kind) {
  case ElementwiseKind::add:
    return ELEMENTWISE_ADD;
  case ElementwiseKind::gate:
    return ELEMENTWISE_GATE;
  case ElementwiseKind::activate:
    return ELEMENTWISE_ACTIVATE;
  case ElementwiseKind::scale:
    return ELEMENTWISE_SCALE;
  case ElementwiseKind::soft_cap:
    return ELEMENTWISE_SOFT_CAP;
  case ElementwiseKind::gate_rows:
    return ELEMENTWISE_GATE_ROWS;
  case ElementwiseKind::gate_sigmoid:
    return ELEMENTWISE_GATE_SIGMOID;
  case ElementwiseKind::clamp:
    return ELEMENTWISE_CLAMP;
  case ElementwiseKind::xielu:
    return ELEMENTWISE_XIELU;
  }
  return ELEMENTWISE_ADD;
}

Status lower_as(ElementwiseKind kind, Activation activation, Lowering& lowering, const Node& node,
                float amount = 1, const XieluCurve& curve = {}, float least = 0) {
  ElementwiseArgs args;
  args.kind = kind;
  args.activation = activation;
  args.amount = amount;
  args.least = least;
  args.curve = curve;
  args.a = lowering.tensor(node.inputs[0]);
  if (node.inputs.size() > 1) args.b = lowering.tensor(node.inputs[1]);
  args.result = lowering.tensor(node.output);
  args.step = lowering.step();
  lowering.emit(elementwise(lowering.profile(), args));
  return {};
}

template <class Op>
TensorId add_node(Graph& graph, std::string name, Op operation, std::vector<TensorId> inputs) {
  const Tensor& a = graph.tensor(inputs[0]);
  return graph.add(operation, std::move(inputs), {}, {std::move(name), a.rows, a.columns});
}

} // namespace

Dispatch elementwise(const DeviceProfile& profile, const ElementwiseArgs& args) {
  Dispatch dispatch;
  dispatch.kernel = "elementwise";
  dispatch.constants = {profile.workgroup, shader_kind(args.kind), static_cast<uint32_t>(args.activation)};
  ElementwiseParams params = {};
  const BoundView a = bound_view(args.a), b = args.b ? bound_view(*args.b) : BoundView();
  params.columns = args.a.columns;
  params.a_first = a.first;
  params.b_first = b.first;
  params.a_stride = args.a.stride;
  params.b_stride = args.b ? args.b->stride : 0;
  params.out_stride = args.result.stride;
  params.rows_kind = args.a.rows_kind;
  params.amount = args.amount;
  params.least = args.least;
  params.rise = args.curve.rise;
  params.fall = args.curve.fall;
  params.slope = args.curve.slope;
  params.end = args.curve.end;
  dispatch.set_params(params);
  dispatch.bind(ELEMENTWISE_STEP, args.step, Access::read);
  dispatch.bind(ELEMENTWISE_A, a.buffer, Access::read);
  if (args.b) dispatch.bind(ELEMENTWISE_B, b.buffer, Access::read);
  dispatch.bind(ELEMENTWISE_RESULT, args.result.buffer, Access::write);
  dispatch.groups = {args.a.rows, row_groups(profile, args.result), 1};
  const double elements = double{1} * args.a.rows * args.a.columns;
  dispatch.flops = elements * (args.kind == ElementwiseKind::add ? 1 : 10);
  dispatch.bytes = elements * (args.b ? 12 : 8);
  return dispatch;
}

Status Add::lower(Lowering& lowering, const Node& node) const {
  return lower_as(ElementwiseKind::add, Activation::none, lowering, node);
}

std::string Gate::describe() const {
  return to_string(activation);
}

Status Gate::lower(Lowering& lowering, const Node& node) const {
  return lower_as(ElementwiseKind::gate, activation, lowering, node);
}

std::string Activate::describe() const {
  return to_string(activation);
}

Status Activate::lower(Lowering& lowering, const Node& node) const {
  return lower_as(ElementwiseKind::activate, activation, lowering, node);
}

std::string Scale::describe() const {
  return fmt::format("{:g}", factor);
}

Status Scale::lower(Lowering& lowering, const Node& node) const {
  return lower_as(ElementwiseKind::scale, Activation::none, lowering, node, factor);
}

std::string SoftCap::describe() const {
  return fmt::format("{:g}", cap);
}

Status SoftCap::lower(Lowering& lowering, const Node& node) const {
  return lower_as(ElementwiseKind::soft_cap, Activation::none, lowering, node, cap);
}

std::string Clamp::describe() const {
  return fmt::format("{:g} to {:g}", least, most);
}

Status Clamp::lower(Lowering& lowering, const Node& node) const {
  return lower_as(ElementwiseKind::clamp, Activation::none, lowering, node, most, {}, least);
}

std::string Xielu::describe() const {
  return fmt::format("slope {:g}, rise {:g}, fall {:g}", curve.slope, curve.rise, curve.fall);
}

Status Xielu::lower(Lowering& lowering, const Node& node) const {
  return lower_as(ElementwiseKind::xielu, Activation::none, lowering, node, 1, curve);
}

Status GateRows::lower(Lowering& lowering, const Node& node) const {
  const bool one = lowering.graph().tensor(node.inputs[1]).columns == 1;
  const ElementwiseKind kind = one ? ElementwiseKind::gate_rows : ElementwiseKind::gate_sigmoid;
  return lower_as(kind, Activation::none, lowering, node);
}

// A gate whose second factor is the same row for all.
Status ScaleColumns::lower(Lowering& lowering, const Node& node) const {
  ElementwiseArgs args;
  args.kind = ElementwiseKind::gate;
  args.a = lowering.tensor(node.inputs[0]);
  PUMICE_TRY(const BufferRef weight, lowering.vector(node.weights[0]));
  args.b = ActivationRef{weight, args.a.rows, args.a.rows_kind, args.a.columns, 0};
  args.result = lowering.tensor(node.output);
  args.step = lowering.step();
  lowering.emit(elementwise(lowering.profile(), args));
  return {};
}

std::string SparseGate::describe() const {
  return fmt::format("{} above {:g} deviations", to_string(activation), deviations);
}

Status SparseGate::lower(Lowering& lowering, const Node& node) const {
  const ActivationRef a = lowering.tensor(node.inputs[0]), b = lowering.tensor(node.inputs[1]),
                      result = lowering.tensor(node.output);
  const BoundView bound_a = bound_view(a), bound_b = bound_view(b);
  Dispatch dispatch =
      row_launch(lowering, "sparse_gate", SPARSE_GATE_RESULT, result, {static_cast<uint32_t>(activation)});
  dispatch.set_params(SparseGateParams{a.columns, bound_a.first, bound_b.first, a.stride, b.stride,
                                       result.stride, a.rows_kind, deviations});
  dispatch.bind(SPARSE_GATE_A, bound_a.buffer, Access::read);
  dispatch.bind(SPARSE_GATE_B, bound_b.buffer, Access::read);
  dispatch.groups = {a.rows, 1, 1};
  const double elements = double{1} * a.rows * a.columns;
  dispatch.flops = elements * 15;
  dispatch.bytes = elements * 12;
  lowering.emit(std::move(dispatch));
  return {};
}

TensorId add(Graph& graph, std::string name, TensorId a, TensorId b) {
  return add_node(graph, std::move(name), Add{}, {a, b});
}

TensorId gate(Graph& graph, std::string name, TensorId a, TensorId b, Activation activation) {
  Gate operation;
  operation.activation = activation;
  return add_node(graph, std::move(name), operation, {a, b});
}

TensorId activate(Graph& graph, std::string name, TensorId a, Activation activation) {
  Activate operation;
  operation.activation = activation;
  return add_node(graph, std::move(name), operation, {a});
}

TensorId scale(Graph& graph, std::string name, TensorId a, float factor) {
  Scale operation;
  operation.factor = factor;
  return add_node(graph, std::move(name), operation, {a});
}

TensorId gate_rows(Graph& graph, std::string name, TensorId a, TensorId b) {
  return add_node(graph, std::move(name), GateRows{}, {a, b});
}

TensorId scale_columns(Graph& graph, std::string name, TensorId a, WeightId weight) {
  const Tensor& from = graph.tensor(a);
  return graph.add(ScaleColumns{}, {a}, {weight}, {std::move(name), from.rows, from.columns});
}

TensorId soft_cap(Graph& graph, std::string name, TensorId a, float cap) {
  SoftCap operation;
  operation.cap = cap;
  return add_node(graph, std::move(name), operation, {a});
}

TensorId clamp(Graph& graph, std::string name, TensorId a, float least, float most) {
  Clamp operation;
  operation.least = least;
  operation.most = most;
  return add_node(graph, std::move(name), operation, {a});
}

TensorId sparse_gate(Graph& graph, std::string name, TensorId a, TensorId b, Activation activation,
                     float deviations) {
  SparseGate operation;
  operation.activation = activation;
  operation.deviations = deviations;
  return add_node(graph, std::move(name), operation, {a, b});
}

TensorId xielu(Graph& graph, std::string name, TensorId a, const XieluCurve& curve) {
  Xielu operation;
  operation.curve = curve;
  return add_node(graph, std::move(name), operation, {a});
}

} // namespace pumice
