#include "support/vulkan/gpu.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <mutex>

#include <doctest/doctest.h>

#include "kernel/probe/probe.h"
#include "plan/division.h"
#include "shaders/common/step.h"
#include "support/in_turn.h"
#include "support/require.h"
#include "support/vulkan/wide_subgroups.h"

using namespace pumice;

namespace {

// A launch whole, or in two or three parts.
std::vector<Dispatch> in_parts(const Dispatch& dispatch) {
  const size_t parts = 1 + (dispatch.kernel.size() + dispatch.groups[0] + dispatch.groups[1]) % 3;
  const double rate =
      (dispatch.flops + dispatch.bytes) / static_cast<double>(parts) / longest_dispatch_seconds;
  return parts == 1 || rate == 0 ? std::vector{dispatch} : divide(dispatch, {rate, rate});
}

} // namespace

std::vector<std::string>& validation_messages() {
  static std::vector<std::string> messages;
  return messages;
}

TestGpu& TestGpu::get() {
  static TestGpu* gpu = new TestGpu; // not destroyed: drivers dislike being called after main
  return *gpu;
}

TestGpu::TestGpu() {
  static std::mutex mutex;
  InstanceOptions options;
  options.table.vkGetInstanceProcAddr = wide_vulkan();
  options.validate = std::getenv("PUMICE_TEST_NO_VALIDATION") == nullptr;
  options.validation_log = [](const std::string& message) {
    std::lock_guard lock(mutex);
    validation_messages().push_back(message);
  };
  instance_ = require(Instance::create(options));
  const Capabilities chosen = require(instance_->choose(""));
  DeviceOptions every_kernel;
  every_kernel.processor_matrices = true;
  device_ = require(Device::create(instance_, chosen, every_kernel));
  pipelines_ = require(Pipelines::create(device_, {}));
  profile = require(choose_profile(device_, pipelines_));
  context_ = {device_, pipelines_, profile};
}

BufferRef TestGpu::upload(std::span<const std::byte> bytes) {
  // Some tests have tens of thousands of small buffers: a copy for each would take minutes.
  buffers_.push_back(require(Buffer::create(device_, bytes.size(), MemoryUse::shared)));
  std::copy(bytes.begin(), bytes.end(), buffers_.back().mapped().begin());
  return {Space::scratch, static_cast<uint32_t>(buffers_.size() - 1), 0, bytes.size()};
}

void TestGpu::read_bytes(const BufferRef& ref, std::span<std::byte> bytes) {
  const Buffer& buffer = buffers_[ref.allocation];
  std::copy_n(buffer.mapped().begin() + static_cast<ptrdiff_t>(ref.offset), bytes.size(), bytes.begin());
}

void TestGpu::clear() {
  constexpr size_t most_pipelines = 200;
  buffers_.clear();
  if (pipelines_->count() <= most_pipelines || !device_->capabilities().is_cpu()) return;
  pipelines_ = require(Pipelines::create(device_, {}));
  context_.pipelines = pipelines_;
}

BufferRef TestGpu::step(uint32_t rows, uint32_t outputs, uint32_t position) {
  std::vector<StepRow> all(rows);
  std::vector<uint32_t> wanted(outputs);
  for (uint32_t row = 0; row < rows; ++row) all[row].position = position + row;
  for (uint32_t i = 0; i < outputs; ++i) wanted[i] = i;
  return step(all, wanted, std::max(rows, outputs));
}

BufferRef TestGpu::step(std::span<const StepRow> rows, std::span<const uint32_t> outputs, uint32_t capacity) {
  using Quad = std::array<uint32_t, 4>;
  REQUIRE(std::max(rows.size(), outputs.size()) <= capacity);
  std::vector<Quad> block(STEP_HEADER_QUADS + 2 * size_t{capacity});
  block[0] = {static_cast<uint32_t>(rows.size()), static_cast<uint32_t>(outputs.size()), 0, 0};
  for (size_t i = 0; i < rows.size(); ++i) {
    block[STEP_HEADER_QUADS + i] = {rows[i].token, rows[i].position, rows[i].sequence, rows[i].first_visible};
  }
  for (size_t i = 0; i < outputs.size(); ++i) block[STEP_HEADER_QUADS + capacity + i] = {outputs[i], 0, 0, 0};
  return upload(block);
}

