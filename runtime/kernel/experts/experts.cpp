#include "kernel/experts/experts.h"

#include <fmt/format.h>

#include "kernel/elementwise/elementwise.h"
#include "kernel/lowering.h"
#include "kernel/matmul/matmul.h"
#include "kernel/row_groups.h"
#include "shaders/experts/expert_combine.params.h"
#include "shaders/experts/expert_group.params.h"
#include "shaders/experts/expert_route.params.h"

namespace pumice {

namespace {

// Drivers for CPUs end all loops of an invocation after 65,536 iterations.
constexpr uint32_t most_experts = 512;

// The products of one layer's experts, and the arguments that they share.
class ExpertLayer {
public:
  ExpertLayer(const Experts& experts, Lowering& lowering, const Node& node)
      : experts_(experts), lowering_(lowering), weights_(node.weights),
        name_(lowering.graph().tensor(node.output).name), x_(lowering.tensor(node.inputs[0])),
        slots_(x_.rows * experts.used) {}

  Status check() const;
  void route(const ActivationRef& logits);
  Result<ActivationRef> products();
  const BufferRef& shares() const { return shares_; }

private:
  std::span<const WeightId> gates() const { return weights_.subspan(0, experts_.count); }
  std::span<const WeightId> ups() const { return weights_.subspan(experts_.count, experts_.count); }
  std::span<const WeightId> downs() const { return weights_.subspan(2 * size_t{experts_.count}); }
  const WeightView& view(WeightId id) const { return lowering_.graph().weight(id).view; }
  Status check(std::span<const WeightId> weights, const char* what, uint64_t rows, uint64_t columns) const;

  ActivationRef slot_rows(uint32_t columns);
  Result<ActivationRef> multiply(const ActivationRef& x, uint32_t slots_per_row,
                                 std::span<const WeightId> weights, bool gated);
  Result<ActivationRef> hidden();

