#include "kernel/heads/heads.h"

#include <fmt/format.h>

#include "kernel/experts/experts.h"
#include "kernel/lowering.h"
#include "kernel/matmul/matmul.h"
#include "kernel/row_groups.h"
#include "shaders/heads/head_blocks.params.h"
#include "shaders/heads/join_heads.params.h"

namespace pumice {

namespace {

constexpr uint32_t float_bytes = sizeof(float);

// The products of all heads are a routed product: a row has a slot for each head, whose matrix is its expert.
class HeadProducts {
public:
  HeadProducts(const HeadLinear& operation, Lowering& lowering, const Node& node)
      : columns_(operation.x), sharing_(operation.sharing), lowering_(lowering), weights_(node.weights),
        x_(lowering.tensor(node.inputs[0])), result_(lowering.tensor(node.output)),
        name_(lowering.graph().tensor(node.output).name) {}

  Status lower();

private:
  uint32_t heads() const { return sharing_ ? sharing_ : static_cast<uint32_t>(weights_.size()); }
  uint32_t matrix_rows() const { return result_.columns / heads(); }
  Status check() const;
  ActivationRef slot_rows(uint32_t columns, uint32_t stride, const BufferRef& buffer) const;
  ActivationRef input_slots();
  ExpertBlocks blocks();

