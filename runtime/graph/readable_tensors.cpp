#include "graph/readable_tensors.h"

#include <charconv>

#include <fmt/format.h>

namespace pumice {

namespace {

// The number after a prefix: 3 in "hidden_states.3" after "hidden_states.".
std::optional<size_t> index_after(std::string_view prefix, std::string_view name) {
  size_t index = 0;
  if (!name.starts_with(prefix)) return {};
  const char* end = name.data() + name.size();
  const auto [last, error] = std::from_chars(name.data() + prefix.size(), end, index);
  if (error != std::errc() || last != end) return {};
  return index;
}

} // namespace

void ReadableTensors::add(std::string name, TensorId tensor) {
  add(std::move(name), [tensor](Graph&, const std::string&, const ReadableExtent&) { return tensor; });
}

void ReadableTensors::add(std::string name, Make make) {
  entries_.push_back(
      {std::move(name),
       {},
       [make = std::move(make)](Graph& graph, const std::string& own_name, size_t,
                                const ReadableExtent& extent) { return make(graph, own_name, extent); }});
}

void ReadableTensors::add_each(std::string prefix, std::vector<TensorId> tensors) {
  const size_t count = tensors.size();
  add_each(std::move(prefix), count,
           [tensors = std::move(tensors)](Graph&, const std::string&, size_t index, const ReadableExtent&) {
             return tensors[index];
           });
}

void ReadableTensors::add_each(std::string prefix, size_t count, MakeOne make) {
  entries_.push_back({std::move(prefix), count, std::move(make)});
}

size_t ReadableTensors::count(std::string_view prefix) const {
  for (const Entry& entry : entries_) {
    if (entry.count && entry.name == prefix) return *entry.count;
  }
  return 0;
}

std::optional<TensorId> ReadableTensors::make(Graph& graph, const std::string& name,
                                              const ReadableExtent& extent) const {
  const std::optional<Found> found = find(name);
  if (!found) return {};
  return found->entry->make(graph, name, found->index, extent);
}

std::string ReadableTensors::names() const {
  std::string names;
  for (const Entry& entry : entries_) {
    if (entry.count == size_t{0}) continue;
    names += names.empty() ? "" : ", ";
    names += entry.count ? fmt::format("{0}0 to {0}{1}", entry.name, *entry.count - 1) : entry.name;
  }
  return names;
}

std::optional<ReadableTensors::Found> ReadableTensors::find(std::string_view name) const {
  for (const Entry& entry : entries_) {
    if (!entry.count) {
      if (entry.name == name) return Found{&entry, 0};
    } else if (const auto index = index_after(entry.name, name); index && *index < *entry.count) {
      return Found{&entry, *index};
    }
  }
  return {};
}

} // namespace pumice
