#include "kernel/sampling/filter_order.h"

#include <algorithm>

#include <fmt/format.h>

#include "shaders/sampling/sampling.params.h"

namespace pumice {

namespace {

// Beside the filters' numbers.
constexpr uint32_t penalties = 0, dry = 15;

struct Sampler {
  std::string_view name;
  char letter;
  uint32_t number;
};

constexpr Sampler samplers[] = {
    {"penalties", 'e', penalties},
    {"dry", 'd', dry},
    {"top_n_sigma", 's', SAMPLING_SIGMA},
    {"top_k", 'k', SAMPLING_TOP_K},
    {"typ_p", 'y', SAMPLING_TYPICAL_P},
    {"top_p", 'p', SAMPLING_TOP_P},
    {"min_p", 'm', SAMPLING_MIN_P},
    {"xtc", 'x', SAMPLING_XTC},
    {"temperature", 't', SAMPLING_TEMPERATURE},
    // Other names of them.
    {"typical", 'y', SAMPLING_TYPICAL_P},
    {"typical_p", 'y', SAMPLING_TYPICAL_P},
    {"temp", 't', SAMPLING_TEMPERATURE},
    {"nucleus", 'p', SAMPLING_TOP_P},
};

const Sampler* find_sampler(std::string name) {
  std::ranges::replace(name, '-', '_');
  const auto found = std::ranges::find(samplers, name, &Sampler::name);
  return found == std::end(samplers) ? nullptr : &*found;
}

Error wrong(const std::string& what) {
  return {Code::invalid_argument,
          fmt::format("{}: samplers are some of {}, in any order after the first two", what, usual_samplers)};
}

} // namespace

bool is_filter_order(uint32_t order) {
  uint32_t seen = 0;
  for (uint32_t rest = order & order_filters; rest != 0; rest >>= 4) {
    const uint32_t filter = rest & 15;
    if (filter == 0 || filter >= SAMPLING_END || (seen >> filter & 1u)) return false;
    seen |= 1u << filter;
  }
  return order == 0 || (order & order_given);
}

Result<uint32_t> filter_order(std::span<const std::string> names) {
  uint32_t order = order_given | order_without_penalties | order_without_dry, count = 0, seen = 0;
  for (const std::string& name : names) {
    const Sampler* sampler = find_sampler(name);
    if (!sampler) return wrong(fmt::format("there is no sampler '{}'", name));
    if (seen >> sampler->number & 1u) return wrong(fmt::format("'{}' is there twice", name));
    seen |= 1u << sampler->number;
    if (sampler->number == penalties || sampler->number == dry) {
      if (count > 0) return wrong(fmt::format("'{}' comes after others", name));
      order &= ~(sampler->number == dry ? order_without_dry : order_without_penalties);
    } else {
      order |= sampler->number << (4 * count++);
    }
  }
  return order;
}

Result<uint32_t> filter_order(const std::string& list) {
  std::vector<std::string> names;
  const auto is_letter = [](char c) {
    return std::ranges::find(samplers, c, &Sampler::letter) != std::end(samplers);
  };
  if (!find_sampler(list) && !list.empty() && std::ranges::all_of(list, is_letter)) {
    for (const char letter : list)
      names.emplace_back(std::ranges::find(samplers, letter, &Sampler::letter)->name);
    return filter_order(names);
  }
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(';', begin), list.size());
    std::string name = list.substr(begin, end - begin);
    std::erase(name, ' ');
    if (!name.empty()) names.push_back(std::move(name));
    begin = end + 1;
  }
  return filter_order(names);
}

} // namespace pumice
