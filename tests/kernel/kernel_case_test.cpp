// The cases that `pumice doctor` and the short check try kernels with (tuning/kernel_case.h).
#include "tuning/kernel_case.h"

#include <algorithm>
#include <set>

#include <doctest/doctest.h>

#include "kernel/choices.h"
#include "support/in_turn.h"
#include "support/require.h"
#include "support/vulkan/gpu.h"
#include "tuning/check_kernels.h"

using namespace pumice;

TEST_CASE("kernel cases: every family with variants has some in each set, under names of their own") {
  for (const CaseSet set : {CaseSet::quick, CaseSet::all}) {
    std::set<std::string> families, names;
    for (const KernelCaseName& each : kernel_cases(set)) {
      families.insert(each.family);
      CHECK_MESSAGE(names.insert(each.family + " " + each.name).second, each.name);
    }
    for (const VariantSummary& variant : kernel_variants()) {
      CAPTURE(std::string(variant.family));
      CHECK(families.contains(std::string(variant.family)));
    }
  }
}

TEST_CASE("kernel cases: recurrences are right in every variant, after rows before them and without") {
  DeviceContext context = TestGpu::get().context();
  std::set<std::string> variants;
  std::vector<KernelCaseName> cases = kernel_cases(CaseSet::quick);
  std::erase_if(cases, [](const KernelCaseName& each) {
    return each.family != "delta_rule" && each.family != "selective_scan";
  });
  for (const KernelCaseName& each : turns_of(cases, 3)) { // of sizes that kernels are compiled for
    CAPTURE(each.family);
    CAPTURE(each.name);
    for (const std::string variant : {"cpu8", "chunked", "portable"}) {
      CAPTURE(variant);
      const auto result = require(check_kernels(context, each, variant, 2, 1));
      if (!result) continue; // it does not run here
      CHECK(result->wrong == "");
      variants.insert(variant);
    }
  }
  CHECK(variants.contains("chunked"));
  CHECK(variants.contains("portable"));
}
