#include "gpu/spirv.h"

#include "gpu/kernel_table.h"

#include <vector>

#include <doctest/doctest.h>

using namespace pumice;

namespace {

using Axes = std::array<bool, 3>;

Axes axes_of(const char* kernel) {
  const KernelBinary* binary = find_kernel(kernel);
  REQUIRE(binary);
  return counted_axes(binary->code());
}

} // namespace

TEST_CASE("which axes a kernel counts the workgroups of") {
  CHECK(axes_of("matmul_portable.f16") == Axes{});
  CHECK(axes_of("norm") == Axes{});
  CHECK(axes_of("elementwise") == Axes{false, true, false});
  CHECK(axes_of("embedding.f16") == Axes{false, true, false});
  CHECK(axes_of("expert_group") == Axes{true, false, false});
}

TEST_CASE("every kernel that can take long can be divided") {
  for (const KernelBinary& kernel : kernel_binaries()) {
    CAPTURE(kernel.name);
    const Axes counted = counted_axes(kernel.code());
    // Rows lie along the first axis. The exception orders a step's rows by their experts, which is short.
    CHECK(counted[0] == (kernel.name == "expert_group"));
    if (kernel.name.starts_with("matmul") || kernel.name.starts_with("attention")) CHECK(counted == Axes{});
  }
}

TEST_CASE("a module that is cut off or asks for all axes at once") {
  // Decorates id 7 as the number of workgroups and loads all of it.
  const std::vector<uint32_t> code = {0x07230203, 0x00010500,    0, 9, 0, 4u << 16 | 71, 7, 11,
                                      24,         4u << 16 | 61, 3, 8, 7};
  CHECK(counted_axes(code) == Axes{true, true, true});
  for (size_t size = 0; size < code.size(); ++size) {
    CHECK(counted_axes(std::span(code).first(size)) == Axes{});
  }
}
