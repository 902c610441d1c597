#include "kernel/norm/norm.h"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "kernel/lowering.h"
#include "shaders/norm/norm.params.h"

namespace pumice {

namespace {

// A GPU has loads of all of a row's quads under way, as far as a workgroup reaches. The order of a sum
// depends on it, so it must not depend on the rows.
uint32_t norm_invocations(const DeviceProfile& profile, uint32_t columns) {
  if (profile.cpu) return profile.workgroup;
  return std::clamp(std::bit_ceil((columns + 3) / 4), profile.workgroup,
                    std::max(profile.workgroup, std::min(256u, profile.most_invocations)));
}

} // namespace

Dispatch norm(const DeviceProfile& profile, const NormArgs& args) {
  Dispatch dispatch;
  dispatch.kernel = "norm";
  dispatch.constants = {norm_invocations(profile, args.x.columns / args.groups),
                        args.kind == NormKind::rms ? NORM_KIND_RMS : NORM_KIND_LAYER, args.bias ? 1u : 0u};
  NormParams params = {};
  params.columns = args.x.columns / args.groups;
  params.groups = args.groups;
  params.x_stride = args.x.stride;
  params.out_stride = args.result.stride;
  params.rows_kind = args.x.rows_kind;
  params.eps = args.eps;
  params.offset = args.weight_offset;
  dispatch.set_params(params);
  dispatch.bind(NORM_STEP, args.step, Access::read);
  dispatch.bind(NORM_X, args.x.buffer, Access::read);
  dispatch.bind(NORM_WEIGHT, args.weight, Access::read);
  if (args.bias) dispatch.bind(NORM_BIAS, *args.bias, Access::read);
  dispatch.bind(NORM_RESULT, args.result.buffer, Access::write);
  dispatch.groups = {args.x.rows, args.groups, 1};
  const double elements = double{1} * args.x.rows * args.x.columns;
  dispatch.flops = elements * (args.kind == NormKind::rms ? 4 : 7);
  dispatch.bytes = elements * 8 + args.x.columns * (args.bias ? 8.0 : 4.0);
  return dispatch;
}

namespace {

Status check_groups(uint32_t groups, uint32_t columns) {
  if (groups == 1 || columns % (groups * 4) == 0) return {};
  return Error{Code::unsupported, fmt::format("a norm over {} groups of {} columns is not supported: each "
                                              "must have a multiple of four columns",
                                              groups, columns)};
}

std::string describe_norm(float eps, float weight_offset) {
  std::string text = fmt::format("eps {:g}", eps);
  if (weight_offset != 0) text += fmt::format(" weight + {:g}", weight_offset);
  return text;
}

} // namespace

std::string RmsNorm::describe() const {
  return describe_norm(eps, weight_offset) + (groups > 1 ? fmt::format(" in {} groups", groups) : "");
}

Status RmsNorm::lower(Lowering& lowering, const Node& node) const {
  NormArgs args;
  args.kind = NormKind::rms;
  args.x = lowering.tensor(node.inputs[0]);
  args.groups = groups;
  PUMICE_CHECK(check_groups(groups, args.x.columns));
  PUMICE_TRY(args.weight, lowering.vector(node.weights[0]));
  args.eps = eps;
  args.weight_offset = weight_offset;
  args.result = lowering.tensor(node.output);
  args.step = lowering.step();
  lowering.emit(norm(lowering.profile(), args));
  return {};
}

std::string LayerNorm::describe() const {
  return describe_norm(eps, weight_offset) + (groups > 1 ? fmt::format(" in {} groups", groups) : "");
}

Status LayerNorm::lower(Lowering& lowering, const Node& node) const {
  NormArgs args;
  args.kind = NormKind::layer;
  args.x = lowering.tensor(node.inputs[0]);
  args.groups = groups;
  PUMICE_CHECK(check_groups(groups, args.x.columns));
  PUMICE_TRY(args.weight, lowering.vector(node.weights[0]));
  if (node.weights.size() > 1) {
    PUMICE_TRY(args.bias, lowering.vector(node.weights[1]));
  }
  args.eps = eps;
  args.weight_offset = weight_offset;
  args.result = lowering.tensor(node.output);
  args.step = lowering.step();
  lowering.emit(norm(lowering.profile(), args));
  return {};
}

TensorId rms_norm(Graph& graph, std::string name, TensorId x, WeightId weight, float eps,
                  float weight_offset) {
  RmsNorm operation;
  operation.eps = eps;
  operation.weight_offset = weight_offset;
  const Tensor& from = graph.tensor(x);
  return graph.add(operation, {x}, {weight}, {std::move(name), from.rows, from.columns});
}

TensorId grouped_rms_norm(Graph& graph, std::string name, TensorId x, WeightId weight, uint32_t groups,
                          float eps) {
  RmsNorm operation;
  operation.groups = groups;
  operation.eps = eps;
  const Tensor& from = graph.tensor(x);
  return graph.add(operation, {x}, {weight}, {std::move(name), from.rows, from.columns});
}

TensorId grouped_layer_norm(Graph& graph, std::string name, TensorId x, WeightId weight, WeightId bias,
                            uint32_t groups, float eps) {
  LayerNorm operation;
  operation.groups = groups;
  operation.eps = eps;
  const Tensor& from = graph.tensor(x);
  return graph.add(operation, {x}, {weight, bias}, {std::move(name), from.rows, from.columns});
}

TensorId layer_norm(Graph& graph, std::string name, TensorId x, WeightId weight, std::optional<WeightId> bias,
                    float eps, float weight_offset) {
  LayerNorm operation;
  operation.eps = eps;
  operation.weight_offset = weight_offset;
  std::vector<WeightId> weights = {weight};
  if (bias) weights.push_back(*bias);
  const Tensor& from = graph.tensor(x);
  return graph.add(operation, {x}, std::move(weights), {std::move(name), from.rows, from.columns});
}

} // namespace pumice
