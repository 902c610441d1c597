#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace pumice {

// Positions that sequences have at most: attention weights have a column for each.
struct ReadableExtent {
  uint32_t context = 0;       // of a sequence
  uint32_t input_context = 0; // of an encoder's input
};

// The tensors of a graph that the host may ask to read, by name. Whoever describes the graph adds them here
// and nowhere else.
class ReadableTensors {
public:
  // Adds to the graph what a tensor of this name takes, which is done only where somebody asks for it.
  using Make = std::function<TensorId(Graph& graph, const std::string& name, const ReadableExtent& extent)>;
  // The same for number `index` of several.
  using MakeOne = std::function<TensorId(Graph& graph, const std::string& name, size_t index,
                                         const ReadableExtent& extent)>;

  void add(std::string name, TensorId tensor);
  void add(std::string name, Make make);
  // Several that are told apart by a number: "hidden_states." stands for hidden_states.0 and so on.
  void add_each(std::string prefix, std::vector<TensorId> tensors);
  void add_each(std::string prefix, size_t count, MakeOne make);

  bool contains(std::string_view name) const { return find(name).has_value(); }
  size_t count(std::string_view prefix) const; // of those that add_each() added
  // Nothing where there is no tensor of that name.
  std::optional<TensorId> make(Graph& graph, const std::string& name, const ReadableExtent& extent) const;
  std::string names() const; // "logits, hidden_states.0 to hidden_states.2", for messages

private:
  struct Entry {
    std::string name;            // or prefix
    std::optional<size_t> count; // of numbers after the prefix
    MakeOne make;
  };
  struct Found {
    const Entry* entry = nullptr;
    size_t index = 0;
  };
  std::optional<Found> find(std::string_view name) const;

  std::vector<Entry> entries_;
};

} // namespace pumice