// Each launch may have several parts.
Commands TestGpu::record(Launcher& launcher, std::span<const std::vector<Dispatch>> launches) {
  Commands commands = require(Commands::create(device_));
  require(commands.begin());
  for (const std::vector<Dispatch>& parts : launches) {
    commands.barrier();
    for (const Dispatch& part : parts) {
      require(launcher.record(
          commands, part, [&](const BufferRef& ref) -> const Buffer& { return buffers_[ref.allocation]; }));
    }
  }
  commands.host_barrier();
  require(commands.end());
  return commands;
}

void TestGpu::run(std::span<const Dispatch> dispatches) {
  std::vector<std::vector<Dispatch>> launches;
  for (const Dispatch& dispatch : dispatches) launches.push_back(in_parts(dispatch));
  Launcher launcher(device_, pipelines_);
  Commands commands = record(launcher, launches);
  require(commands.run_and_wait());
}

double TestGpu::time(const Dispatch& dispatch, int copies, int samples) {
  const std::vector<std::vector<Dispatch>> many(static_cast<size_t>(copies), {dispatch});
  Launcher launcher(device_, pipelines_);
  Commands commands = record(launcher, many);
  std::vector<double> seconds;
  for (int sample = 0; sample <= samples; ++sample) {
    const auto start = std::chrono::steady_clock::now();
    require(commands.run_and_wait());
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (sample > 0) seconds.push_back(took.count() / copies); // the first one may compile
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

std::vector<DeviceProfile> profiles_to_test() {
  const DeviceProfile chosen = TestGpu::get().profile;
  std::vector<DeviceProfile> profiles = {chosen};
  static size_t turn = 0;
  const size_t place = turn++;
  // Old drivers, which have no such loads, compile what asks for them for minutes: a long test does that
  // there. With a newer one, other loads and another number of registers take turns: by threes, as the four
  // types of a cache take turns, too.
  const bool all = chosen.uniform_loads || every_case();
  if (chosen.cpu8 && all && takes(place % 3 != 2)) {
    profiles.push_back(chosen);
    profiles.back().uniform_loads = !chosen.uniform_loads;
    profiles.back().vector_registers = 32;
    profiles.back().half_loads = false;
  }
  if (chosen.cpu8 && chosen.uniform_loads && takes(place % 3 == 2)) {
    profiles.push_back(chosen);
    profiles.back().vector_registers = chosen.vector_registers == 16 ? 32 : 16;
    profiles.back().half_loads = false;
  }
  if (chosen.cpu8 && every_case()) {
    profiles.push_back(chosen);
    profiles.back().uniform_loads = false;
    profiles.back().texel_loads = !chosen.texel_loads;
  }
  if (chosen.cpu && takes(place % 2 == first_turn())) profiles.emplace_back();
  return profiles;
}

DeviceProfile forced_profile(std::string variant) {
  TestGpu& gpu = TestGpu::get();
  const Capabilities& device = gpu.device()->capabilities();
  DeviceProfile profile;
  profile.shared_bytes = gpu.profile.shared_bytes;
  profile.storage_buffers = gpu.profile.storage_buffers;
  profile.subgroup = device.subgroup_shuffle ? device.subgroup_size : 0;
  profile.dot = gpu.profile.dot;
  profile.forced = std::move(variant);
  return profile;
}

double relative_rms(std::span<const float> a, std::span<const float> b) {
  REQUIRE(a.size() == b.size());
  double difference = 0, total = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    total += double{b[i]} * b[i];
  }
  if (std::isnan(difference)) return difference;
  return total > 0 ? std::sqrt(difference / total) : std::sqrt(difference);
}
