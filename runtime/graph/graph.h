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

// What a node computes. Each operation is defined beside its kernel, in runtime/kernel/FAMILY/. The graph
// knows only that an operation has a name, can describe itself, and can lower itself to kernel launches.
class Operation {
public:
  virtual ~Operation() = default;
  virtual std::string_view name() const = 0;
  virtual std::string describe() const { return {}; } // its attributes as text: "eps 1e-05"
  // Whether each row of the output depends only on the same row of the inputs.
  virtual bool by_row() const { return false; }
  virtual Status lower(Lowering& lowering, const Node& node) const = 0;
};

enum class RowKind : uint32_t {
  tokens,  // one row for each token of a step
  outputs, // one row for each token whose logits are wanted
};

// Columns [first_column, first_column + columns of the view) of another tensor. A tensor's last column is
// followed by padding zeros; a view's last column is not, so its readers must not rely on them.
struct View {
  TensorId base = 0;
  uint32_t first_column = 0;
};

// An activation: float32, [rows, columns].
struct Tensor {
  std::string name;
  RowKind rows = RowKind::tokens;
  uint32_t columns = 0;
  std::optional<View> view;
  bool readable = false; // the host can read it after the step, by its name
  bool input = false;    // written by the host before the step; no node writes it
  bool received = false; // the same of what the stage before has computed; see graph/cut.h
  bool sent = false;     // the next stage receives it
};

// A tensor of the model file, or a slice of one, that nodes read.
struct Weight {
  WeightView view;
  std::string component; // for reports: "embedding", "attention", "feed-forward", "norms" or "head"
};

struct Node {
  std::shared_ptr<const Operation> operation;
  std::vector<TensorId> inputs;
  std::vector<WeightId> weights;
  TensorId output = 0;
  std::vector<TensorId> more_outputs; // optional results, present only where they are read
};

// Operations on tensors with shapes, in an order in which they can run. It does not depend on Vulkan. An
// architecture turns a model's config into a Graph.
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
  // Inserts a node before node `at`. Its inputs must be written by nodes before it.
  TensorId insert(size_t at, std::shared_ptr<const Operation> operation, std::vector<TensorId> inputs,
                  Tensor output);
  TensorId add_output(size_t node, Tensor output); // adds an optional output to a node
  TensorId add_tensor(Tensor tensor);
  // Adds a tensor that the host writes. A graph has at most one.
  TensorId input(std::string name, RowKind rows, uint32_t columns);
  // Names a tensor and lets the host read it after the step.
  void make_readable(TensorId tensor, std::string name);

  std::span<const Node> nodes() const { return nodes_; }
  std::span<const Tensor> tensors() const { return tensors_; }
  std::span<const Weight> weights() const { return weights_; }
  const Tensor& tensor(TensorId id) const { return tensors_[id]; }
  Tensor& tensor(TensorId id) { return tensors_[id]; }
  const Weight& weight(WeightId id) const { return weights_[id]; }
  void replace_nodes(std::vector<Node> nodes) { nodes_ = std::move(nodes); } // used by plan/fusion.h
  void count_added(size_t nodes) { added_ += nodes; }   // that replace_nodes() will bring
  void count_dropped(size_t nodes) { added_ -= nodes; } // that it will leave out
  void keep_nodes(size_t first, size_t end);            // and forgets that there were others

  // How many operations were fused into others since they were added.
  size_t fused_operations() const { return added_ - nodes_.size(); }

  // Makes a tensor a view of another one; so what was a view of it is a view of the other one too.
  void make_view(TensorId id, const View& view);
  // The tensor that owns the memory of `id`: the base if `id` is a view, otherwise `id` itself.
  TensorId storage(TensorId id) const { return tensors_[id].view ? tensors_[id].view->base : id; }

  // The index of the node that writes a tensor; nodes().size() if none does.
  size_t producer(TensorId tensor) const;

  std::string text() const; // one line for each node, for `pumice inspect --graph`

private:
  std::vector<Node> nodes_;
  size_t added_ = 0; // operations ever added
  std::vector<Tensor> tensors_;
  std::vector<Weight> weights_;
};

} // namespace pumice
