// Every kernel variant that a GPU may take has a cost, from which the order follows in which variants are
// taken where nothing was measured (tools/compilers.sh): its kernels' loops are known, and some model has it.
#include "compilers/variant_cost.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "compilers/cost_models.h"
#include "compilers/kernel_loops.h"
#include "kernel/choices.h"
#include "kernel/probe/open_device.h"
#include "model/model.h"
#include "shaders/recurrence/selective_scan.params.h"
#include "step/runner_layout.h"
#include "support/require.h"
#include "support/vulkan/limited_vulkan.h"

using namespace pumice;

namespace {

// What Intel's compiler would say of any kernel.
const CompilerStatistics statistics = {{"subgroup size", 32}, {"cycles", 1000}};

DeviceContext open(const LimitedVulkan& vulkan) {
  const auto instance = require(Instance::create(vulkan.options()));
  return require(open_device(instance, require(instance->choose("")), {}));
}

double cost_of(const DeviceContext& context, const Dispatch& dispatch) {
  return launch_cost(context.profile.generation, dispatch, statistics, context.profile.busy_groups);
}

// The costs of a model's variants in steps of one sequence, of 1 to 512 rows.
void add_costs(const Model& model, const DeviceContext& context, VariantCosts& costs) {
  RunnerOptions options;
  options.size.chunk = 512;
  const RunnerLayout layout = require(lay_out_runner(model, options, nullptr));
  const PlanContext sizes = layout.memory.plan_context(model.context(), model.weights());
  for (const uint32_t tokens : {1u, 4u, 16u, 64u, 512u}) {
    const Plan plan = require(make_plan(layout.graph, sizes, {tokens, 1}));
    std::vector<double> sums(plan.choices.size());
    for (const PlannedDispatch& each : plan.dispatches) {
      if (each.choice) sums[*each.choice] += cost_of(context, each.dispatch);
    }
    for (size_t i = 0; i < sums.size(); ++i) costs.add(plan.choices[i], sums[i]);
  }
}

void add_every_variant(ModelFile file, const DeviceContext& context, VariantCosts& costs) {
  const auto model = require(Model::plan(std::move(file), context));
  std::vector<std::string> variants = variant_names();
  variants.emplace_back();
  for (const std::string& variant : variants) {
    DeviceProfile profile = context.profile;
    profile.forced = variant;
    add_costs(*model->with_profile(profile), context, costs);
  }
}

} // namespace

TEST_CASE("variant costs: every variant of every family that a GPU could take has one") {
  for (const char* name :
       {"NVIDIA GeForce RTX 5080", "AMD Radeon RX 9070 XT (RADV)", "Intel Iris Xe (TGL)"}) {
    CAPTURE(name);
    const LimitedVulkan vulkan(reported_device(name));
    const DeviceContext context = open(vulkan);
    VariantCosts costs;
    add_every_variant(require(llama_model(TensorType::q4_0, false)), context, costs);
    for (const char* family : recurrence_families) {
      const TemporaryFolder folder;
      add_every_variant(require(recurrent_model(family, false, folder)), context, costs);
    }
    for (const std::string& variant : costs.missing()) FAIL_CHECK("no cost of " << variant);
    const std::vector<std::string> orders = costs.orders(context.profile.generation);
    for (const VariantSummary& each : kernel_variants()) {
      CAPTURE(std::string(each.family));
      const std::string family = ", " + std::string(each.family) + ", ";
      CHECK(std::ranges::any_of(orders,
                                [&](const std::string& line) { return line.find(family) != line.npos; }));
    }
  }
}

TEST_CASE("variant costs: a kernel that nobody described has none, and its variant is named") {
  Dispatch dispatch;
  dispatch.kernel = "planted.f16";
  dispatch.constants = {64};
  CHECK(!kernel_work(dispatch));
  CHECK(!std::isfinite(launch_cost(GpuGeneration::amd_rdna, dispatch, statistics, 256)));
  dispatch.kernel = "matmul_planted"; // not of the family whose name it begins with
  CHECK(!kernel_work(dispatch));
  VariantCosts costs;
  VariantChoice choice = {"planted f16 1 x 64", {"fast", "portable"}, "portable", false};
  costs.add(choice, 7);
  choice.chosen = "fast";
  costs.add(choice, std::numeric_limits<double>::infinity());
  CHECK(costs.missing() == std::set<std::string>{"planted fast"});
  costs.add(choice, 3);
  CHECK(costs.missing().empty());
  CHECK(costs.orders(GpuGeneration::amd_rdna) ==
        std::vector<std::string>{"VARIANT_ORDER(amd_rdna, planted, 8, \"fast portable\")"});
}

