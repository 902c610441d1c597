#include "kernel/adapter/adapter.h"

#include <cstddef>

#include <fmt/format.h>

#include "base/align.h"
#include "kernel/loads.h"
#include "kernel/lowering.h"
#include "kernel/row_groups.h"
#include "shaders/adapter/adapter_down.params.h"
#include "shaders/adapter/adapter_up.params.h"

namespace pumice {

namespace {

// Rows of a workgroup. More of them share what is loaded of an adapter.
uint32_t rows_together(uint32_t rows) {
  constexpr uint32_t most = 4;
  return rows < most ? 1 : most;
}

} // namespace

uint32_t padded_adapter_rank(uint32_t rank) {
  return static_cast<uint32_t>(align(rank, ADAPTER_RANKS));
}

Dispatch adapter_down(const DeviceProfile& profile, const AdapterDownArgs& args) {
  const uint32_t together = rows_together(args.x.rows);
  Dispatch dispatch;
  dispatch.kernel = profile.cpu8 ? "adapter_down.cpu8" : "adapter_down";
  dispatch.constants = {profile.cpu8 ? 8 : profile.workgroup, together, fastest_load(profile)};
  const BoundView x = bound_view(args.x);
  AdapterDownParams params = {};
  params.columns = args.x.columns;
  params.members = args.members;
  params.rank = args.rank;
  params.x_first = x.first;
  params.x_stride = args.x.stride;
  params.out_stride = args.result.stride;
  params.rows_kind = args.x.rows_kind;
  params.details = args.step_layout.details();
  params.adapters = args.step_layout.adapters();
  dispatch.set_params(params);
  dispatch.bind(ADAPTER_DOWN_STEP, args.step, Access::read);
  dispatch.bind(ADAPTER_DOWN_X, x.buffer, Access::read);
  dispatch.bind(ADAPTER_DOWN_MATRIX, args.matrix, Access::read);
  dispatch.bind(ADAPTER_DOWN_RESULT, args.result.buffer, Access::write);
  if (profile.cpu8 && profile.uniform_loads) {
    dispatch.pass_address(offsetof(AdapterDownParams, x), args.x.buffer);
    dispatch.pass_address(offsetof(AdapterDownParams, matrix), args.matrix);
  }
  const uint32_t ranks = args.members * args.rank;
  dispatch.groups = {(args.x.rows + together - 1) / together, ranks / ADAPTER_RANKS, 1};
  const double products = double{1} * args.x.rows * args.x.columns * ranks;
  dispatch.flops = 2 * products;
  dispatch.bytes = 4 * (products / together + double{1} * args.x.rows * (args.x.columns + ranks));
  return dispatch;
}

Dispatch adapter_up(const DeviceProfile& profile, const AdapterUpArgs& args) {
  Dispatch dispatch;
  dispatch.kernel = profile.cpu8 ? "adapter_up.cpu8" : "adapter_up";
  dispatch.constants = {profile.cpu8 ? 8 : profile.workgroup, args.gated ? 1u : 0u,
                        static_cast<uint32_t>(args.activation), fastest_load(profile)};
  const BoundView y = bound_view(args.y), h = bound_view(args.h);
  AdapterUpParams params = {};
  params.columns = args.result.columns;
  params.rank = args.rank;
  params.y_first = y.first;
  params.y_stride = args.y.stride;
  params.h_first = h.first;
  params.h_stride = args.h.stride;
  params.out_stride = args.result.stride;
  params.rows_kind = args.result.rows_kind;
  params.details = args.step_layout.details();
  params.adapters = args.step_layout.adapters();
  dispatch.set_params(params);
  dispatch.bind(ADAPTER_UP_STEP, args.step, Access::read);
  dispatch.bind(ADAPTER_UP_Y, y.buffer, Access::read);
  dispatch.bind(ADAPTER_UP_H, h.buffer, Access::read);
  dispatch.bind(ADAPTER_UP_MATRIX, args.matrix, Access::read);
  dispatch.bind(ADAPTER_UP_RESULT, args.result.buffer, Access::write);
  if (profile.cpu8 && profile.uniform_loads) {
    dispatch.pass_address(offsetof(AdapterUpParams, h), args.h.buffer);
    dispatch.pass_address(offsetof(AdapterUpParams, matrix), args.matrix);
  }
  dispatch.groups = {args.result.rows, row_groups(profile, args.result), 1};
  const double elements = double{1} * args.result.rows * args.result.columns * (args.gated ? 2 : 1);
  dispatch.flops = elements * (2 * args.rank + 10);
  dispatch.bytes = 4 * elements * (args.rank + 2);
  return dispatch;
}

std::string AdapterDown::describe() const {
  return fmt::format("rank {}", rank);
}

Status AdapterDown::lower(Lowering& lowering, const Node& node) const {
  AdapterDownArgs args;
  args.x = lowering.tensor(node.inputs[0]);
  args.matrix = matrix;
  args.members = static_cast<uint32_t>(node.weights.size());
  args.rank = rank;
  args.result = lowering.tensor(node.output);
  args.step = lowering.step();
  args.step_layout = lowering.step_layout();
  lowering.emit(adapter_down(lowering.profile(), args));
  return {};
}

std::string AdapterUp::describe() const {
  std::string text = fmt::format("rank {}", rank);
  if (gated) text += " gated";
  if (activation != Activation::none) text += fmt::format(" {}", to_string(activation));
  return text;
}

Status AdapterUp::lower(Lowering& lowering, const Node& node) const {
  AdapterUpArgs args;
  args.y = lowering.tensor(node.inputs[0]);
  args.h = lowering.tensor(node.inputs[1]);
  args.matrix = matrix;
  args.rank = rank;
  args.gated = gated;
  args.activation = activation;
  args.result = lowering.tensor(node.output);
  args.step = lowering.step();
  args.step_layout = lowering.step_layout();
  lowering.emit(adapter_up(lowering.profile(), args));
  return {};
}

} // namespace pumice
