#include "kernel/experts/experts.h"

#include <fmt/format.h>

#include "kernel/lowering.h"
#include "kernel/matmul/matmul.h"
#include "kernel/row_groups.h"
#include "shaders/experts/expert_combine.params.h"
#include "shaders/experts/expert_gate.params.h"
#include "shaders/experts/expert_group.params.h"
#include "shaders/experts/expert_route.params.h"

namespace pumice {

namespace {

// Drivers for CPUs end all loops of an invocation after 65,536 iterations.
constexpr uint32_t most_experts = 512;

uint32_t score_constant(ExpertScore score) {
  if (score == ExpertScore::sigmoid) return EXPERT_SCORE_SIGMOID;
  return score == ExpertScore::softmax ? EXPERT_SCORE_SOFTMAX : EXPERT_SCORE_SPARSE_MIXER;
}

// The products of one layer's experts, and the arguments that they share.
class ExpertLayer {
public:
  ExpertLayer(const Experts& experts, Lowering& lowering, const Node& node)
      : experts_(experts), lowering_(lowering), weights_(node.weights),
        name_(lowering.graph().tensor(node.output).name), x_(lowering.tensor(node.inputs[0])),
        slots_(x_.rows * experts.routing.used) {}

  Status check() const;
  Status route(const ActivationRef& logits);
  Status combine(ExpertCombineArgs args);

private:
  size_t matrices() const { return (experts_.ungated ? size_t{2} : size_t{3}) * experts_.count; }
  std::span<const WeightId> gates() const { return weights_.subspan(0, experts_.count); }
  std::span<const WeightId> ups() const {
    return weights_.subspan(experts_.ungated ? 0 : experts_.count, experts_.count);
  }
  std::span<const WeightId> downs() const {
    return weights_.subspan(matrices() - experts_.count, experts_.count);
  }
  // Of all gates, all ups or all downs.
  std::span<const WeightId> bias(size_t part) const { return weights_.last(3 - part).first(1); }
  const WeightView& view(WeightId id) const { return lowering_.graph().weight(id).view; }
  Status check_routing() const;
  Status check(std::span<const WeightId> weights, const char* what, uint64_t rows, uint64_t columns) const;

  Result<ActivationRef> products();
  ActivationRef slot_rows(uint32_t columns);
  Result<ActivationRef> multiply(const ActivationRef& x, uint32_t slots_per_row,
                                 std::span<const WeightId> weights, bool gated,
                                 Activation activation = Activation::none);
  Result<ActivationRef> hidden();
  Result<ActivationRef> gated();