TEST_CASE("variant costs: passes of loops count as what a compiler assumes of them") {
  const auto cycles = [](GpuGeneration generation, const CompilerStatistics& compiled) {
    Dispatch dispatch;
    dispatch.kernel = "selective_scan_portable";
    dispatch.constants = {32, 0};
    SelectiveScanParams params = {};
    params.size = 100;
    params.end_row = 19;
    dispatch.set_params(params);
    return launch_cost(generation, dispatch, compiled, 1);
  };
  // 1,900 passes of a loop in a loop, of which nak assumes 38, aco 32 and brw 100; ir3 counts instructions.
  CHECK(cycles(GpuGeneration::nvidia_turing,
               {{"subgroup size", 32}, {"static cycle count", 38'000}, {"max warps/sm", 4}}) ==
        doctest::Approx(1'900'000));
  CHECK(cycles(GpuGeneration::amd_rdna, {{"subgroup size", 64}, {"inverse throughput", 32'000}}) ==
        doctest::Approx(1'900'000));
  CHECK(cycles(GpuGeneration::intel_xe2, {{"subgroup size", 16}, {"cycles", 800'000}}) ==
        doctest::Approx(2 * 1'900'000)); // two subgroups; eight take turns
  CHECK(cycles(GpuGeneration::qualcomm_adreno7xx,
               {{"subgroup size", 128}, {"instruction count", 100}, {"max waves per core", 4}}) ==
        doctest::Approx(190'000));
}

TEST_CASE("variant costs: recurrences cost by their rows") {
  const LimitedVulkan vulkan(reported_device("AMD Radeon RX 9070 XT (RADV)"));
  const DeviceContext context = open(vulkan);
  for (const char* family : recurrence_families) {
    const TemporaryFolder folder;
    const auto model = require(Model::plan(require(recurrent_model(family, true, folder)), context));
    for (const char* variant : {"portable", "chunked"}) {
      CAPTURE(family);
      CAPTURE(variant);
      DeviceProfile profile = context.profile;
      profile.forced = variant;
      const auto forced = model->with_profile(profile);
      RunnerOptions options;
      options.size.chunk = 512;
      const RunnerLayout layout = require(lay_out_runner(*forced, options, nullptr));
      const PlanContext sizes = layout.memory.plan_context(forced->context(), forced->weights());
      std::map<std::string, std::map<uint32_t, double>> passes; // by kernel and tokens: of its longest loop
      for (const uint32_t tokens : {64u, 128u, 512u}) {
        const Plan plan = require(make_plan(layout.graph, sizes, {tokens, 1}));
        for (const PlannedDispatch& each : plan.dispatches) {
          if (!each.choice || !plan.choices[*each.choice].shape_class.starts_with(family)) continue;
          const auto work = kernel_work(each.dispatch);
          if (!work || work->loops.empty()) continue;
          passes[each.dispatch.kernel][tokens] =
              std::ranges::max(work->loops, {}, &KernelLoop::passes).passes;
        }
      }
      CHECK(!passes.empty());
      for (const auto& each : passes) {
        const std::string& kernel = each.first;
        const std::map<uint32_t, double>& all = each.second;
        CAPTURE(kernel);
        REQUIRE(all.size() == 3);
        // One launch has all of a chunk's matrices; the state goes from row to row, and from chunk to chunk.
        const bool matrices = kernel.starts_with("chunk_matrices");
        CHECK(all.at(128) == doctest::Approx((matrices ? 1 : 2) * all.at(64)));
        CHECK(all.at(512) == doctest::Approx((matrices ? 1 : 8) * all.at(64)));
      }
    }
  }
}
