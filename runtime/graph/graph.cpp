#include "graph/graph.h"

#include <algorithm>

#include <fmt/format.h>

namespace pumice {

WeightId Graph::weight(const WeightView& view, std::string component) {
  weights_.push_back({view, std::move(component)});
  return static_cast<WeightId>(weights_.size() - 1);
}

TensorId Graph::add_tensor(Tensor tensor) {
  tensors_.push_back(std::move(tensor));
  return static_cast<TensorId>(tensors_.size() - 1);
}

TensorId Graph::add(std::shared_ptr<const Operation> operation, std::vector<TensorId> inputs,
                    std::vector<WeightId> weights, Tensor output) {
  const TensorId id = add_tensor(std::move(output));
  ++added_;
  nodes_.push_back({std::move(operation), std::move(inputs), std::move(weights), id, {}});
  return id;
}

TensorId Graph::insert(size_t at, std::shared_ptr<const Operation> operation, std::vector<TensorId> inputs,
                       Tensor output) {
  const TensorId id = add_tensor(std::move(output));
  ++added_;
  nodes_.insert(nodes_.begin() + static_cast<ptrdiff_t>(at),
                {std::move(operation), std::move(inputs), {}, id, {}});
  return id;
}

TensorId Graph::add_output(size_t node, Tensor output) {
  const TensorId id = add_tensor(std::move(output));
  nodes_[node].more_outputs.push_back(id);
  return id;
}

void Graph::keep_nodes(size_t first, size_t end) {
  added_ -= nodes_.size() - (end - first);
  nodes_.erase(nodes_.begin() + static_cast<ptrdiff_t>(end), nodes_.end());
  nodes_.erase(nodes_.begin(), nodes_.begin() + static_cast<ptrdiff_t>(first));
}

void Graph::make_view(TensorId id, const View& view) {
  tensors_[id].view = view;
  for (Tensor& other : tensors_) {
    if (other.view && other.view->base == id)
      other.view = View{view.base, view.first_column + other.view->first_column};
  }
}

size_t Graph::producer(TensorId tensor) const {
  const auto makes = [&](const Node& node) {
    return node.output == tensor ||
           std::find(node.more_outputs.begin(), node.more_outputs.end(), tensor) != node.more_outputs.end();
  };
  return static_cast<size_t>(std::find_if(nodes_.begin(), nodes_.end(), makes) - nodes_.begin());
}

TensorId Graph::input(std::string name, RowKind rows, uint32_t columns) {
  Tensor tensor{std::move(name), rows, columns};
  tensor.input = true;
  return add_tensor(std::move(tensor));
}

void Graph::make_readable(TensorId tensor, std::string name) {
  tensors_[tensor].readable = true;
  tensors_[tensor].name = std::move(name);
}

std::string Graph::text() const {
  const auto shape = [&](const Tensor& tensor) {
    return fmt::format("[{}, {}]", tensor.rows == RowKind::tokens ? "tokens" : "outputs", tensor.columns);
  };
  std::string text;
  for (const Node& node : nodes_) {
    const Tensor& output = tensors_[node.output];
    std::string name = output.name;
    for (TensorId more : node.more_outputs) name += ", " + tensors_[more].name;
    text += fmt::format("{:<28} {:<18} = {}(", name, shape(output), node.operation->name());
    std::string separator;
    for (TensorId input : node.inputs) {
      text += separator + tensors_[input].name;
      separator = ", ";
    }
    for (WeightId id : node.weights) {
      text += separator + weights_[id].view.tensor->name;
      separator = ", ";
    }
    const std::string attributes = node.operation->describe();
    text += (attributes.empty() ? ")" : ") " + attributes) + (output.readable ? "  [readable]\n" : "\n");
  }
  return text;
}

} // namespace pumice
