#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/weight_view.h"

namespace pumice {

using TensorId = uint32_t;
using WeightId = uint32_t;

class Lowering; // kernel/lowering.h
struct Node;

// What a node computes. Each operation lives with its kernel (runtime/kernel/FAMILY.h): the graph only knows
// that it has a name, can describe itself and can turn itself into kernel launches for a device.
class Operation {
public:
  virtual ~Operation() = default;
  virtual std::string_view name() const = 0;
  virtual std::string describe() const { return {}; } // its attributes, for a person: "eps 1e-05"
  // Whether a row of the output is made of the same row of the inputs alone.
  virtual bool by_row() const { return false; }
  virtual Status lower(Lowering& lowering, const Node& node) const = 0;
};

enum class RowKind : uint32_t {
  tokens,  // a row for each token of a step
  outputs, // a row for each token whose logits are wanted
};

// Columns [first_column, first_column + columns of the view) of another tensor. Consumers of a view cannot
// count on the zeros that follow a tensor's last column.
struct View {
  TensorId base = 0;
  uint32_t first_column = 0;
};

// An activation: [rows, columns] floats.
struct Tensor {
  std::string name;
  RowKind rows = RowKind::tokens;
  uint32_t columns = 0;
  std::optional<View> view;
  bool kept = false;  // readable by the host after the step, under its name
  bool input = false; // written by the host before the step; no node makes it
};

// A tensor of the model file, or a part of one, that nodes refer to.
struct Weight {
  WeightView view;
  std::string component; // "embedding", "attention", "feed-forward", "norms", "head": for reports
};

struct Node {
  std::shared_ptr<const Operation> operation;
  std::vector<TensorId> inputs;
  std::vector<WeightId> weights;
  TensorId output = 0;
  std::vector<TensorId> more_outputs; // what the operation also leaves where somebody wants it
};

// Typed operations on shaped tensors, in an order in which they can run. Knows no Vulkan. A model is a
// function from its config to a Graph.
class Graph {
public:
  WeightId weight(const WeightView& view, std::string component);
  TensorId add(std::shared_ptr<const Operation> operation, std::vector<TensorId> inputs,
               std::vector<WeightId> weights, Tensor output);
  template <class Op>
  TensorId add(Op operation, std::vector<TensorId> inputs, std::vector<WeightId> weights, Tensor output) {
    return add(std::shared_ptr<const Operation>(std::make_shared<Op>(std::move(operation))),
               std::move(inputs), std::move(weights), std::move(output));
  }
  // The same in the place of node `at`, which comes after it; its inputs have to be there by then.
  TensorId insert(size_t at, std::shared_ptr<const Operation> operation, std::vector<TensorId> inputs,
                  Tensor output);
  TensorId add_output(size_t node, Tensor output); // one more of a node's outputs
  TensorId add_tensor(Tensor tensor);
  // A tensor that the host fills. At most one of a graph.
  TensorId input(std::string name, RowKind rows, uint32_t columns);
  void keep(TensorId tensor, std::string name);

  std::span<const Node> nodes() const { return nodes_; }
  std::span<const Tensor> tensors() const { return tensors_; }
  std::span<const Weight> weights() const { return weights_; }
  const Tensor& tensor(TensorId id) const { return tensors_[id]; }
  Tensor& tensor(TensorId id) { return tensors_[id]; }
  const Weight& weight(WeightId id) const { return weights_[id]; }
  void replace_nodes(std::vector<Node> nodes) { nodes_ = std::move(nodes); } // for plan/fusion.h

  // How many of the operations that were ever added have become a part of others.
  size_t fused_operations() const { return added_ - nodes_.size(); }

  // The tensor whose memory `id` lies in: itself, or the base of the view it is.
  TensorId storage(TensorId id) const { return tensors_[id].view ? tensors_[id].view->base : id; }

  // The node that makes a tensor; nodes().size() where none does.
  size_t producer(TensorId tensor) const;

  std::string text() const; // a line for each node, for `pumice inspect --graph`

private:
  std::vector<Node> nodes_;
  size_t added_ = 0; // operations
  std::vector<Tensor> tensors_;
  std::vector<Weight> weights_;
};

} // namespace pumice
