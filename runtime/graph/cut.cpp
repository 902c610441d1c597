#include "graph/cut.h"

#include <algorithm>

#include <fmt/format.h>

namespace pumice {

namespace {

// For each tensor, the node that writes it; the number of nodes if none does.
std::vector<size_t> writers(const Graph& graph) {
  std::vector<size_t> result(graph.tensors().size(), graph.nodes().size());
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    result[graph.nodes()[i].output] = i;
    for (TensorId more : graph.nodes()[i].more_outputs) result[more] = i;
  }
  return result;
}

// For each tensor, one more than the last node that reads it, or a view of it; 0 if none does.
std::vector<size_t> reading_ends(const Graph& graph) {
  std::vector<size_t> result(graph.tensors().size());
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    for (TensorId input : graph.nodes()[i].inputs) result[graph.storage(input)] = i + 1;
  }
  return result;
}

bool reads(const Graph& graph, size_t first, size_t end, TensorId tensor) {
  return std::any_of(graph.nodes().begin() + static_cast<ptrdiff_t>(first),
                     graph.nodes().begin() + static_cast<ptrdiff_t>(end), [&](const Node& node) {
                       return std::ranges::any_of(
                           node.inputs, [&](TensorId input) { return graph.storage(input) == tensor; });
                     });
}

} // namespace

Status cut(Graph& graph, std::optional<TensorId> from, std::optional<TensorId> to) {
  const std::vector<size_t> written = writers(graph), read_end = reading_ends(graph);
  const size_t nodes = graph.nodes().size();
  const size_t first = from ? written[graph.storage(*from)] + 1 : 0;
  const size_t end = to ? written[graph.storage(*to)] + 1 : nodes;
  if (first > nodes || end > nodes || first >= end) {
    return Error{Code::internal, fmt::format("a graph of {} operations cannot be cut from {} to {}: a stage "
                                             "has at least one",
                                             nodes, first, end)};
  }
  for (TensorId id = 0; id < graph.tensors().size(); ++id) {
    Tensor& tensor = graph.tensor(id);
    const auto crosses = [&](size_t at) {
      return written[id] < at && (read_end[id] > at || (tensor.readable && at < nodes));
    };
    const bool received = crosses(first), sent = crosses(end);
    if ((received || sent) && tensor.rows != RowKind::tokens) {
      return Error{Code::unsupported,
                   fmt::format("the graph cannot be cut here: '{}' has rows of outputs only", tensor.name)};
    }
    const bool here = written[id] >= first && written[id] < end;
    tensor.input = tensor.input && reads(graph, first, end, id);
    tensor.received = received;
    tensor.sent = sent;
    tensor.readable = here && (tensor.readable || sent);
  }
  graph.keep_nodes(first, end);
  return {};
}

void drop_unread_outputs(Graph& graph) {
  std::vector<bool> read(graph.tensors().size());
  for (TensorId id = 0; id < read.size(); ++id) {
    if (graph.tensor(id).readable || graph.tensor(id).sent) read[graph.storage(id)] = true;
  }
  const auto is_unread = [&](TensorId id) {
    const Tensor& tensor = graph.tensor(id);
    return tensor.rows == RowKind::outputs && tensor.columns > 0 && !read[graph.storage(id)];
  };
  std::vector<Node> kept;
  for (size_t i = graph.nodes().size(); i-- > 0;) {
    const Node& node = graph.nodes()[i];
    if (is_unread(node.output) && std::ranges::all_of(node.more_outputs, is_unread)) continue;
    for (const TensorId input : node.inputs) read[graph.storage(input)] = true;
    kept.push_back(node);
  }
  std::ranges::reverse(kept);
  graph.count_dropped(graph.nodes().size() - kept.size());
  graph.replace_nodes(std::move(kept));
}

} // namespace pumice
