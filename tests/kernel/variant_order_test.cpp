// Which variant is taken where nothing was measured: on GPUs in the order that follows from what their
// compilers say of the kernels (tools/compilers.sh), elsewhere in the family's.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <set>

#include "gpu/instance.h"
#include "gpu/kernel_table.h"
#include "kernel/matmul/matmul.h"
#include "kernel/variant_order.h"
#include "support/skip.h"
#include "support/vulkan/limited_vulkan.h"

using namespace pumice;

namespace {

constexpr std::array names = {"fast", "rounding", "other", "plain"};

struct NoArgs {};

template <size_t name>
constexpr KernelVariant<NoArgs> variant{names[name], "",
                                        [](const DeviceProfile&, const NoArgs&) { return true; },
                                        [](Lowering&, const NoArgs&) { return Status(); }, name == 1};

constexpr std::array<const KernelVariant<NoArgs>*, 4> family = {&variant<0>, &variant<1>, &variant<2>,
                                                                &variant<3>};

Capabilities device(uint32_t vendor, uint32_t least_subgroup, bool matrices, uint32_t id = 0) {
  Capabilities device;
  device.vendor_id = vendor;
  device.device_id = id;
  device.min_subgroup_size = least_subgroup;
  if (matrices) device.matrix_sizes = {{16, 16, 16}};
  return device;
}

// Of a GPU with matrices and integer dot products.
DeviceProfile profile_of(GpuGeneration generation) {
  DeviceProfile profile;
  profile.generation = generation;
  profile.subgroup = 32;
  profile.dot = true;
  profile.matrix_shapes = {{16, 16, 16}};
  return profile;
}

MatmulArgs product(uint32_t rows) {
  MatmulArgs args;
  args.format = {TensorType::q4_0, 2048, 16};
  args.x = args.result = {{}, rows, 0, 2048, 2048};
  args.weight.tiles = 256;
  return args;
}

} // namespace

TEST_CASE("variant order: the generation of a device follows from what it reports") {
  const std::map<std::string, GpuGeneration> expected = {
      {"NVIDIA GeForce GTX 1650", GpuGeneration::nvidia_maxwell},
      {"AMD Radeon RX 570 (RADV)", GpuGeneration::amd_gcn},
      {"AMD Radeon RX 9070 XT (RADV)", GpuGeneration::amd_rdna3},
      {"NVIDIA GeForce RTX 5080", GpuGeneration::nvidia_turing},
      {"Intel Iris Xe (TGL)", GpuGeneration::intel_xe},
      {"Virtual GPU", GpuGeneration::nvidia_maxwell},
      {"Adreno (TM)", GpuGeneration::qualcomm_adreno7xx}};
  for (const ReportedDevice& reported : reported_devices()) {
    CAPTURE(reported.name);
    const LimitedVulkan vulkan(reported);
    const auto instance = Instance::create(vulkan.options());
    REQUIRE(instance.ok());
    auto found = (*instance)->choose("");
    REQUIRE(found.ok());
    read_matrices((*instance)->table(), *found);
    const auto known = expected.find(reported.name);
    CHECK(generation_of(*found) == (known == expected.end() ? GpuGeneration::unknown : known->second));
  }
  constexpr uint32_t amd = 0x1002, intel = 0x8086, qualcomm = 0x5143;
  CHECK(generation_of(device(intel, 16, true)) == GpuGeneration::intel_xe2);
  CHECK(generation_of(device(intel, 8, true)) == GpuGeneration::intel_alchemist);
  CHECK(generation_of(device(amd, 32, false)) == GpuGeneration::amd_rdna);
  CHECK(generation_of(device(qualcomm, 64, false, 0x06030001)) == GpuGeneration::qualcomm_adreno6xx);
  Capabilities cpu = device(intel, 16, true);
  cpu.type = VK_PHYSICAL_DEVICE_TYPE_CPU;
  CHECK(generation_of(cpu) == GpuGeneration::unknown);
  CHECK(name_of(GpuGeneration::qualcomm_adreno7xx) == "qualcomm_adreno7xx");
}

TEST_CASE("variant order: each generation has one of each family for any rows, of known names") {
  std::set<std::pair<std::string, std::string>> known; // family and name
  std::set<std::string> families;
  for (const VariantSummary& each : kernel_variants()) {
    known.emplace(each.family, each.name);
    families.emplace(each.family);
  }
  CHECK(families.size() >= 4);
  for (size_t i = 1; i < generation_names.size(); ++i) {
    const auto generation = static_cast<GpuGeneration>(i);
    CAPTURE(generation_names[i]);
    for (const std::string& family_name : families) {
      CAPTURE(family_name);
      for (const char* rows : {"1", "4", "8", "16", "512"}) {
        const auto order = estimated_order(generation, family_name + " f16 " + rows + " x 64 x 64");
        REQUIRE(!order.empty());
        CHECK(std::ranges::count(order, "portable") == 1);
        std::set<std::string_view> once;
        for (const std::string_view name : order) {
          CAPTURE(std::string(name));
          CHECK(known.contains({family_name, std::string(name)}));
          CHECK(once.insert(name).second);
          CHECK(!name.starts_with("cpu8"));
        }
      }
    }
  }
  for (const VariantOrder& order : variant_orders()) CHECK(order.generation != GpuGeneration::unknown);
  CHECK(estimated_order(GpuGeneration::unknown, "matmul f16 1 x 64 x 64").empty());
  CHECK(estimated_order(GpuGeneration::amd_gcn, "planted f16 1 x 64 x 64").empty());
}

