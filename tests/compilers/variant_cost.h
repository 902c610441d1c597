#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/gpu_generation.h"
#include "plan/plan.h"

// What a kernel variant may cost on a GPU that nobody here has, by what its compiler says. Only variants of
// the same work are compared, so a cost needs no unit; it is meant as cycles of a SIMD unit.
//
//   cost of a launch = max(subgroups * cycles, bytes / bytes per cycle) * idle
//   cycles           = max(estimate * passes / passes that the compiler assumes, multiplications / lanes)
//   estimate         = what the compiler estimates for a subgroup / resident subgroups
//   bytes            = max(what must be moved, what all workgroups load / 4)
//   idle             = workgroups that keep the device busy / workgroups, at least 1
//
// Almost all of the time goes by in loops, and compilers do not know how often these run: kernel_loops.h
// does. Compilers assume a number of passes, by how many loops are in one another. Of loops one, two and
// three deep those are in all: Intel's (brw_performance) 10, 100 and 1,000; NVIDIA's (nak) 10, 38 and 100;
// AMD's (aco_statistics) 8, 32 and 64. Qualcomm's (ir3) estimates no cycles: its instructions count, with the
// stalls, which other subgroups hide. Resident subgroups are in AMD's estimate already. Spills are in all
// estimates but Qualcomm's. What workgroups load more than once mostly comes from a cache, about four times
// as fast as memory.
//
// Attention by matrices has no cost: its loops are three deep, and the estimates of them are far off.

// A pipeline's statistics by name in lower case: "instruction count".
using CompilerStatistics = std::map<std::string, double>;

// Variants that have no cost, as in a blocklist.
inline constexpr std::string_view unpriced_variants[] = {"attention cm", "matmul cm-split"};

// Of a launch of a variant; not finite where it is not known.
double launch_cost(pumice::GpuGeneration generation, const pumice::Dispatch& dispatch,
                   const CompilerStatistics& compiled, uint32_t busy_groups);

// Gathers the costs of variants, and says in which order they should be taken.
class VariantCosts {
public:
  // What a plan's variant costs for a class of shapes; not finite: nobody knows.
  void add(const pumice::VariantChoice& choice, double cost);
  // A line of runtime/kernel/variant_order.def for each family and number of rows.
  std::vector<std::string> orders(pumice::GpuGeneration generation) const;
  // The same as numbers: each variant's cost as a multiple of the plain one's, the mean over shapes, and then
  // for each of them.
  std::vector<std::string> costs() const;
  // Variants of the classes that were added, as in a blocklist, whose cost nobody knows for any of them.
  std::set<std::string> missing() const;

private:
  struct Class {
    std::vector<std::string> variants; // in the family's order
    std::map<std::string, double> costs;
  };
  struct Variant {
    std::string name;
    double cost = 0; // by the plain one's
  };
  // By family and the most rows.
  using Ranges = std::map<std::pair<std::string, uint32_t>, std::vector<Variant>>;
  Ranges ranges(std::span<const uint32_t> most_rows) const;

  std::map<std::string, Class> classes_;
};