  const HeadColumns columns_;
  const uint32_t sharing_;
  Lowering& lowering_;
  const std::span<const WeightId> weights_;
  const ActivationRef x_, result_;
  const std::string& name_;
};

Status HeadProducts::check() const {
  const uint64_t read = uint64_t{heads() - 1} * columns_.head_dim + columns_.first + columns_.count;
  if (read > x_.columns) {
    return Error{Code::unsupported,
                 fmt::format("{}: {} heads read {} columns of {}", name_, heads(), read, x_.columns)};
  }
  for (WeightId id : weights_) {
    const WeightView& first = lowering_.graph().weight(weights_[0]).view;
    const WeightView& view = lowering_.graph().weight(id).view;
    if (view.columns == columns_.count && view.rows == matrix_rows() && view.type() == first.type()) continue;
    return Error{Code::unsupported,
                 fmt::format("{}: {} is {} [{}, {}]; the matrices of all heads have to be {} [{}, {}]", name_,
                             view.tensor->name, info(view.type()).name, view.rows, view.columns,
                             info(first.type()).name, matrix_rows(), columns_.count)};
  }
  return {};
}

ActivationRef HeadProducts::slot_rows(uint32_t columns, uint32_t stride, const BufferRef& buffer) const {
  ActivationRef slots = x_;
  slots.rows = x_.rows * heads();
  slots.columns = columns;
  slots.stride = stride;
  slots.buffer = buffer;
  return slots;
}

// A slot's columns of x: where they lie, if the slots follow each other there as a product reads them.
ActivationRef HeadProducts::input_slots() {
  const uint32_t count = columns_.count, head_dim = columns_.head_dim;
  const uint64_t skipped = uint64_t{columns_.first} * float_bytes;
  if (count % 32 == 0 && head_dim % 32 == 0 && x_.stride == uint64_t{heads()} * head_dim &&
      (x_.buffer.offset + skipped) % descriptor_alignment == 0) {
    return slot_rows(count, head_dim, x_.buffer.at(skipped, x_.buffer.bytes - skipped));
  }
  const uint32_t stride = (count + 31) / 32 * 32;
  const uint64_t bytes = uint64_t{x_.rows} * heads() * stride * float_bytes;
  JoinHeadsArgs args;
  args.heads = heads();
  args.first = {x_, columns_};
  args.result = x_;
  args.result.columns = args.result.stride = heads() * stride;
  args.result.buffer = lowering_.temporary(bytes);
  args.result_head = stride;
  args.step = lowering_.step();
  lowering_.emit(join_heads(lowering_.profile(), args));
  return slot_rows(count, stride, args.result.buffer);
}

ExpertBlocks HeadProducts::blocks() {
  const DeviceProfile& profile = lowering_.profile();
  const uint32_t matrices = static_cast<uint32_t>(weights_.size()), each = heads() / matrices;
  ExpertBlocks blocks =
      ExpertBlocks::of(routed_block_slots(double{1} * x_.rows * each), x_.rows * heads(), matrices);
  blocks.buffer = lowering_.temporary(blocks.bytes());
  Dispatch dispatch;
  dispatch.kernel = "head_blocks";
  dispatch.constants = {profile.workgroup};
  dispatch.set_params(HeadBlocksParams{matrices, each, blocks.block_slots, x_.rows_kind});
  dispatch.bind(HEAD_BLOCKS_STEP, lowering_.step(), Access::read);
  dispatch.bind(HEAD_BLOCKS_RESULT, blocks.buffer, Access::write);
  dispatch.groups = {(blocks.count + profile.workgroup - 1) / profile.workgroup, 1, 1};
  dispatch.flops = dispatch.bytes = static_cast<double>(blocks.bytes());
  lowering_.emit(std::move(dispatch));
  return blocks;
}

Status HeadProducts::lower() {
  PUMICE_CHECK(check());
  PUMICE_TRY(const PackedWeight packed, lowering_.matrix(weights_, false));
  const uint32_t rows = matrix_rows(), stride = (rows + 31) / 32 * 32;
  // The slots of a row are the row, if nothing lies between them.
  const bool in_place = rows == stride && result_.stride == result_.columns;
  const ExpertBlocks slots = blocks();
  const uint32_t tiles = (rows + 7) / 8, unit = merged_columns / 8;
  MatmulArgs args;
  args.x = input_slots();
  args.format = packed.format;
  args.result = slot_rows(rows, stride,
                          in_place ? result_.buffer
                                   : lowering_.temporary(uint64_t{x_.rows} * heads() * stride * float_bytes));
  args.step = lowering_.step();
  args.routing = MatmulRouting{slots.buffer,
                               slots.count,
                               slots.block_slots,
                               1,
                               heads(),
                               static_cast<uint32_t>(weights_.size()),
                               (tiles + unit - 1) / unit * unit};
  for (const WeightSegment& segment : packed.segments) {
    args.weight = segment;
    PUMICE_CHECK(matmul(lowering_, args));
  }
  if (in_place) return {};
  JoinHeadsArgs join;
  join.heads = heads();
  join.first.x = result_;
  join.first.x.stride = heads() * stride;
  join.first.x.buffer = args.result.buffer;
  join.first.columns = {stride, 0, rows};
  join.result = result_;
  join.result_head = rows;
  join.step = lowering_.step();
  lowering_.emit(join_heads(lowering_.profile(), join));
  return {};
}

std::string describe_columns(const HeadColumns& columns) {
  return fmt::format("columns {} to {} of {}", columns.first, columns.first + columns.count,
                     columns.head_dim ? std::to_string(columns.head_dim) : "all");
}

} // namespace

Dispatch join_heads(const DeviceProfile& profile, const JoinHeadsArgs& args) {
  const bool two = args.second.columns.count > 0;
  const BoundView first = bound_view(args.first.x);
  const BoundView second = two ? bound_view(args.second.x) : first;
  Dispatch dispatch;
  dispatch.kernel = "join_heads";
  dispatch.constants = {profile.workgroup};
  JoinHeadsParams params = {};
  params.heads = args.heads;
  params.rows_kind = args.result.rows_kind;
  params.first_at = first.first + args.first.columns.first;
  params.first_row = args.first.x.stride;
  params.first_head = args.first.columns.head_dim;
  params.first_columns = args.first.columns.count;
  params.second_at = second.first + args.second.columns.first;
  params.second_row = args.second.x.stride;
  params.second_head = args.second.columns.head_dim;
  params.second_columns = args.second.columns.count;
  params.result_row = args.result.stride;
  params.result_head = args.result_head;
  dispatch.set_params(params);
  dispatch.bind(JOIN_HEADS_STEP, args.step, Access::read);
  dispatch.bind(JOIN_HEADS_FIRST, first.buffer, Access::read);
  dispatch.bind(JOIN_HEADS_SECOND, second.buffer, Access::read);
  dispatch.bind(JOIN_HEADS_RESULT, args.result.buffer, Access::write);
  dispatch.groups = {args.result.rows, row_groups(profile, args.result), 1};
  const double elements = double{1} * args.result.rows * args.result.stride;
  dispatch.flops = elements;
  dispatch.bytes = elements * 8;
  return dispatch;
}

std::string JoinHeads::describe() const {
  return fmt::format("{} heads: {}, then {}", heads, describe_columns(a), describe_columns(b));
}

Status JoinHeads::lower(Lowering& lowering, const Node& node) const {
  JoinHeadsArgs args;
  args.heads = heads;
  args.first = {lowering.tensor(node.inputs[0]), a};
  args.second = {lowering.tensor(node.inputs[1]), b};
  args.result = lowering.tensor(node.output);
  args.result_head = a.count + b.count;
  args.step = lowering.step();
  lowering.emit(join_heads(lowering.profile(), args));
  return {};
}

std::string HeadLinear::describe() const {
  return describe_columns(x) + (sharing ? fmt::format(", {} heads alike", sharing) : "");
}

Status HeadLinear::lower(Lowering& lowering, const Node& node) const {
  return HeadProducts(*this, lowering, node).lower();
}

TensorId join_heads(Graph& graph, std::string name, TensorId a, const HeadColumns& a_columns, TensorId b,
                    const HeadColumns& b_columns, uint32_t heads) {
  JoinHeads operation;
  operation.heads = heads;
  operation.a = a_columns;
  operation.b = b_columns;
  return graph.add(std::move(operation), {a, b}, {},
                   {std::move(name), graph.tensor(a).rows, heads * (a_columns.count + b_columns.count)});
}

namespace {

TensorId add_products(Graph& graph, std::string name, TensorId x, const HeadLinear& operation,
                      std::vector<WeightId> matrices) {
  const uint64_t heads = operation.sharing ? operation.sharing : matrices.size();
  const uint32_t rows = static_cast<uint32_t>(heads * graph.weight(matrices[0]).view.rows);
  const RowKind kind = graph.tensor(x).rows;
  return graph.add(operation, {x}, std::move(matrices), {std::move(name), kind, rows});
}

} // namespace

TensorId head_linear(Graph& graph, std::string name, TensorId x, const HeadColumns& columns,
                     std::vector<WeightId> matrices) {
  HeadLinear operation;
  operation.x = columns;
  return add_products(graph, std::move(name), x, operation, std::move(matrices));
}

TensorId shared_head_linear(Graph& graph, std::string name, TensorId x, const HeadColumns& columns,
                            uint32_t heads, WeightId matrix) {
  HeadLinear operation;
  operation.x = columns;
  operation.sharing = heads;
  return add_products(graph, std::move(name), x, operation, {matrix});
}

} // namespace pumice
