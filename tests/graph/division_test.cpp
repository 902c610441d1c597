#include "plan/division.h"

#include <algorithm>
#include <set>

#include <doctest/doctest.h>

using namespace pumice;

namespace {

constexpr DeviceSpeed phone = {20e9, 5e9};

Dispatch launch(const char* kernel, std::array<uint32_t, 3> groups, double flops, double bytes = 0) {
  Dispatch dispatch;
  dispatch.kernel = kernel;
  dispatch.groups = groups;
  dispatch.flops = flops;
  dispatch.bytes = bytes;
  return dispatch;
}

// Whether each workgroup of a launch is in exactly one of the parts.
bool covers(const Dispatch& whole, const std::vector<Dispatch>& parts) {
  std::set<std::array<uint32_t, 3>> seen;
  size_t count = 0;
  for (const Dispatch& part : parts) {
    for (uint32_t z = 0; z < part.groups[2]; ++z) {
      for (uint32_t y = 0; y < part.groups[1]; ++y) {
        for (uint32_t x = 0; x < part.groups[0]; ++x, ++count) {
          seen.insert({part.first_group[0] + x, part.first_group[1] + y, part.first_group[2] + z});
        }
      }
    }
  }
  size_t groups = 1;
  for (uint32_t along : whole.groups) groups *= along;
  return count == groups && seen.size() == count && std::ranges::all_of(seen, [&](const auto& group) {
           return group[0] < whole.groups[0] && group[1] < whole.groups[1] && group[2] < whole.groups[2];
         });
}

void check_parts(const Dispatch& whole, const std::vector<Dispatch>& parts) {
  CHECK(covers(whole, parts));
  double flops = 0, bytes = 0;
  for (const Dispatch& part : parts) {
    CHECK(phone.seconds(part) <= longest_dispatch_seconds * (1 + 1e-9));
    flops += part.flops;
    bytes += part.bytes;
  }
  CHECK(flops == doctest::Approx(whole.flops));
  CHECK(bytes == doctest::Approx(whole.bytes));
}

} // namespace

TEST_CASE("a short launch stays whole") {
  CHECK(divide(launch("matmul_portable.f16", {3, 500, 1}, 2e9), phone).size() == 1);
  CHECK(divide(launch("matmul_portable.f16", {3, 500, 1}, 0), phone).size() == 1);
}

TEST_CASE("the parts of a long launch are short, and together are the launch") {
  // The output of a vocabulary of 128,256 for 128 rows of 4,096: 134 GFLOP.
  const Dispatch head = launch("matmul_portable.f16", {8, 4008, 1}, 134e9, 1e9);
  const std::vector<Dispatch> parts = divide(head, phone);
  check_parts(head, parts);
  CHECK(parts.size() >= 69);
  CHECK(parts.size() <= 75);                                     // and not shorter than they have to be
  for (const Dispatch& part : parts) CHECK(part.groups[0] == 8); // which read the same weights
}

TEST_CASE("axes are divided from the last to the first, as far as it takes") {
  const Dispatch few = launch("attention_portable.f16", {10, 7, 3}, 1e12 / 7);
  const std::vector<Dispatch> parts = divide(few, phone);
  check_parts(few, parts);
  for (const Dispatch& part : parts) CHECK(part.groups[2] == 1);
  // What one workgroup takes cannot be divided.
  const Dispatch long_groups = launch("matmul_portable.f16", {2, 3, 1}, 1e15);
  CHECK(divide(long_groups, phone).size() == 6);
  CHECK(covers(long_groups, divide(long_groups, phone)));
}

TEST_CASE("an axis of which the kernel asks the number of workgroups stays whole") {
  const Dispatch rows = launch("elementwise", {1000, 40, 1}, 1e12);
  const std::vector<Dispatch> parts = divide(rows, phone);
  check_parts(rows, parts);
  for (const Dispatch& part : parts) CHECK(part.groups[1] == 40);
  CHECK(divide(launch("expert_group", {64, 1, 1}, 1e12), phone).size() == 1);
}

TEST_CASE("a part of a launch is divided like a launch") {
  Dispatch part = launch("matmul_portable.f16", {2, 100, 1}, 10e9);
  part.first_group = {4, 50, 0};
  const std::vector<Dispatch> parts = divide(part, phone);
  REQUIRE(parts.size() == 5);
  CHECK(parts[0].first_group == std::array<uint32_t, 3>{4, 50, 0});
  CHECK(parts[4].first_group == std::array<uint32_t, 3>{4, 130, 0});
}
