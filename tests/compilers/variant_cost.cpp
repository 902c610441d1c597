#include "compilers/variant_cost.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "compilers/kernel_loops.h"

using namespace pumice;

namespace {

// One SIMD unit of a typical chip of a generation.
struct SimdUnit {
  double lanes = 32;          // that it computes in a cycle
  double bytes_per_cycle = 1; // of the memory's bandwidth, divided among all units and their clock
  // That the compiler assumes of a loop, of one in a loop, and of one in that.
  std::array<double, 3> assumed_passes = {10, 100, 1000};
  double subgroups = 1; // that take turns; where the compiler says how many, what it is to be divided by
};

// By the makers' data sheets: units, boost clock, memory bandwidth.
SimdUnit simd_unit(GpuGeneration generation) {
  constexpr std::array<double, 3> intel = {10, 100, 1000}, amd = {8, 32, 64}, nvidia = {10, 38, 100},
                                  qualcomm = {1, 1, 1};
  switch (generation) {
  case GpuGeneration::intel_xe: // Iris Xe of Tiger Lake: 96 units, 1.3 GHz, 68 GB/s
    return {8, 0.55, intel, 7};
  case GpuGeneration::intel_alchemist: // Arc A770: 512 units, 2.1 GHz, 560 GB/s
    return {8, 0.52, intel, 8};
  case GpuGeneration::intel_xe2: // Arc B580: 160 units, 2.67 GHz, 456 GB/s
    return {16, 1.07, intel, 8};
  case GpuGeneration::amd_gcn: // RX Vega 64: 64 × 4 units, 1.55 GHz, 484 GB/s
    return {16, 1.22, amd, 1};
  case GpuGeneration::amd_rdna: // RX 6800 XT: 72 × 2 units, 2.25 GHz, 512 GB/s
    return {32, 1.58, amd, 1};
  case GpuGeneration::amd_rdna3: // RX 7900 XTX: 96 × 2 units, 2.5 GHz, 960 GB/s
    return {32, 2.0, amd, 1};
  case GpuGeneration::nvidia_maxwell: // Titan V: 80 × 4 units, 1.46 GHz, 653 GB/s
    return {16, 1.4, nvidia, 4};
  case GpuGeneration::nvidia_turing: // RTX 3080: 68 × 4 units, 1.71 GHz, 760 GB/s
    return {32, 1.63, nvidia, 4};
  case GpuGeneration::qualcomm_adreno6xx: // Adreno 630: 2 units, 0.71 GHz, 30 GB/s
    return {128, 21, qualcomm, 1};
  case GpuGeneration::qualcomm_adreno7xx: // Adreno 740: 6 units, 0.68 GHz, 67 GB/s
    return {128, 16, qualcomm, 1};
  default:
    return {};
  }
}

double value(const CompilerStatistics& compiled, const char* name) {
  const auto at = compiled.find(name);
  return at == compiled.end() ? 0 : at->second;
}

// For a subgroup, beside the others that are on its unit.
double estimated_cycles(const SimdUnit& unit, const CompilerStatistics& compiled) {
  const double lanes = value(compiled, "subgroup size");
  if (compiled.contains("inverse throughput")) // of 64 lanes
    return value(compiled, "inverse throughput") * lanes / 64;
  if (compiled.contains("static cycle count"))
    return value(compiled, "static cycle count") * unit.subgroups / value(compiled, "max warps/sm");
  if (compiled.contains("max waves per core")) {
    const double stalls =
        value(compiled, "estimated cycles stalled on ss") + value(compiled, "estimated cycles stalled on sy");
    const double spills = value(compiled, "stp count") + value(compiled, "ldp count");
    constexpr double memory_cycles = 100; // of an access to private memory
    return value(compiled, "instruction count") +
           (stalls + spills * memory_cycles) / value(compiled, "max waves per core");
  }
  return value(compiled, "cycles") / unit.subgroups;
}

// The cycles of an invocation's subgroup for all that a launch has it do.
double launch_cycles(const SimdUnit& unit, const KernelWork& work, const CompilerStatistics& compiled) {
  const double estimated = estimated_cycles(unit, compiled);
  if (work.loops.empty()) return estimated;
  double passes = 0, assumed = 0;
  for (const KernelLoop& loop : work.loops) {
    passes += loop.instructions * loop.passes;
    assumed += loop.instructions * (loop.depth == 0 ? 1 : unit.assumed_passes[loop.depth - 1]);
  }
  // Without assumed passes, what comes before and after the loops counts as much as they.
  const double of_loops =
      unit.assumed_passes[0] == 1 ? std::min(estimated, work.loop_instructions) : estimated;
  const double turns = std::max(1.0, value(compiled, "subgroup size") / unit.lanes);
  return std::max(of_loops * passes / assumed, work.multiplications * turns);
}

// Products of up to eight rows and of more are different kernels, and a row's bits depend on which of the two
// it is in alone (runtime/README.md): one order for each. Costs are told of one row and of one tile too.
constexpr std::array<uint32_t, 2> order_ranges = {8, 512};
constexpr std::array<uint32_t, 4> cost_ranges = {1, 8, 16, 512};

} // namespace

