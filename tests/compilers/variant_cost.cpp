#include "compilers/variant_cost.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "shaders/attention/attention.params.h"
#include "shaders/matmul/matmul.params.h"

using namespace pumice;

namespace {

// One SIMD unit of a typical chip of a generation.
struct SimdUnit {
  double lanes = 32;          // that it computes in a cycle
  double bytes_per_cycle = 1; // of the memory's bandwidth, divided among all units and their clock
  double loop_passes = 10;    // that the compiler assumes
  double inner_passes = 10;   // of a loop in a loop
  double subgroups = 1; // that take turns; where the compiler says how many, what it is to be divided by
};

// By the makers' data sheets: units, boost clock, memory bandwidth.
SimdUnit simd_unit(Generation generation) {
  switch (generation) {
  case Generation::intel_xe: // Iris Xe of Tiger Lake: 96 units, 1.3 GHz, 68 GB/s
    return {8, 0.55, 10, 10, 7};
  case Generation::intel_alchemist: // Arc A770: 512 units, 2.1 GHz, 560 GB/s
    return {8, 0.52, 10, 10, 8};
  case Generation::intel_xe2: // Arc B580: 160 units, 2.67 GHz, 456 GB/s
    return {16, 1.07, 10, 10, 8};
  case Generation::amd_gcn: // RX Vega 64: 64 × 4 units, 1.55 GHz, 484 GB/s
    return {16, 1.22, 8, 4, 1};
  case Generation::amd_rdna: // RX 6800 XT: 72 × 2 units, 2.25 GHz, 512 GB/s
    return {32, 1.58, 8, 4, 1};
  case Generation::amd_rdna3: // RX 7900 XTX: 96 × 2 units, 2.5 GHz, 960 GB/s
    return {32, 2.0, 8, 4, 1};
  case Generation::nvidia_maxwell: // Titan V: 80 × 4 units, 1.46 GHz, 653 GB/s
    return {16, 1.4, 10, 3.85, 4};
  case Generation::nvidia_turing: // RTX 3080: 68 × 4 units, 1.71 GHz, 760 GB/s
    return {32, 1.63, 10, 3.85, 4};
  case Generation::qualcomm_adreno6xx: // Adreno 630: 2 units, 0.71 GHz, 30 GB/s
    return {128, 21, 1, 1, 1};
  case Generation::qualcomm_adreno7xx: // Adreno 740: 6 units, 0.68 GHz, 67 GB/s
    return {128, 16, 1, 1, 1};
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

// The main loop of a launch.
struct Loop {
  double passes = 0;             // of a workgroup
  double inner_passes = 0;       // of the loops in it, on average; 0: there are none
  double inner_instructions = 0; // of those loops, each counted once
  double multiplications = 0;    // of an invocation, in a pass; 0 where matrix units do them
};

// Adds the inner loops of kernels with shared tiles, by the instructions of each: one fetches x, one fetches
// and decodes weights, 32 of them at a time, and one multiplies.
void add_tile_loops(Loop& loop, const Dispatch& dispatch, double depth, double multiplying,
                    double multiplications) {
  const double invocations = dispatch.constants[0];
  const double fetch_x = 20, fetch_weights = 150;
  const double x_passes = std::ceil(8 * depth * dispatch.constants[MATMUL_ROWS_ID] / invocations);
  const double weight_passes = std::ceil(8 * depth * dispatch.constants[MATMUL_TILES_ID] / invocations);
  loop.inner_instructions = fetch_x + fetch_weights + multiplications;
  loop.inner_passes = (x_passes * fetch_x + weight_passes * fetch_weights + multiplying * multiplications) /
                      loop.inner_instructions;
}

Loop matmul_loop(const Dispatch& dispatch) {
  MatmulParams params;
  std::memcpy(&params, dispatch.params.data(), sizeof(params));
  const double invocations = dispatch.constants[0], tiles = dispatch.constants[MATMUL_TILES_ID];
  const double sums = 8 * tiles * dispatch.constants[MATMUL_ROWS_ID];
  Loop loop;
  if (dispatch.kernel.starts_with("matmul.cm")) {
    constexpr double depth = 2; // blocks of columns in a pass: shaders/matmul/f16_operands.glsl
    const double multiplying = depth * 32 / dispatch.constants[MATMUL_K_ID];
    loop.passes = params.blocks / depth;
    add_tile_loops(loop, dispatch, depth, multiplying, 20);
  } else if (dispatch.kernel.starts_with("matmul_tiled")) {
    const double own_sums = sums / invocations;
    loop.passes = params.blocks;
    add_tile_loops(loop, dispatch, 1, 8, 4 * own_sums + 20);
    loop.multiplications = 32 * own_sums;
  } else {
    // Eight invocations share a block of columns. The plain kernel takes one tile after the other.
    loop.passes = params.blocks / (invocations / 8);
    if (dispatch.kernel.starts_with("matmul.dot")) {
      loop.multiplications = 8 * sums / 8; // four in an instruction
    } else {
      loop.multiplications = 32 * sums / 8;
      if (!dispatch.kernel.starts_with("matmul_vector") && tiles > 1) loop.inner_passes = tiles;
    }
  }
  return loop;
}

// Its inner loops are as in the same kernel where it splits the positions: they need not be known.
Loop attention_loop(const Dispatch& dispatch) {
  const double queries =
      double{1} * dispatch.constants[ATTENTION_HEADS_ID] * dispatch.constants[ATTENTION_TOKENS_ID];
  const double positions = dispatch.constants[0], head_dim = dispatch.constants[ATTENTION_HEAD_DIM_ID];
  const double groups = double{1} * dispatch.groups[0] * dispatch.groups[1] * dispatch.groups[2];
  const double multiplications = 2 * queries * head_dim * positions;
  Loop loop;
  loop.passes = dispatch.flops / 2 / multiplications / groups;
  loop.multiplications = multiplications / dispatch.constants[0];
  return loop;
}

// Bytes that all workgroups of a product load: each its part of the weights and of x.
double loaded_bytes(const Dispatch& dispatch) {
  double bytes = 0;
  for (const Dispatch::Binding& binding : dispatch.bindings) {
    const double all = static_cast<double>(binding.buffer.bytes);
    if (binding.slot == MATMUL_WEIGHTS || binding.slot == MATMUL_SCALES) bytes += all * dispatch.groups[0];
    if (binding.slot == MATMUL_X) bytes += all * dispatch.groups[1];
  }
  return bytes;
}

// Products of up to eight rows and of more are different kernels, and a row's bits depend on which of the two
// it is in alone (runtime/README.md): one order for each. Costs are told of one row and of one tile too.
constexpr std::array<uint32_t, 2> order_ranges = {8, 512};
constexpr std::array<uint32_t, 4> cost_ranges = {1, 8, 16, 512};

} // namespace

double launch_cost(Generation generation, const Dispatch& dispatch, const CompilerStatistics& compiled,
                   uint32_t busy_groups) {
  const SimdUnit unit = simd_unit(generation);
  const double subgroup = value(compiled, "subgroup size");
  const double groups = double{1} * dispatch.groups[0] * dispatch.groups[1] * dispatch.groups[2];
  const double subgroups = groups * std::ceil(dispatch.constants[0] / subgroup);
  double cycles = estimated_cycles(unit, compiled), bytes = dispatch.bytes;
  const bool product = dispatch.kernel.starts_with("matmul");
  if (dispatch.kernel.starts_with("attention.cm")) return std::numeric_limits<double>::infinity();
  if (product || dispatch.kernel.starts_with("attention.")) {
    const Loop loop = product ? matmul_loop(dispatch) : attention_loop(dispatch);
    cycles /= unit.loop_passes;
    // Without assumed passes, what comes before and after the loop counts as much as the loop.
    if (unit.loop_passes == 1 && loop.inner_instructions > 0)
      cycles = std::min(cycles, loop.inner_instructions);
    if (loop.inner_passes > 0) cycles *= loop.inner_passes / unit.inner_passes;
    cycles = loop.passes * std::max(cycles, loop.multiplications * std::max(1.0, subgroup / unit.lanes));
  }
  if (product) bytes = std::max(bytes, loaded_bytes(dispatch) / 4);
  const double idle = std::max(1.0, busy_groups / groups);
  return std::max(subgroups * cycles, bytes / unit.bytes_per_cycle) * idle;
}

void VariantCosts::add(const VariantChoice& choice, double cost) {
  Class& all = classes_[choice.shape_class];
  if (choice.variants.size() > all.variants.size()) all.variants = choice.variants;
  all.costs.emplace(choice.chosen, cost);
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
std::vector<std::string> VariantCosts::orders(Generation generation) const {
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
    std::string line = name + ":";
    for (const auto& [variant, cost] : shapes.costs) line += fmt::format(" {} {:.3g}", variant, cost);
    lines.push_back(std::move(line));
  }
  return lines;
}
