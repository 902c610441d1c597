// What is measured of a device and kept.
#include "kernel/probe/probe.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "support/skip.h"
#include "support/vulkan/gpu.h"

using namespace pumice;

namespace {

std::shared_ptr<Pipelines> pipelines_knowing(const std::string& ceilings) {
  auto pipelines = Pipelines::create(TestGpu::get().device(), {});
  if (!pipelines.ok()) FAIL(pipelines.error().text());
  if (!ceilings.empty()) (*pipelines)->set_tuning_result("ceilings", ceilings);
  return *pipelines;
}

template <class T>
T require(const Result<T>& result) {
  if (!result.ok()) FAIL(result.error().text());
  return *result;
}

VulkanTable real;
std::chrono::steady_clock::time_point submitted;
double longest = 0; // seconds from a submission to the end of the wait for it

VKAPI_ATTR void VKAPI_CALL discrete(VkPhysicalDevice device, VkPhysicalDeviceProperties* found) {
  real.vkGetPhysicalDeviceProperties(device, found);
  found->deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
}
VKAPI_ATTR VkResult VKAPI_CALL note_submit(VkQueue queue, uint32_t count, const VkSubmitInfo* infos,
                                           VkFence fence) {
  submitted = std::chrono::steady_clock::now();
  return real.vkQueueSubmit(queue, count, infos, fence);
}
VKAPI_ATTR VkResult VKAPI_CALL note_wait(VkDevice device, const VkSemaphoreWaitInfo* info, uint64_t timeout) {
  const VkResult result = real.vkWaitSemaphores(device, info, timeout);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - submitted;
  longest = std::max(longest, took.count());
  return result;
}

// The device here, described as a discrete GPU.
std::shared_ptr<Device> device_as_discrete() {
  // Without validation, whose handles are others. Not destroyed: the table points to the driver.
  static const auto* plain = [] {
    const auto made = require(Instance::create({}));
    return new std::shared_ptr<Device>(require(Device::create(made, require(made->choose("")))));
  }();
  real = (*plain)->table();
  InstanceOptions options;
  options.table.vkGetPhysicalDeviceProperties = discrete;
  options.table.vkQueueSubmit = note_submit;
  options.table.vkWaitSemaphores = note_wait;
  const auto instance = require(Instance::create(options));
  const auto device = require(Device::create(instance, require(instance->choose(""))));
  REQUIRE_FALSE(device->capabilities().is_cpu());
  return device;
}

} // namespace

TEST_CASE("the work that measures a GPU fits the GPU, however slow it is") {
  const auto device = device_as_discrete();
  const auto pipelines = require(Pipelines::create(device, {}));
  longest = 0;
  const Ceilings ceilings = require(measure_ceilings(device, pipelines));
  CHECK(ceilings.copy_bytes_per_second > 1e7);
  CHECK(ceilings.flops_per_second > 1e8);
  CHECK(longest > 0);
  CHECK(longest < 10 * longest_dispatch_seconds); // a quarter of it, but for other programs
}

// What they are counted by: tests/unit/kernel_core_count.cpp.
TEST_CASE("the cores that were counted are kept, and never counted where a CPU computes") {
  const auto device = device_as_discrete();
  if (!TestGpu::get().device()->capabilities().is_cpu()) return skip("needs a CPU driver");
  const auto pipelines = require(Pipelines::create(device, {}));
  // A CPU has as many as it has threads, if the machine is quiet.
  CHECK(require(probe_cores(device, pipelines)) <= 16 * std::thread::hardware_concurrency());
  CHECK(require(choose_profile(device, pipelines)).cores == 0);
  CHECK(!pipelines->tuning_results().contains("cores"));
  pipelines->set_tuning_result("cores", "20");
  const DeviceProfile known = require(choose_profile(device, pipelines));
  CHECK(known.cores == 20);
  CHECK(known.busy_groups == 160);
  for (const char* bad : {"", "many", "0", "-3", "99999"}) {
    CAPTURE(bad);
    pipelines->set_tuning_result("cores", bad);
    CHECK(require(choose_profile(device, pipelines)).cores == 0);
    CHECK(require(choose_profile(device, pipelines)).busy_groups == 256);
  }
}

TEST_CASE("a speed that was measured is kept, and a device's type says what is assumed without") {
  const auto pipelines = pipelines_knowing("");
  CHECK_FALSE(stored_speed(*pipelines));
  store_speed(*pipelines, {3e12, 4e11});
  DeviceProfile profile = with_tuning_results({}, *pipelines);
  CHECK(profile.speed.flops_per_second == 3e12);
  CHECK(profile.speed.bytes_per_second == 4e11);
  for (const char* bad : {"", "fast", "1e9", "0 5e9", "1e9 -1"}) {
    CAPTURE(bad);
    pipelines->set_tuning_result("speed", bad);
    CHECK_FALSE(stored_speed(*pipelines));
    profile.speed = {1, 2};
    CHECK(with_tuning_results(profile, *pipelines).speed.bytes_per_second == 2);
  }
  Capabilities device;
  device.type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
  const DeviceSpeed discrete_gpu = assumed_speed(device);
  for (const VkPhysicalDeviceType type :
       {VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU, VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU,
        VK_PHYSICAL_DEVICE_TYPE_OTHER, VK_PHYSICAL_DEVICE_TYPE_CPU}) {
    device.type = type;
    CHECK(assumed_speed(device).flops_per_second < discrete_gpu.flops_per_second);
  }
}

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
