// How kernels are shaped for devices with few registers. Their compilers say what is spilled otherwise:
// tools/compilers.sh.
#include <array>

#include <doctest/doctest.h>

#include "gpu/kernel_table.h"
#include "kernel/attention/attention.h"
#include "kernel/matmul/matmul.h"
#include "kernel/test_lowering.h"
#include "shaders/attention/attention.params.h"
#include "shaders/matmul/matmul.params.h"
#include "support/skip.h"

using namespace pumice;

namespace {

constexpr uint32_t amd = 0x1002, nvidia = 0x10de, qualcomm = 0x5143, intel = 0x8086;

DeviceProfile profile_of(const Capabilities& device, const std::string& variant) {
  DeviceProfile profile;
  profile.subgroup = device.min_subgroup_size;
  profile.matrix_shapes = device.matrix_sizes;
  profile.registers = register_limits(generation_of(device));
  profile.forced = variant;
  return profile;
}

Capabilities device(uint32_t vendor, uint32_t subgroup, MatrixShape matrix = {}, uint32_t id = 0) {
  Capabilities device;
  device.vendor_id = vendor;
  device.device_id = id;
  device.min_subgroup_size = subgroup;
  if (matrix.m) device.matrix_sizes = {matrix};
  return device;
}

Dispatch product(const Capabilities& device, const std::string& variant, uint32_t rows, bool routed = false,
                 TensorType type = TensorType::f16) {
  DeviceProfile profile = profile_of(device, variant);
  profile.busy_groups = 16; // soon busy: it takes as many tiles as there are registers for
  MatmulArgs args;
  args.format = {type, 2048, 16};
  args.x = args.result = {{}, rows, 0, 2048, 2048};
  args.weight.tiles = 256;
  if (routed) {
    args.gated = true;
    args.routing = MatmulRouting();
    args.routing->count = args.routing->experts = 8;
    args.routing->block_slots = rows;
  }
  const Graph graph;
  TestLowering lowering(profile, graph, {});
  REQUIRE(matmul(lowering, args).ok());
  REQUIRE(!lowering.dispatches().empty()); // what rounds x comes first
  return lowering.dispatches().back();
}

uint32_t attention_workgroup(const Capabilities& device, uint32_t head_dim) {
  const DeviceProfile profile = profile_of(device, "cm");
  AttentionArgs args;
  args.heads = 32;
  args.q = args.result = {{}, 512, 0, 32 * head_dim, 32 * head_dim};
  args.cache.layout = {CacheType::f16, 1, 2048, 8, head_dim};
  const Graph graph;
  TestLowering lowering(profile, graph, {});
  REQUIRE(attention(lowering, args).ok());
  REQUIRE(lowering.dispatches().back().kernel == "attention.cm.f16");
  return lowering.dispatches().back().constants[0];
}

} // namespace

TEST_CASE("registers: on Intel's devices, sums of matrices are divided among more subgroups") {
  if (!find_kernel("attention.cm.f16"))
    return skip("this build's shader compiler has no cooperative matrices");
  const Capabilities xe2 = device(intel, 16, {8, 16, 16}), alchemist = device(intel, 8, {8, 8, 16});
  for (uint32_t head_dim : {64u, 128u}) {
    CHECK(attention_workgroup(xe2, head_dim) == 256);
    CHECK(attention_workgroup(alchemist, head_dim) == 256);
  }
  CHECK(attention_workgroup(device(nvidia, 32, {16, 16, 16}), 128) == 128);
  const Dispatch dispatch = product(xe2, "cm", 64);
  CHECK(dispatch.constants[0] == 256);
  CHECK(dispatch.constants[MATMUL_GROUPS_DOWN_ID] == 4);
}

TEST_CASE("registers: tiled products leave room for two subgroups on GCN") {
  const auto own_rows = [](const Dispatch& dispatch) { return dispatch.constants[MATMUL_OWN_ROWS_ID]; };
  CHECK(own_rows(product(device(amd, 64), "tiled", 512)) == 4);
  CHECK(own_rows(product(device(amd, 32), "tiled", 512)) == 8);
  CHECK(own_rows(product(device(nvidia, 32), "tiled", 512)) == 8);
}

