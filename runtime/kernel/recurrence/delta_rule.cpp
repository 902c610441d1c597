#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "kernel/choices.h"
#include "kernel/recurrence/recurrence_variants.h"
#include "shaders/recurrence/delta_rule.params.h"

namespace pumice {

namespace {

constexpr std::array variants = {&delta_rule_cpu8, &delta_rule_chunked, &delta_rule_portable};

// All but the kernel's shape and its groups.
Dispatch prepare(const Lowering& lowering, const DeltaRuleArgs& args) {
  const DeltaRule& shape = args.shape;
  DeltaRuleParams params = {};
  params.columns = shape.columns();
  params.head_dim = shape.value_dim;
  params.key_share = shape.key_share();
  params.key_heads = shape.key_heads;
  params.size = shape.key_dim;
  params.query_stride = args.query.stride;
  params.key_stride = args.key.stride;
  params.value_stride = args.value.stride;
  params.gates_stride = args.gates.stride;
  params.out_stride = args.result.stride;
  params.checkpoints = args.state.layout.checkpoints;
  params.drafts = args.state.layout.drafts;
  params.end_row = args.result.rows;
  Dispatch dispatch;
  dispatch.set_params(params);
  dispatch.bind(DELTA_RULE_STEP, lowering.step(), Access::read);
  dispatch.bind(DELTA_RULE_QUERY, args.query.buffer, Access::read);
  dispatch.bind(DELTA_RULE_KEY, args.key.buffer, Access::read);
  dispatch.bind(DELTA_RULE_VALUE, args.value.buffer, Access::read);
  dispatch.bind(DELTA_RULE_GATES, args.gates.buffer, Access::read);
  dispatch.bind(DELTA_RULE_STATE, args.state.buffer, Access::read_write);
  dispatch.bind(DELTA_RULE_RESULT, args.result.buffer, Access::write);
  return dispatch;
}

ChannelCost cost(const DeltaRuleArgs& args) {
  return {11.0 * args.shape.key_dim, 12.0 * args.shape.key_dim};
}

bool base_runs(const DeviceProfile&, const DeltaRuleArgs&) {
  return true;
}

Status lower_base(Lowering& lowering, const DeltaRuleArgs& args) {
  Dispatch dispatch = prepare(lowering, args);
  dispatch.kernel = "delta_rule_portable";
  dispatch.constants = {lowering.profile().workgroup};
  set_channel_work(dispatch, lowering, args.result, cost(args));
  emit_in_parts<DeltaRuleParams>(lowering, dispatch, args.result.rows, 2 * args.shape.key_dim);
  return {};
}

bool cpu8_runs(const DeviceProfile& profile, const DeltaRuleArgs& args) {
  return fits_vectors(profile, args.shape.key_dim);
}

Status lower_cpu8(Lowering& lowering, const DeltaRuleArgs& args) {
  const VectorShape shape = vector_shape(lowering.profile(), args.shape.key_dim, args.shape.value_dim);
  Dispatch dispatch = prepare(lowering, args);
  dispatch.kernel = "delta_rule.cpu8";
  dispatch.constants = {8, shape.size, shape.channels, shape.uniform ? LOAD_UNIFORM : LOAD_LANE};
  if (shape.uniform) {
    dispatch.pass_address(offsetof(DeltaRuleParams, query), args.query.buffer);
    dispatch.pass_address(offsetof(DeltaRuleParams, key), args.key.buffer);
  }
  set_channel_work(dispatch, lowering, args.result, cost(args), shape.channels);
  lowering.emit(std::move(dispatch));
  return {};
}

} // namespace

const KernelVariant<DeltaRuleArgs> delta_rule_cpu8 = {.name = "cpu8",
                                                      .summary = "For CPU drivers: states in registers",
                                                      .runs = cpu8_runs,
                                                      .lower = lower_cpu8,
                                                      .for_cpus = true};
const KernelVariant<DeltaRuleArgs> delta_rule_portable = {.name = "portable",
                                                          .summary = "For any device: the plain kernel",
                                                          .runs = base_runs,
                                                          .lower = lower_base,
                                                          .for_cpus = true};

std::span<const KernelVariant<DeltaRuleArgs>* const> delta_rule_variants() {
  return variants;
}

static const FamilyRegistration delta_rule_registration("delta_rule", list_variants<delta_rule_variants>);

std::string DeltaRule::describe() const {
  return fmt::format("{} heads of {} from {} of {}", value_heads, value_dim, key_heads, key_dim);
}

Status DeltaRule::lower(Lowering& lowering, const Node& node) const {
  const auto input = [&](size_t index) { return lowering.tensor(node.inputs[index]); };
  const DeltaRuleArgs args = {*this,
                              input(0),
                              input(1),
                              input(2),
                              input(3),
                              lowering.tensor(node.output),
                              lowering.state(state),
                              lowering.step_layout().sequences};
  const uint32_t floats = args.state.layout.floats;
  const bool fits = key_heads > 0 && value_heads % key_heads == 0 &&
                    args.query.columns == key_heads * key_dim && args.key.columns == args.query.columns &&
                    args.value.columns == columns() && args.gates.columns == 2 * value_heads;
  if (!fits || floats != state_floats()) {
    return does_not_fit(*this, fmt::format("{}, {}, {} and {} columns and a state of {}", args.query.columns,
                                           args.key.columns, args.value.columns, args.gates.columns, floats));
  }
  const std::string shape_class =
      fmt::format("delta_rule f32 {} x {} x {} of {} x {}", rows_class(args.result.rows), value_heads,
                  value_dim, key_heads, key_dim);
  return lower_variant(lowering, delta_rule_variants(), args, shape_class);
}

} // namespace pumice