  const Experts& experts_;
  Lowering& lowering_;
  const std::span<const WeightId> weights_;
  const std::string& name_;
  const ActivationRef x_;
  const uint32_t slots_;
  ExpertBlocks blocks_;
  BufferRef shares_;
};

Status ExpertLayer::check() const {
  const uint32_t count = experts_.count;
  if (experts_.used == 0 || experts_.used > count || count > most_experts) {
    return Error{
        Code::unsupported,
        fmt::format("{}: the settings say that {} of {} experts are used for a token: it must be at least 1 "
                    "and at most all, of which {} are supported",
                    name_, experts_.used, count, most_experts)};
  }
  if (weights_.size() != size_t{3} * count) {
    return Error{Code::internal, fmt::format("{}: {} weights for {} experts", name_, weights_.size(), count)};
  }
  const WeightView& first = view(gates()[0]);
  PUMICE_CHECK(check(gates(), "gates", first.rows, first.columns));
  PUMICE_CHECK(check(ups(), "ups", first.rows, first.columns));
  return check(downs(), "downs", view(downs()[0]).rows, first.rows);
}

Status ExpertLayer::check(std::span<const WeightId> weights, const char* what, uint64_t rows,
                          uint64_t columns) const {
  const TensorType type = view(weights[0]).type();
  for (WeightId id : weights) {
    const WeightView& weight = view(id);
    if (weight.type() == type && weight.rows == rows && weight.columns == columns) continue;
    return Error{Code::unsupported,
                 fmt::format("{}: {} is {} [{}, {}]; one layer's {} all have to be {} [{}, {}]",
                             weight.tensor->name, what, info(weight.type()).name, weight.rows, weight.columns,
                             what, info(type).name, rows, columns)};
  }
  return {};
}

void ExpertLayer::route(const ActivationRef& logits) {
  ExpertRouteArgs args;
  args.logits = logits;
  args.used = experts_.used;
  args.normalise = experts_.normalise;
  args.blocks = ExpertBlocks::of(1, slots_, experts_.count);
  args.blocks.buffer = lowering_.temporary(args.blocks.bytes());
  args.shares = shares_ = lowering_.temporary(uint64_t{slots_} * 4);
  args.step = lowering_.step();
  lowering_.emit(expert_route(lowering_.profile(), args));

  const uint32_t block_slots = routed_block_slots(lowering_.profile(), double{1} * slots_ / experts_.count);
  blocks_ = args.blocks;
  if (block_slots == 1) return;
  blocks_ = ExpertBlocks::of(block_slots, slots_, experts_.count);
  blocks_.buffer = lowering_.temporary(blocks_.bytes());
  lowering_.emit(expert_group(lowering_.profile(), experts_.count, args.blocks, blocks_));
}

ActivationRef ExpertLayer::slot_rows(uint32_t columns) {
  ActivationRef ref;
  ref.rows = slots_;
  ref.rows_kind = x_.rows_kind;
  ref.columns = columns;
  ref.stride = ref.padded_columns();
  ref.buffer = lowering_.temporary(uint64_t{ref.rows} * ref.stride * 4);
  return ref;
}

Result<ActivationRef> ExpertLayer::multiply(const ActivationRef& x, uint32_t slots_per_row,
                                            std::span<const WeightId> weights, bool gated) {
  PUMICE_TRY(PackedWeight packed, lowering_.matrix(weights, gated));
  const uint32_t rows = static_cast<uint32_t>(view(weights[0]).rows);
  const uint32_t tiles = (rows + 7) / 8 * (gated ? 2 : 1), unit = merged_columns / 8;
  MatmulArgs args;
  args.x = x;
  args.format = packed.format;
  args.gated = gated;
  if (gated) args.activation = experts_.activation;
  args.result = slot_rows(rows);
  args.step = lowering_.step();
  args.routing = MatmulRouting{blocks_.buffer, blocks_.count,  blocks_.block_slots,
                               slots_per_row,  experts_.count, (tiles + unit - 1) / unit * unit};
  for (const WeightSegment& segment : packed.segments) {
    args.weight = segment;
    PUMICE_CHECK(matmul(lowering_, args));
  }
  return args.result;
}

// activation(gate x) * up x, for each slot.
Result<ActivationRef> ExpertLayer::hidden() {
  const uint32_t used = experts_.used;
  if (view(gates()[0]).type() == view(ups()[0]).type()) {
    std::vector<WeightId> pairs;
    for (uint32_t e = 0; e < experts_.count; ++e) pairs.insert(pairs.end(), {gates()[e], ups()[e]});
    return multiply(x_, used, pairs, true);
  }
  ElementwiseArgs args;
  args.kind = ElementwiseKind::gate;
  args.activation = experts_.activation;
  PUMICE_TRY(args.a, multiply(x_, used, gates(), false));
  PUMICE_TRY(args.b, multiply(x_, used, ups(), false));
  const ActivationRef result = args.result = slot_rows(args.a.columns);
  args.step = lowering_.step();
  // The slots of a row lie one after the other. Together they are one row of a matrix that has as many rows
  // as the step.
  for (ActivationRef* ref : {&args.a, &*args.b, &args.result}) {
    ref->rows = x_.rows;
    ref->columns = ref->stride = used * ref->stride;
  }
  lowering_.emit(elementwise(lowering_.profile(), args));
  return result;
}

Result<ActivationRef> ExpertLayer::products() {
  PUMICE_TRY(ActivationRef inner, hidden());
  return multiply(inner, 1, downs(), false);
}

} // namespace

ExpertBlocks ExpertBlocks::of(uint32_t block_slots, uint32_t slots, uint32_t experts) {
  const uint64_t most = (slots + uint64_t{experts} * (block_slots - 1)) / block_slots;
  return {block_slots, static_cast<uint32_t>(most), {}};
}

Dispatch expert_route(const DeviceProfile& profile, const ExpertRouteArgs& args) {
  Dispatch dispatch;
  dispatch.kernel = "expert_route";
  dispatch.constants = {profile.workgroup, args.normalise ? 1u : 0u};
  ExpertRouteParams params = {};
  params.experts = args.logits.columns;
  params.used = args.used;
  params.logits_stride = args.logits.stride;
  params.rows_kind = args.logits.rows_kind;
  dispatch.set_params(params);
  dispatch.bind(EXPERT_ROUTE_STEP, args.step, Access::read);
  dispatch.bind(EXPERT_ROUTE_LOGITS, args.logits.buffer, Access::read);
  dispatch.bind(EXPERT_ROUTE_BLOCKS, args.blocks.buffer, Access::write);
  dispatch.bind(EXPERT_ROUTE_SHARES, args.shares, Access::write);
  dispatch.groups = {args.logits.rows, 1, 1};
  const double logits = double{1} * args.logits.rows * args.logits.columns;
  dispatch.flops = logits * args.used;
  dispatch.bytes = logits * 4 + static_cast<double>(args.blocks.bytes() + args.shares.bytes);
  return dispatch;
}

Dispatch expert_group(const DeviceProfile& profile, uint32_t experts, const ExpertBlocks& choices,
                      const ExpertBlocks& blocks) {
  Dispatch dispatch;
  dispatch.kernel = "expert_group";
  dispatch.constants = {profile.workgroup};
  ExpertGroupParams params = {};
  params.block_slots = blocks.block_slots;
  dispatch.set_params(params);
  dispatch.bind(EXPERT_GROUP_CHOICES, choices.buffer, Access::read);
  dispatch.bind(EXPERT_GROUP_BLOCKS, blocks.buffer, Access::write);
  dispatch.groups = {experts, 1, 1};
  dispatch.flops = 2.0 * choices.count * experts;
  dispatch.bytes = static_cast<double>(choices.bytes() + blocks.bytes());
  return dispatch;
}

Dispatch expert_combine(const DeviceProfile& profile, const ExpertCombineArgs& args) {
  Dispatch dispatch;
  dispatch.kernel = "expert_combine";
  dispatch.constants = {profile.workgroup, args.residual ? 1u : 0u};
  ExpertCombineParams params = {};
  params.columns = args.result.columns;
  params.used = args.used;
  params.products_stride = args.products.stride;
  params.residual_stride = args.residual ? args.residual->stride : 0;
  params.out_stride = args.result.stride;
  params.rows_kind = args.result.rows_kind;
  dispatch.set_params(params);
  dispatch.bind(EXPERT_COMBINE_STEP, args.step, Access::read);
  dispatch.bind(EXPERT_COMBINE_PRODUCTS, args.products.buffer, Access::read);
  dispatch.bind(EXPERT_COMBINE_SHARES, args.shares, Access::read);
  if (args.residual) dispatch.bind(EXPERT_COMBINE_RESIDUAL, args.residual->buffer, Access::read);
  dispatch.bind(EXPERT_COMBINE_RESULT, args.result.buffer, Access::write);
  dispatch.groups = {args.result.rows, row_groups(profile, args.result), 1};
  const double elements = double{1} * args.result.rows * args.result.columns;
  dispatch.flops = elements * 2 * args.used;
  dispatch.bytes = elements * 4 * (args.used + (args.residual ? 2 : 1));
  return dispatch;
}

std::string Experts::describe() const {
  std::string text = fmt::format("{} of {} {}", used, count, to_string(activation));
  if (normalise) text += " normalised";
  if (residual) text += " residual";
  return text;
}

Status Experts::lower(Lowering& lowering, const Node& node) const {
  ExpertLayer layer(*this, lowering, node);
  PUMICE_CHECK(layer.check());
  layer.route(lowering.tensor(node.inputs[1]));
  ExpertCombineArgs args;
  PUMICE_TRY(args.products, layer.products());
  args.used = used;
  args.shares = layer.shares();
  if (residual) args.residual = lowering.tensor(node.inputs[2]);
  args.result = lowering.tensor(node.output);
  args.step = lowering.step();
  lowering.emit(expert_combine(lowering.profile(), args));
  return {};
}

TensorId experts(Graph& graph, std::string name, TensorId x, TensorId router_logits,
                 std::span<const WeightId> gate, std::span<const WeightId> up, std::span<const WeightId> down,
                 Experts operation, std::optional<TensorId> residual) {
  std::vector<TensorId> inputs = {x, router_logits};
  operation.residual = residual.has_value();
  if (residual) inputs.push_back(*residual);
  std::vector<WeightId> weights;
  for (std::span<const WeightId> part : {gate, up, down})
    weights.insert(weights.end(), part.begin(), part.end());
  const uint32_t columns = static_cast<uint32_t>(graph.weight(down[0]).view.rows);
  return graph.add(std::move(operation), std::move(inputs), std::move(weights),
                   {std::move(name), graph.tensor(x).rows, columns});
}

} // namespace pumice
