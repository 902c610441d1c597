#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "kernel/choices.h"
#include "kernel/recurrence/recurrence_variants.h"
#include "shaders/recurrence/selective_scan.params.h"

namespace pumice {

namespace {

constexpr std::array variants = {&selective_scan_cpu8, &selective_scan_chunked, &selective_scan_portable};

// All but the kernel's shape and its groups.
Dispatch prepare(const Lowering& lowering, const SelectiveScanArgs& args) {
  const SelectiveScan& shape = args.shape;
  SelectiveScanParams params = {};
  params.columns = shape.columns();
  params.head_dim = shape.head_dim;
  params.group_heads = shape.heads / shape.groups;
  params.size = shape.size;
  params.x_stride = args.x.stride;
  params.b_stride = args.b.stride;
  params.c_stride = args.c.stride;
  params.steps_stride = args.steps.stride;
  params.out_stride = args.result.stride;
  params.checkpoints = args.state.layout.checkpoints;
  params.drafts = args.state.layout.drafts;
  params.weight_stride = weight_stride(shape.heads);
  params.least_step = shape.least_step;
  params.most_step = std::min(shape.most_step, std::numeric_limits<float>::max());
  params.end_row = args.result.rows;
  Dispatch dispatch;
  dispatch.set_params(params);
  dispatch.bind(SELECTIVE_SCAN_STEP, lowering.step(), Access::read);
  dispatch.bind(SELECTIVE_SCAN_X, args.x.buffer, Access::read);
  dispatch.bind(SELECTIVE_SCAN_B, args.b.buffer, Access::read);
  dispatch.bind(SELECTIVE_SCAN_C, args.c.buffer, Access::read);
  dispatch.bind(SELECTIVE_SCAN_STEPS, args.steps.buffer, Access::read);
  dispatch.bind(SELECTIVE_SCAN_WEIGHTS, args.weights, Access::read);
  dispatch.bind(SELECTIVE_SCAN_STATE, args.state.buffer, Access::read_write);
  dispatch.bind(SELECTIVE_SCAN_RESULT, args.result.buffer, Access::write);
  return dispatch;
}

ChannelCost cost(const SelectiveScanArgs& args) {
  return {(args.shape.wide ? 15.0 : 5.0) * args.shape.size, 8.0 * args.shape.size};
}

bool base_runs(const DeviceProfile&, const SelectiveScanArgs&) {
  return true;
}

Status lower_base(Lowering& lowering, const SelectiveScanArgs& args) {
  Dispatch dispatch = prepare(lowering, args);
  dispatch.kernel = "selective_scan_portable";
  dispatch.constants = {lowering.profile().workgroup, args.shape.log_a};
  if (args.shape.wide) dispatch.set_constant(SELECTIVE_SCAN_WIDE_ID, 1);
  set_channel_work(dispatch, lowering, args.result, cost(args));
  emit_in_parts<SelectiveScanParams>(lowering, dispatch, args.result.rows, args.shape.size);
  return {};
}

bool cpu8_runs(const DeviceProfile& profile, const SelectiveScanArgs& args) {
  return fits_vectors(profile, args.shape.size);
}

Status lower_cpu8(Lowering& lowering, const SelectiveScanArgs& args) {
  const VectorShape shape = vector_shape(lowering.profile(), args.shape.size, args.shape.head_dim);
  Dispatch dispatch = prepare(lowering, args);
  dispatch.kernel = "selective_scan.cpu8";
  dispatch.constants = {8, args.shape.log_a, shape.size, shape.channels,
                        shape.uniform ? LOAD_UNIFORM : LOAD_LANE};
  if (args.shape.wide) dispatch.set_constant(SELECTIVE_SCAN_WIDE_ID, 1);
  if (shape.uniform) {
    dispatch.pass_address(offsetof(SelectiveScanParams, b), args.b.buffer);
    dispatch.pass_address(offsetof(SelectiveScanParams, c), args.c.buffer);
  }
  set_channel_work(dispatch, lowering, args.result, cost(args), shape.channels);
  lowering.emit(std::move(dispatch));
  return {};
}

} // namespace

const KernelVariant<SelectiveScanArgs> selective_scan_cpu8 = {.name = "cpu8",
                                                              .summary =
                                                                  "For CPU drivers: states in registers",
                                                              .runs = cpu8_runs,
                                                              .lower = lower_cpu8,
                                                              .for_cpus = true};
const KernelVariant<SelectiveScanArgs> selective_scan_portable = {.name = "portable",
                                                                  .summary =
                                                                      "For any device: the plain kernel",
                                                                  .runs = base_runs,
                                                                  .lower = lower_base,
                                                                  .for_cpus = true};

std::span<const KernelVariant<SelectiveScanArgs>* const> selective_scan_variants() {
  return variants;
}

static const FamilyRegistration selective_scan_registration("selective_scan",
                                                            list_variants<selective_scan_variants>);

std::string SelectiveScan::describe() const {
  return fmt::format("{} heads of {}, states of {}{} in {} groups", heads, head_dim, size,
                     wide ? " with rates of their own" : "", groups);
}

Status SelectiveScan::lower(Lowering& lowering, const Node& node) const {
  const auto input = [&](size_t index) { return lowering.tensor(node.inputs[index]); };
  SelectiveScanArgs args = {*this,
                            input(0),
                            input(1),
                            input(2),
                            input(3),
                            lowering.tensor(node.output),
                            {},
                            lowering.state(state),
                            lowering.step_layout().sequences};
  const uint32_t floats = args.state.layout.floats;
  const bool fits = groups > 0 && heads % groups == 0 && args.x.columns == columns() &&
                    args.b.columns == groups * size && args.c.columns == args.b.columns &&
                    args.steps.columns == heads && (!wide || head_dim == 1);
  if (!fits || floats != state_floats()) {
    return does_not_fit(*this, fmt::format("{}, {}, {} and {} columns and a state of {}", args.x.columns,
                                           args.b.columns, args.c.columns, args.steps.columns, floats));
  }
  PUMICE_TRY(args.weights, lowering.vector(node.weights));
  const std::string shape_class =
      fmt::format("selective_scan f32 {} x {} x {} of {} x {}{}", rows_class(args.result.rows), heads,
                  head_dim, groups, size, wide ? " wide" : "");
  return lower_variant(lowering, selective_scan_variants(), args, shape_class);
}

} // namespace pumice