  const Experts& experts_;
  Lowering& lowering_;
  const std::span<const WeightId> weights_;
  const std::string& name_;
  const ActivationRef x_;
  const uint32_t slots_;
  ExpertBlocks choices_; // one slot to a block
  ExpertBlocks blocks_;  // the same slots, several to a block
  BufferRef shares_;
};

Status ExpertLayer::check_routing() const {
  const ExpertRouting& routing = experts_.routing;
  const uint32_t count = experts_.count;
  if (routing.used == 0 || routing.used > count || count > most_experts) {
    return Error{
        Code::unsupported,
        fmt::format("{}: the settings say that {} of {} experts are used for a token: it must be at least 1 "
                    "and at most all, of which {} are supported",
                    name_, routing.used, count, most_experts)};
  }
  if (routing.groups == 0 || count % routing.groups || routing.used_groups == 0 ||
      routing.used_groups > routing.groups ||
      routing.used > uint64_t{routing.used_groups} * (count / routing.groups)) {
    return Error{Code::unsupported,
                 fmt::format("{}: the settings say that {} experts are chosen from {} of {} groups of {} "
                             "experts: groups must have equal size and enough experts",
                             name_, routing.used, routing.used_groups, routing.groups, count)};
  }
  return {};
}

Status ExpertLayer::check() const {
  const uint32_t count = experts_.count;
  PUMICE_CHECK(check_routing());
  const ExpertRouting& routing = experts_.routing;
  const size_t wanted =
      matrices() + (routing.biased ? 1 : 0) + (routing.scaled ? 1 : 0) + (experts_.biases ? 3 : 0);
  if (weights_.size() != wanted || (experts_.ungated && experts_.biases) ||
      (experts_.plain && !experts_.ungated)) {
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

Status ExpertLayer::route(const ActivationRef& logits) {
  ExpertRouteArgs args;
  args.logits = logits;
  args.routing = experts_.routing;
  size_t next = matrices();
  if (args.routing.biased) {
    PUMICE_TRY(args.bias, lowering_.vector(weights_[next++]));
  }
  if (args.routing.scaled) {
    PUMICE_TRY(args.scales, lowering_.vector(weights_[next]));
  }
  args.blocks = ExpertBlocks::of(1, slots_, experts_.count);
  args.blocks.buffer = lowering_.temporary(args.blocks.bytes());
  args.shares = shares_ = lowering_.temporary(uint64_t{slots_} * 4);
  args.step = lowering_.step();
  lowering_.emit(expert_route(lowering_.profile(), args));

  const uint32_t block_slots = routed_block_slots(double{1} * slots_ / experts_.count);
  choices_ = blocks_ = args.blocks;
  if (block_slots == 1) return {};
  blocks_ = ExpertBlocks::of(block_slots, slots_, experts_.count);
  blocks_.buffer = lowering_.temporary(blocks_.bytes());
  lowering_.emit(expert_group(lowering_.profile(), experts_.count, args.blocks, blocks_));
  return {};
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
                                            std::span<const WeightId> weights, bool gated,
                                            Activation activation) {
  PUMICE_TRY(PackedWeight packed, lowering_.expert_matrix(weights, gated));
  const uint32_t rows = static_cast<uint32_t>(view(weights[0]).rows);
  const uint32_t tiles = (rows + 7) / 8 * (gated ? 2 : 1), unit = merged_columns / 8;
  MatmulArgs args;
  args.x = x;
  args.format = packed.format;
  args.gated = gated;
  args.activation = activation;
  args.result = slot_rows(rows);
  args.step = lowering_.step();
  args.routing = MatmulRouting{blocks_.buffer,
                               blocks_.count,
                               blocks_.block_slots,
                               slots_per_row,
                               experts_.routing.used / slots_per_row,
                               experts_.count,
                               (tiles + unit - 1) / unit * unit};
  for (const WeightSegment& segment : packed.segments) {
    args.weight = segment;
    PUMICE_CHECK(matmul(lowering_, args));
  }
  return args.result;
}

// The gate and the up by products of their own, then what the epilogue of one product cannot do.
Result<ActivationRef> ExpertLayer::gated() {
  ExpertGateArgs args;
  args.activation = experts_.activation;
  args.used = experts_.routing.used;
  PUMICE_TRY(args.gate, multiply(x_, args.used, gates(), false));
  args.up = args.gate;
  if (!experts_.ungated) {
    PUMICE_TRY(args.up, multiply(x_, args.used, ups(), false));
  }
  args.result = slot_rows(args.gate.columns);
  args.choices = choices_;
  if (experts_.biases) {
    PUMICE_TRY(args.gate_bias, lowering_.vector(bias(0)));
    PUMICE_TRY(args.up_bias, lowering_.vector(bias(1)));
  }
  if (experts_.scaled_inputs) args.shares = shares_;
  args.step = lowering_.step();
  lowering_.emit(expert_gate(lowering_.profile(), args));
  return args.result;
}

// The activation of gate x and up x, for each slot.
Result<ActivationRef> ExpertLayer::hidden() {
  const Activation activation = experts_.activation.kind;
  if (experts_.plain) return multiply(x_, experts_.routing.used, ups(), false, activation);
  const bool plain =
      !experts_.ungated && !experts_.biases && !experts_.scaled_inputs && experts_.activation.limit == 0;
  if (!plain || view(gates()[0]).type() != view(ups()[0]).type()) return gated();
  std::vector<WeightId> pairs;
  for (uint32_t e = 0; e < experts_.count; ++e) pairs.insert(pairs.end(), {gates()[e], ups()[e]});
  return multiply(x_, experts_.routing.used, pairs, true, activation);
}

Result<ActivationRef> ExpertLayer::products() {
  PUMICE_TRY(ActivationRef inner, hidden());
  return multiply(inner, 1, downs(), false);
}

Status ExpertLayer::combine(ExpertCombineArgs args) {
  PUMICE_TRY(args.products, products());
  args.used = experts_.routing.used;
  args.shares = shares_;
  args.weighted = !experts_.scaled_inputs;
  if (experts_.biases) {
    PUMICE_TRY(args.bias, lowering_.vector(bias(2)));
  }
  args.choices = choices_;
  args.step = lowering_.step();
  lowering_.emit(expert_combine(lowering_.profile(), args));
  return {};
}

} // namespace

ExpertBlocks ExpertBlocks::of(uint32_t block_slots, uint32_t slots, uint32_t experts) {
  const uint64_t most = (slots + uint64_t{experts} * (block_slots - 1)) / block_slots;
  return {block_slots, static_cast<uint32_t>(most), {}};
}

Dispatch expert_route(const DeviceProfile& profile, const ExpertRouteArgs& args) {
  Dispatch dispatch;
  dispatch.kernel = "expert_route";
  const ExpertRouting& routing = args.routing;
  dispatch.constants = {
      profile.workgroup, routing.normalise ? 1u : 0u, score_constant(routing.score), routing.biased ? 1u : 0u,
      routing.groups,    routing.scaled ? 1u : 0u};
  ExpertRouteParams params = {};
  params.experts = args.logits.columns;
  params.used = routing.used;
  params.used_groups = routing.used_groups;
  params.group_best = routing.group_best;
  params.scale = routing.scale;
  params.jitter = routing.jitter;
  params.logits_stride = args.logits.stride;
  params.rows_kind = args.logits.rows_kind;
  dispatch.set_params(params);
  dispatch.bind(EXPERT_ROUTE_STEP, args.step, Access::read);
  dispatch.bind(EXPERT_ROUTE_LOGITS, args.logits.buffer, Access::read);
  if (args.bias) dispatch.bind(EXPERT_ROUTE_BIAS, *args.bias, Access::read);
  if (args.scales) dispatch.bind(EXPERT_ROUTE_SCALES, *args.scales, Access::read);
  dispatch.bind(EXPERT_ROUTE_BLOCKS, args.blocks.buffer, Access::write);
  dispatch.bind(EXPERT_ROUTE_SHARES, args.shares, Access::write);
  dispatch.groups = {args.logits.rows, 1, 1};
  const double logits = double{1} * args.logits.rows * args.logits.columns;
  dispatch.flops = logits * routing.used;
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

Dispatch expert_gate(const DeviceProfile& profile, const ExpertGateArgs& args) {
  Dispatch dispatch;
  dispatch.kernel = "expert_gate";
  dispatch.constants = {profile.workgroup, static_cast<uint32_t>(args.activation.kind),
                        args.activation.limit != 0 ? 1u : 0u, args.gate_bias ? 1u : 0u,
                        args.shares ? 1u : 0u};
  ExpertGateParams params = {};
  params.columns = args.result.columns;
  params.used = args.used;
  params.stride = args.result.stride;
  params.rows_kind = args.result.rows_kind;
  params.limit = args.activation.limit;
  dispatch.set_params(params);
  dispatch.bind(EXPERT_GATE_STEP, args.step, Access::read);
  dispatch.bind(EXPERT_GATE_GATE, args.gate.buffer, Access::read);
  dispatch.bind(EXPERT_GATE_UP, args.up.buffer, Access::read);
  if (args.shares) dispatch.bind(EXPERT_GATE_SHARES, *args.shares, Access::read);
  if (args.gate_bias) {
    dispatch.bind(EXPERT_GATE_CHOICES, args.choices.buffer, Access::read);
    dispatch.bind(EXPERT_GATE_GATE_BIAS, *args.gate_bias, Access::read);
    dispatch.bind(EXPERT_GATE_UP_BIAS, *args.up_bias, Access::read);
  }
  dispatch.bind(EXPERT_GATE_RESULT, args.result.buffer, Access::write);
  dispatch.groups = {args.result.rows, row_groups(profile, args.result), 1};
  const double elements = double{1} * args.result.rows * args.result.columns;
  dispatch.flops = elements * 8;
  dispatch.bytes = elements * 12;
  return dispatch;
}

Dispatch expert_combine(const DeviceProfile& profile, const ExpertCombineArgs& args) {
  Dispatch dispatch;
  dispatch.kernel = "expert_combine";
  dispatch.constants = {profile.workgroup, args.residual ? 1u : 0u, args.bias ? 1u : 0u,
                        args.weighted ? 1u : 0u};
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
  if (args.weighted) dispatch.bind(EXPERT_COMBINE_SHARES, args.shares, Access::read);
  if (args.bias) {
    dispatch.bind(EXPERT_COMBINE_CHOICES, args.choices.buffer, Access::read);
    dispatch.bind(EXPERT_COMBINE_BIAS, *args.bias, Access::read);
  }
  if (args.residual) dispatch.bind(EXPERT_COMBINE_RESIDUAL, args.residual->buffer, Access::read);
  dispatch.bind(EXPERT_COMBINE_RESULT, args.result.buffer, Access::write);
  dispatch.groups = {args.result.rows, row_groups(profile, args.result), 1};
  const double elements = double{1} * args.result.rows * args.result.columns;
  dispatch.flops = elements * 2 * args.used;
  dispatch.bytes = elements * 4 * (args.used + (args.residual ? 2 : 1));
  return dispatch;
}

std::string ExpertRouting::describe() const {
  std::string text = score == ExpertScore::sigmoid   ? "sigmoid"
                     : score == ExpertScore::softmax ? "softmax"
                                                     : fmt::format("sparse mixer of jitter {:g}", jitter);
  if (biased) text += " biased";
  if (groups > 1) text += fmt::format(" in {} of {} groups", used_groups, groups);
  if (normalise) text += " normalised";
  if (scale != 1) text += fmt::format(" times {:g}", scale);
  if (scaled) text += " times each expert's scale";
  return text;
}

std::string Experts::describe() const {
  std::string text =
      fmt::format("{} of {} {}, {}", routing.used, count, to_string(activation.kind), routing.describe());
  if (activation.limit != 0) text += fmt::format(" clamped at {:g}", activation.limit);
  if (biases) text += " with biases";
  if (ungated) text += plain ? " without gates, plain" : " without gates";
  if (scaled_inputs) text += " inputs scaled";
  if (residual) text += " residual";
  return text;
}

Status Experts::lower(Lowering& lowering, const Node& node) const {
  ExpertLayer layer(*this, lowering, node);
  PUMICE_CHECK(layer.check());
  PUMICE_CHECK(layer.route(lowering.tensor(node.inputs[1])));
  ExpertCombineArgs args;
  if (residual) args.residual = lowering.tensor(node.inputs[2]);
  args.result = lowering.tensor(node.output);
  return layer.combine(std::move(args));
}

TensorId experts(Graph& graph, std::string name, TensorId x, TensorId router_logits,
                 const ExpertWeights& weights, Experts operation, std::optional<TensorId> residual) {
  std::vector<TensorId> inputs = {x, router_logits};
  operation.residual = residual.has_value();
  operation.ungated = weights.gate.empty();
  if (residual) inputs.push_back(*residual);
  std::vector<WeightId> ids;
  for (const std::vector<WeightId>* part : {&weights.gate, &weights.up, &weights.down})
    ids.insert(ids.end(), part->begin(), part->end());
  operation.routing.biased = weights.routing_bias.has_value();
  if (weights.routing_bias) ids.push_back(*weights.routing_bias);
  operation.routing.scaled = weights.routing_scales.has_value();
  if (weights.routing_scales) ids.push_back(*weights.routing_scales);
  operation.biases = !weights.biases.empty();
  ids.insert(ids.end(), weights.biases.begin(), weights.biases.end());
  const uint32_t columns = static_cast<uint32_t>(graph.weight(weights.down[0]).view.rows);
  return graph.add(std::move(operation), std::move(inputs), std::move(ids),
                   {std::move(name), graph.tensor(x).rows, columns});
}

} // namespace pumice