double launch_cost(GpuGeneration generation, const Dispatch& dispatch, const CompilerStatistics& compiled,
                   uint32_t busy_groups) {
  const std::optional<KernelWork> work = kernel_work(dispatch);
  if (!work) return std::numeric_limits<double>::infinity();
  const SimdUnit unit = simd_unit(generation);
  const double groups = double{1} * dispatch.groups[0] * dispatch.groups[1] * dispatch.groups[2];
  const double subgroups = groups * std::ceil(work->invocations / value(compiled, "subgroup size"));
  const double cycles = launch_cycles(unit, *work, compiled);
  const double idle = std::max(1.0, busy_groups / groups);
  return std::max(subgroups * cycles, work->bytes / unit.bytes_per_cycle) * idle;
}

void VariantCosts::add(const VariantChoice& choice, double cost) {
  Class& all = classes_[choice.shape_class];
  if (choice.variants.size() > all.variants.size()) all.variants = choice.variants;
  if (std::isfinite(cost) && cost > 0) all.costs.emplace(choice.chosen, cost);
}

VariantCosts::Ranges VariantCosts::ranges(std::span<const uint32_t> row_ranges) const {
  Ranges found;
  std::map<std::pair<std::string, uint32_t>, std::map<std::string, std::vector<double>>> by_variant;
  for (const auto& [name, shapes] : classes_) {
    const auto plain = shapes.costs.find(shapes.variants.back());
    if (plain == shapes.costs.end()) continue;
    const ClassName divided = divide_class(name);
    const uint32_t rows = *std::ranges::lower_bound(row_ranges, divided.rows);
    const std::pair range(std::string(divided.family()), rows);
    std::vector<Variant>& order = found[range];
    size_t at = 0; // keeps the family's order
    for (const std::string& variant : shapes.variants) {
      const auto known = std::ranges::find(order, variant, &Variant::name);
      if (known == order.end())
        order.insert(order.begin() + static_cast<ptrdiff_t>(at), {variant, 0});
      else
        at = static_cast<size_t>(known - order.begin());
      ++at;
      const auto cost = shapes.costs.find(variant);
      if (cost != shapes.costs.end())
        by_variant[range][variant].push_back(std::log(cost->second / plain->second));
    }
  }
  for (auto& [range, order] : found) {
    std::erase_if(
        order, [&, &costs = by_variant[range]](const Variant& each) { return !costs.contains(each.name); });
    for (Variant& each : order) {
      const std::vector<double>& logs = by_variant[range][each.name];
      each.cost = std::exp(std::accumulate(logs.begin(), logs.end(), 0.0) / static_cast<double>(logs.size()));
    }
  }
  return found;
}

// An estimate is rough: a variant comes before others of its family's order only if it seems a tenth faster.
std::vector<std::string> VariantCosts::orders(GpuGeneration generation) const {
  std::vector<std::string> lines;
  for (const auto& [range, order] : ranges(order_ranges)) {
    std::vector<std::string> names;
    std::vector<Variant> left = order;
    while (!left.empty()) {
      auto first = left.begin();
      for (auto each = left.begin(); each != left.end(); ++each) {
        if (each->cost < 0.9 * first->cost) first = each;
      }
      names.push_back(first->name);
      left.erase(first);
    }
    lines.push_back(fmt::format("VARIANT_ORDER({}, {}, {}, \"{}\")", name_of(generation), range.first,
                                range.second, fmt::join(names, " ")));
  }
  return lines;
}

std::vector<std::string> VariantCosts::costs() const {
  std::vector<std::string> lines;
  for (const auto& [range, order] : ranges(cost_ranges)) {
    std::string line = fmt::format("{} {}:", range.first, range.second);
    for (const Variant& each : order) line += fmt::format(" {} {:.3g}", each.name, each.cost);
    lines.push_back(std::move(line));
  }
  for (const auto& [name, shapes] : classes_) {
    if (shapes.costs.empty()) continue;
    std::string line = name + ":";
    for (const auto& [variant, cost] : shapes.costs) line += fmt::format(" {} {:.3g}", variant, cost);
    lines.push_back(std::move(line));
  }
  return lines;
}

std::set<std::string> VariantCosts::missing() const {
  std::set<std::string> all, known(std::begin(unpriced_variants), std::end(unpriced_variants));
  for (const auto& [name, shapes] : classes_) {
    for (const std::string& variant : shapes.variants) all.insert(blocklist_key(name, variant));
    for (const auto& [variant, cost] : shapes.costs) known.insert(blocklist_key(name, variant));
  }
  std::erase_if(all, [&](const std::string& variant) { return known.contains(variant); });
  return all;
}
