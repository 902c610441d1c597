// What is measured of a device and kept.
#include "kernel/probe/probe.h"

#include <chrono>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "support/gpu.h"

using namespace pumice;

namespace {

std::shared_ptr<Pipelines> pipelines_knowing(const std::string& ceilings) {
  auto pipelines = Pipelines::create(TestGpu::get().device(), {});
  if (!pipelines.ok()) FAIL(pipelines.error().text());
  if (!ceilings.empty()) (*pipelines)->set_tuning_result("ceilings", ceilings);
  return *pipelines;
}

Ceilings require(const Result<Ceilings>& ceilings) {
  if (!ceilings.ok()) FAIL(ceilings.error().text());
  return *ceilings;
}

} // namespace

TEST_CASE("ceilings that were measured too low are raised by the next measurement, and never lowered") {
  const auto& device = TestGpu::get().device();
  for (const char* kept : {"", "1e3 2e3", "no numbers", "-1 5", "1e9"}) {
    CAPTURE(kept);
    const auto pipelines = pipelines_knowing(kept);
    const Ceilings measured = require(measure_ceilings(device, pipelines));
    CHECK(measured.copy_bytes_per_second > 1e7);
    CHECK(measured.flops_per_second > 1e8);
    const Ceilings known = require(known_ceilings(device, pipelines)); // without measuring
    CHECK(known.copy_bytes_per_second == doctest::Approx(measured.copy_bytes_per_second));
    CHECK(known.flops_per_second == doctest::Approx(measured.flops_per_second));
  }
  const auto pipelines = pipelines_knowing("1e18 1e3");
  const Ceilings mixed = require(measure_ceilings(device, pipelines));
  CHECK(mixed.copy_bytes_per_second == 1e18);
  CHECK(mixed.flops_per_second > 1e8);
}

TEST_CASE("ceilings are kept with the time at which they were reached, and measured again after an hour") {
  const auto& device = TestGpu::get().device();
  const auto now =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  // Just measured: taken as they are, though they are too low.
  auto pipelines = pipelines_knowing(fmt::format("1e3 2e3 1000 2000 {}", now - 60));
  const Ceilings kept = require(recent_ceilings(device, pipelines));
  CHECK(kept.copy_bytes_per_second == 1e3);
  CHECK(kept.copy_time == 1000);
  CHECK(kept.flops_time == 2000);
  const Ceilings raised = raise_ceilings(*pipelines, {5e3, 1e3});
  CHECK(raised.copy_time >= now);
  CHECK(raised.flops_time == 2000);
  CHECK(raised.measured_time == now - 60);
  // Measured long ago, or by a version that kept no time.
  for (const std::string& old : {fmt::format("1e3 2e3 1000 2000 {}", now - 4000), std::string("1e3 2e3")}) {
    CAPTURE(old);
    pipelines = pipelines_knowing(old);
    const Ceilings again = require(recent_ceilings(device, pipelines));
    CHECK(again.copy_bytes_per_second > 1e7);
    CHECK(again.copy_time >= now);
    CHECK(again.measured_time >= now);
  }
}

TEST_CASE("what a kernel reached raises the ceilings") {
  const auto pipelines = pipelines_knowing("100 200");
  Ceilings raised = raise_ceilings(*pipelines, {50, 300});
  CHECK(raised.copy_bytes_per_second == 100);
  CHECK(raised.flops_per_second == 300);
  raised = require(known_ceilings(TestGpu::get().device(), pipelines));
  CHECK(raised.copy_bytes_per_second == 100);
  CHECK(raised.flops_per_second == 300);
}