TEST_CASE("registers: products of few rows take two of them at a time on Adreno 6xx") {
  const Capabilities adreno = device(qualcomm, 64, {}, 0x06030001),
                     newer = device(qualcomm, 64, {}, 0x43050a01);
  for (const std::string variant : {"subgroup", "portable"}) {
    const Dispatch dispatch = product(adreno, variant, 8);
    CHECK(dispatch.constants[MATMUL_ROWS_ID] == 2);
    CHECK(dispatch.groups[0] == 4);
    CHECK(product(newer, variant, 8).constants[MATMUL_ROWS_ID] == 8);
    CHECK(product(adreno, variant, 1).constants[MATMUL_ROWS_ID] == 1);
    CHECK(product(adreno, variant, 4, true).constants[MATMUL_ROWS_ID] == 2); // two to a block
  }
  CHECK(product(adreno, "subgroup", 2).constants[MATMUL_TILES_ID] == 2);
  CHECK(product(adreno, "subgroup", 1, false, TensorType::q6_k).constants[MATMUL_TILES_ID] == 4);
  CHECK(product(adreno, "subgroup", 2, false, TensorType::q6_k).constants[MATMUL_TILES_ID] == 2);
}

TEST_CASE("registers: the workgroups of a routed product divide its blocks, whichever kernel it is") {
  for (const std::string variant : {"subgroup", "tiled", "dot", "cm", "portable"}) {
    for (const Capabilities& each : {device(nvidia, 32, {16, 16, 16}), device(intel, 16, {8, 16, 16}),
                                     device(intel, 8, {8, 8, 16}), device(qualcomm, 64, {}, 0x06030001)}) {
      for (uint32_t slots : {1u, 4u, 8u, 16u, 32u, 64u, 128u}) {
        const Dispatch dispatch = product(each, variant, slots, true, TensorType::q8_0);
        const uint32_t rows = dispatch.constants[MATMUL_ROWS_ID];
        CAPTURE(dispatch.kernel);
        CAPTURE(slots);
        CHECK(slots % rows == 0);
        CHECK(dispatch.groups[0] == 8 * (slots / rows));
      }
    }
  }
}

TEST_CASE("blocks of a routed product have as many slots as most experts fill") {
  CHECK(routed_block_slots(2.9) == 1);
  CHECK(routed_block_slots(3) == 4);
  CHECK(routed_block_slots(31) == 16);
  CHECK(routed_block_slots(32) == 32);
  CHECK(routed_block_slots(1000) == 128);
}

TEST_CASE("registers: products of few rows are shaped by the number of cores") {
  const auto shape = [](uint32_t cores, uint32_t tiles, uint32_t rows = 1, uint32_t most = 1024) {
    DeviceProfile profile = profile_of(device(nvidia, 32), "subgroup");
    profile.cores = cores;
    profile.most_invocations = most;
    MatmulArgs args;
    args.format = {TensorType::q4_k, 4096, 16};
    args.x = args.result = {{}, rows, 0, 4096, 4096};
    args.weight.tiles = tiles;
    const Graph graph;
    TestLowering lowering(profile, graph, {});
    REQUIRE(matmul(lowering, args).ok());
    const Dispatch& made = lowering.dispatches().back();
    REQUIRE(made.kernel == "matmul_subgroup.q4_k");
    return std::array{made.constants[0], made.constants[MATMUL_TILES_ID]};
  };
  CHECK(shape(0, 512) == std::array{256u, 2u}); // 256 workgroups where the cores are not known
  CHECK(shape(132, 512) == std::array{256u, 2u});
  CHECK(shape(64, 512) == std::array{256u, 4u});
  CHECK(shape(20, 128) == std::array{256u, 2u});
  // A core has one of these workgroups at most.
  CHECK(shape(132, 128) == std::array{512u, 1u});
  CHECK(shape(128, 128) == std::array{256u, 1u});
  CHECK(shape(132, 128, 1, 300) == std::array{256u, 1u});
  // The order of a sum does not depend on the rows.
  for (uint32_t rows : {2u, 4u, 8u}) CHECK(shape(132, 128, rows)[0] == 512);
}
