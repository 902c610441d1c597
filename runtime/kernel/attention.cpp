#include "kernel/attention.h"

#include <algorithm>
#include <cassert>

#include <fmt/format.h>

#include "plan/lowering.h"
#include "shaders/attention/attention.params.h"

namespace pumice {

namespace {

// How many queries one workgroup takes: they share its loads, and each needs registers by the head's size.
struct Shape {
  uint32_t heads;
  uint32_t tokens;
};

Shape choose_shape(const AttentionArgs& args) {
  const CacheLayout& layout = args.cache.layout;
  const uint32_t group = args.heads / layout.kv_heads;
  const uint32_t most = layout.head_dim_padded() <= 128 ? 4 : 2;
  // As many heads as fit, the same in each of the group's workgroups as near as can be.
  const uint32_t parts = (group + most - 1) / most;
  Shape shape = {(group + parts - 1) / parts, 1};
  if (args.one_sequence) {
    while (shape.heads * shape.tokens * 2 <= most && shape.tokens < args.q.rows) shape.tokens *= 2;
  }
  return shape;
}

// A descriptor begins at a multiple of this on every device.
constexpr uint64_t descriptor_alignment = 256;

} // namespace

Dispatch attention(const KernelStyle& style, const AttentionArgs& args) {
  const CacheLayout& layout = args.cache.layout;
  assert(args.heads % layout.kv_heads == 0);
  assert(args.q.columns == args.heads * layout.head_dim);
  const Shape shape = choose_shape(args);

  Dispatch dispatch;
  dispatch.kernel = std::string(style.lane8 ? "attention.lane8." : "attention.") + to_string(layout.type);
  dispatch.constants = {style.lane8 ? 8 : style.workgroup, layout.head_dim, shape.heads, shape.tokens};
  // Compilers that know uniform loads (Mesa 26's) make up to twice as fast a kernel of unrolled loops, as
  // long as its code stays small. Older ones make a slower one of them, and take seconds for it.
  const bool unroll = style.uniform_loads && shape.heads * shape.tokens * layout.head_dim <= 256;
  if (style.lane8) dispatch.constants.push_back(unroll ? 1 : 0);

  // Queries may be a view that begins anywhere.
  BufferRef q = args.q.buffer;
  const uint64_t q_first = q.offset % descriptor_alignment;
  q.offset -= q_first;
  q.bytes += q_first;

  AttentionParams params = {};
  params.q_first = static_cast<uint32_t>(q_first / sizeof(float));
  params.q_stride = args.q.stride;
  params.result_stride = args.result.stride;
  params.heads = args.heads;
  params.kv_heads = layout.kv_heads;
  params.capacity = layout.capacity;
  params.window = args.window;
  params.end = args.length;
  params.scale = args.scale;
  dispatch.set_params(params);

  dispatch.bind(ATTENTION_STEP, args.step, Access::read);
  dispatch.bind(ATTENTION_Q, q, Access::read);
  dispatch.bind(ATTENTION_KEYS, args.cache.keys, Access::read);
  dispatch.bind(ATTENTION_VALUES, args.cache.values, Access::read);
  dispatch.bind(ATTENTION_RESULT, args.result.buffer, Access::write);

  const uint32_t group = args.heads / layout.kv_heads;
  const uint32_t parts = (group + shape.heads - 1) / shape.heads;
  const uint32_t token_groups = (args.q.rows + shape.tokens - 1) / shape.tokens;
  dispatch.groups = {layout.kv_heads * parts, token_groups, 1};
  // The cache is taken to be half full: how full it is a plan cannot know.
  uint32_t seen = layout.capacity / 2;
  if (args.window > 0) seen = std::min(seen, args.window);
  dispatch.flops = 4.0 * args.q.rows * args.heads * layout.head_dim * seen;
  dispatch.bytes = 2.0 * token_groups * layout.kv_heads * parts * layout.head_dim_padded() *
                       layout.element_bytes() * seen +
                   8.0 * args.q.rows * args.q.columns;
  return dispatch;
}

std::string Attention::describe() const {
  std::string text = fmt::format("layer {} heads {} scale {:.6g}", layer, heads, scale);
  if (window > 0) text += fmt::format(" window {}", window);
  if (length > 0) text += fmt::format(" both ways to {}", length);
  return text;
}

Status Attention::lower(Lowering& lowering, const Node& node) const {
  AttentionArgs args;
  args.q = lowering.tensor(node.inputs[0]);
  args.cache = lowering.cache(layer);
  args.heads = heads;
  args.scale = scale;
  args.window = window;
  args.length = length;
  // A step with no more rows than there are sequences is one that decodes them all.
  args.one_sequence = args.cache.layout.sequences == 1 || args.q.rows > args.cache.layout.sequences;
  args.result = lowering.tensor(node.output);
  args.step = lowering.step();
  lowering.emit(attention(lowering.style(), args));
  return {};
}

TensorId attention(Graph& graph, std::string name, TensorId q, const Attention& operation) {
  const Tensor& queries = graph.tensor(q);
  return graph.add(operation, {q}, {}, {std::move(name), queries.rows, queries.columns});
}

} // namespace pumice
