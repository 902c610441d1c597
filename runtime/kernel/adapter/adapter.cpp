#include "kernel/adapter/adapter.h"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include "kernel/loads.h"
#include "kernel/lowering.h"
#include "kernel/row_groups.h"
#include "shaders/adapter/adapter_down.params.h"
#include "shaders/adapter/adapter_up.params.h"

namespace pumice {

namespace {

constexpr uint32_t most_rows = 8; // of a workgroup of the tier cpu8, which has a lane for each

uint32_t groups_of(uint32_t rows, uint32_t each) {
  return (rows + each - 1) / each;
}

// The rows of a workgroup, and how many of them share what is loaded of an adapter.
struct DownRows {
  uint32_t rows = 1, together = 1;
};
DownRows down_rows(const DeviceProfile& profile, const AdapterDownArgs& args, uint32_t tiles) {
  constexpr uint32_t most_together = 4;
  const uint32_t rows = args.x.rows;
  if (!args.for_products) { // neighbours, if all have the same
    const uint32_t each = rows < most_together ? 1 : most_together;
    return {each, each};
  }
  uint32_t each = most_rows;
  while (each > 1 && groups_of(rows, each) * tiles < profile.threads) each /= 2;
  // A step of few rows is one of texts that go on, which may all have other adapters.
  return {each, std::min(each, rows == 1 ? 1 : rows <= 2 * most_rows ? 2 : most_together)};
}

} // namespace

uint32_t adapter_numbers(TensorType numbers) {
  return numbers == TensorType::f32 ? ADAPTER_F32 : numbers == TensorType::f16 ? ADAPTER_F16 : ADAPTER_BF16;
}

uint32_t adapter_h_columns(bool for_products, uint32_t members, uint32_t rank) {
  return (for_products ? ADAPTER_HEAD : 0) + members * rank;
}

Dispatch adapter_down(const DeviceProfile& profile, const AdapterDownArgs& args) {
  const uint32_t tiles = args.members * args.rank / ADAPTER_RANKS;
  const DownRows shape = down_rows(profile, args, tiles);
  Dispatch dispatch;
  dispatch.kernel = args.for_products ? "adapter_down.cpu8" : "adapter_down";
  dispatch.constants = {args.for_products ? 8 : profile.workgroup, shape.rows, fastest_load(profile),
                        adapter_numbers(args.numbers), shape.together};
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
  if (args.for_products && profile.uniform_loads) {
    dispatch.pass_address(offsetof(AdapterDownParams, x), args.x.buffer);
    dispatch.pass_address(offsetof(AdapterDownParams, matrix), args.matrix);
  }
  const uint32_t ranks = args.members * args.rank;
  dispatch.groups = {groups_of(args.x.rows, shape.rows), tiles, 1};
  const double products = double{1} * args.x.rows * args.x.columns * ranks;
  dispatch.flops = 2 * products;
  dispatch.bytes = info(args.numbers).block_bytes * products / shape.together +
                   4.0 * args.x.rows * (args.x.columns + ranks);
  return dispatch;
}

Dispatch adapter_up(const DeviceProfile& profile, const AdapterUpArgs& args) {
  const uint32_t rows = args.result.rows;
  Dispatch dispatch;
  dispatch.kernel = "adapter_up";
  dispatch.constants = {profile.workgroup, args.gated ? 1u : 0u, static_cast<uint32_t>(args.activation),
                        adapter_numbers(args.numbers)};
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
  dispatch.groups = {rows, row_groups(profile, args.result), 1};
  const double elements = double{1} * rows * args.result.columns * (args.gated ? 2 : 1);
  dispatch.flops = elements * (2 * args.rank + 10);
  dispatch.bytes = elements * (info(args.numbers).block_bytes * args.rank + 8.0);
  return dispatch;
}

std::string AdapterDown::describe() const {
  return fmt::format("rank {} {}", rank, info(numbers).name);
}

Status AdapterDown::lower(Lowering& lowering, const Node& node) const {
  AdapterDownArgs args;
  args.x = lowering.tensor(node.inputs[0]);
  args.matrix = matrix;
  args.numbers = numbers;
  args.members = static_cast<uint32_t>(node.weights.size());
  args.rank = rank;
  args.for_products = for_products;
  args.result = lowering.tensor(node.output);
  args.step = lowering.step();
  args.step_layout = lowering.step_layout();
  lowering.emit(adapter_down(lowering.profile(), args));
  return {};
}

std::string AdapterUp::describe() const {
  std::string text = fmt::format("rank {} {}", rank, info(numbers).name);
  if (gated) text += " gated";
  if (activation != Activation::none) text += fmt::format(" {}", to_string(activation));
  return text;
}

Status AdapterUp::lower(Lowering& lowering, const Node& node) const {
  AdapterUpArgs args;
  args.y = lowering.tensor(node.inputs[0]);
  args.h = lowering.tensor(node.inputs[1]);
  args.matrix = matrix;
  args.numbers = numbers;
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