TEST_CASE("variant order: the compilers' words for the latest of each vendor") {
  const auto order = [](GpuGeneration generation, const char* shape_class) {
    std::string text;
    for (const std::string_view name : estimated_order(generation, shape_class))
      text += (text.empty() ? "" : " ") + std::string(name);
    return text;
  };
  const char *few = "matmul f16 4 x 64 x 64", *many = "matmul f16 128 x 64 x 64";
  CHECK(order(GpuGeneration::intel_xe2, few) == "dot subgroup portable");
  CHECK(order(GpuGeneration::intel_xe2, many) == "cm dot tiled portable");
  CHECK(order(GpuGeneration::amd_rdna3, few) == "subgroup dot portable");
  CHECK(order(GpuGeneration::amd_rdna3, many) == "dot cm tiled portable");
  CHECK(order(GpuGeneration::nvidia_turing, many) == "dot tiled cm portable");
  CHECK(order(GpuGeneration::qualcomm_adreno7xx, few) == "subgroup portable");
  CHECK(order(GpuGeneration::qualcomm_adreno7xx, many) == "tiled portable");
}

TEST_CASE("variant order: products take the first of it that does not round and is not blocked") {
  for (size_t i = 0; i < generation_names.size(); ++i) {
    CAPTURE(generation_names[i]);
    DeviceProfile profile = profile_of(static_cast<GpuGeneration>(i));
    for (uint32_t rows : {1u, 2u, 8u, 16u, 512u}) {
      CAPTURE(rows);
      const auto expected = [&] {
        std::vector<std::string_view> order =
            estimated_order(profile.generation, matmul_shape_class(product(rows)));
        if (order.empty()) order = {"tiled", "subgroup", "portable"};
        for (const std::string_view name : order) {
          const bool blocked =
              profile.blocklist && profile.blocklist->contains("matmul " + std::string(name));
          if (name == "dot" || name.starts_with("cm") || blocked) continue;
          if (rows > 32 ? name == "subgroup" : rows <= 8 && name == "tiled") continue; // it does not run
          return std::string(name);
        }
        return std::string();
      };
      profile.blocklist = nullptr;
      const std::string first = expected();
      CHECK(chosen_matmul(profile, product(rows)) == first);
      profile.blocklist = std::make_shared<const Blocklist>(Blocklist{{"matmul " + first, {"slow", false}}});
      CHECK(chosen_matmul(profile, product(rows)) == expected());
      profile.blocklist = nullptr;
      profile.choices =
          std::make_shared<const Choices>(Choices{{matmul_shape_class(product(rows)), "portable"}});
      CHECK(chosen_matmul(profile, product(rows)) == "portable");
      profile.choices = nullptr;
    }
  }
}

TEST_CASE("variant order: a class whose narrow products divide k takes the same matrices for its wide ones") {
  if (!find_kernel("matmul.cm.q4_0")) skip("this build's shader compiler has no cooperative matrices");
  DeviceProfile profile = profile_of(GpuGeneration::unknown);
  profile.cores = 40;
  const std::string shape_class = matmul_shape_class(product(300));
  REQUIRE(shape_class == matmul_shape_class(product(4000)));
  profile.choices = std::make_shared<const Choices>(Choices{{shape_class, "cm-split"}});
  CHECK(chosen_matmul(profile, product(17)) == "cm-split"); // of the nearest class
  CHECK(chosen_matmul(profile, product(4000)) == "cm");
  profile.blocklist = std::make_shared<const Blocklist>(Blocklist{{"matmul cm-split", {"wrong", false}}});
  CHECK(chosen_matmul(profile, product(17)) == "tiled");
  CHECK(chosen_matmul(profile, product(4000)) == "cm");
  profile.blocklist = std::make_shared<const Blocklist>(Blocklist{{"matmul cm", {"wrong", false}}});
  for (const uint32_t rows : {17u, 4000u}) CHECK(chosen_matmul(profile, product(rows)) == "tiled");
}

TEST_CASE("variant order: what a generation's order does not name comes after it, in the family's order") {
  const auto chosen = [](GpuGeneration generation, const std::string& shape_class) {
    DeviceProfile profile;
    profile.generation = generation;
    return choose_variant<NoArgs>(family, profile, {}, shape_class).name;
  };
  CHECK(chosen(GpuGeneration::unknown, "matmul f16 1 x 64 x 64") == "fast");
  CHECK(chosen(GpuGeneration::amd_gcn, "matmul f16 1 x 64 x 64") == "fast");
}
