#pragma once

#include <optional>

#include "graph/graph.h"
#include "kernel/activation.h"
#include "kernel/activation_ref.h"
#include "kernel/device_profile.h"

namespace pumice {

enum class ElementwiseKind : uint32_t {
  add,          // a + b
  gate,         // activation(a) * b
  activate,     // activation(a)
  scale,        // amount * a
  soft_cap,     // amount * tanh(a / amount)
  gate_rows,    // a * sigmoid(b), b has one column
  gate_sigmoid, // a * sigmoid(b)
  clamp,        // a, but at most amount and at least `least`
  xielu,        // see XieluCurve
};

// An activation whose numbers are learned (Huang and Schlag, xIELU, 2024): slope x + rise x^2 where x is
// positive, otherwise slope x + fall (exp(min(x, end)) - 1 - x).
struct XieluCurve {
  float rise = 0, fall = 0, slope = 0, end = 0;
};

// For where a product's epilogue cannot do it. All of one shape, except as said above. a and b may be views
// that begin at any multiple of four columns.
struct ElementwiseArgs {
  ElementwiseKind kind = ElementwiseKind::add;
  Activation activation = Activation::none;
  float amount = 1;
  float least = 0;
  XieluCurve curve;
  ActivationRef a;
  std::optional<ActivationRef> b; // for add and gates
  ActivationRef result;
  BufferRef step;
};

Dispatch elementwise(const DeviceProfile& profile, const ElementwiseArgs& args);

// result = a + b. inputs: a, b.
struct Add : Operation {
  std::string_view name() const override { return "add"; }
  bool by_row() const override { return true; }
  Status lower(Lowering& lowering, const Node& node) const override;
};

// result = activation(a) * b. inputs: a, b.
struct Gate : Operation {
  Activation activation = Activation::none;

  std::string_view name() const override { return "gate"; }
  std::string describe() const override;
  bool by_row() const override { return true; }
  Status lower(Lowering& lowering, const Node& node) const override;
};

// result = activation(a). inputs: a.
struct Activate : Operation {
  Activation activation = Activation::none;

  std::string_view name() const override { return "activate"; }
  std::string describe() const override;
  bool by_row() const override { return true; }
  Status lower(Lowering& lowering, const Node& node) const override;
};

// result = factor * a. inputs: a.
struct Scale : Operation {
  float factor = 1;

  std::string_view name() const override { return "scale"; }
  std::string describe() const override;
  bool by_row() const override { return true; }
  Status lower(Lowering& lowering, const Node& node) const override;
};

// result = cap * tanh(a / cap), which keeps it between -cap and cap. inputs: a.
struct SoftCap : Operation {
  float cap = 1;

  std::string_view name() const override { return "soft_cap"; }
  std::string describe() const override;
  bool by_row() const override { return true; }
  Status lower(Lowering& lowering, const Node& node) const override;
};

// result = a, but at most `most` and at least `least`. inputs: a.
struct Clamp : Operation {
  float least = 0, most = 0;

  std::string_view name() const override { return "clamp"; }
  std::string describe() const override;
  bool by_row() const override { return true; }
  Status lower(Lowering& lowering, const Node& node) const override;
};

// inputs: a.
struct Xielu : Operation {
  XieluCurve curve;

  std::string_view name() const override { return "xielu"; }
  std::string describe() const override;
  bool by_row() const override { return true; }
  Status lower(Lowering& lowering, const Node& node) const override;
};

// result = a * sigmoid(b). inputs: a, b, which has one column or as many as a.
struct GateRows : Operation {
  std::string_view name() const override { return "gate_rows"; }
  bool by_row() const override { return true; }
  Status lower(Lowering& lowering, const Node& node) const override;
};

// result = a * weight, column by column. inputs: a. weights: a vector of as many numbers.
struct ScaleColumns : Operation {
  std::string_view name() const override { return "scale_columns"; }
  bool by_row() const override { return true; }
  Status lower(Lowering& lowering, const Node& node) const override;
};

// result = activation(max(0, a - limit)) * b, where a row's limit is so many standard deviations above the
// mean of its a: a row keeps few columns. inputs: a, b.
struct SparseGate : Operation {
  Activation activation = Activation::none;
  float deviations = 0;

  std::string_view name() const override { return "sparse_gate"; }
  std::string describe() const override;
  bool by_row() const override { return true; }
  Status lower(Lowering& lowering, const Node& node) const override;
};

TensorId add(Graph& graph, std::string name, TensorId a, TensorId b);
TensorId gate(Graph& graph, std::string name, TensorId a, TensorId b, Activation activation);
TensorId activate(Graph& graph, std::string name, TensorId a, Activation activation);
TensorId scale(Graph& graph, std::string name, TensorId a, float factor);
TensorId gate_rows(Graph& graph, std::string name, TensorId a, TensorId b);
TensorId scale_columns(Graph& graph, std::string name, TensorId a, WeightId weight);
TensorId soft_cap(Graph& graph, std::string name, TensorId a, float cap);
TensorId clamp(Graph& graph, std::string name, TensorId a, float least, float most);
TensorId sparse_gate(Graph& graph, std::string name, TensorId a, TensorId b, Activation activation,
                     float deviations);
TensorId xielu(Graph& graph, std::string name, TensorId a, const XieluCurve& curve);

} // namespace pumice
