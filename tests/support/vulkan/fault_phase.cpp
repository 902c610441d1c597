#include "support/vulkan/fault_phase.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include <doctest/doctest.h>

namespace {

// Without these, nothing works at all.
bool is_needed(const std::string& function) {
  return function == "vkAllocateMemory" || function == "vkQueueSubmit" ||
         function == "vkCreateComputePipelines" || function == "vkBeginCommandBuffer";
}

bool fits(pumice_status status, VkResult error) {
  switch (error) {
  case VK_ERROR_DEVICE_LOST:
    return status == PUMICE_DEVICE_LOST;
  case VK_ERROR_INITIALIZATION_FAILED:
  case VK_ERROR_LAYER_NOT_PRESENT:
  case VK_ERROR_EXTENSION_NOT_PRESENT:
  case VK_ERROR_FEATURE_NOT_PRESENT:
  case VK_ERROR_INVALID_EXTERNAL_HANDLE:
    return status == PUMICE_UNSUPPORTED;
  case VK_ERROR_INCOMPATIBLE_DRIVER:
    return status == PUMICE_NOT_FOUND;
  case VK_ERROR_INVALID_SHADER_NV:
    return status == PUMICE_INTERNAL;
  default:
    return status == PUMICE_OUT_OF_MEMORY;
  }
}

void check_error(const std::string& function, VkResult expected, pumice_status status,
                 const pumice_error& error) {
  INFO(error.message);
  CHECK(fits(status, expected));
  CHECK(error.status == status);
  const char* named = expected == VK_ERROR_INCOMPATIBLE_DRIVER ? "found no driver" : function.c_str();
  const std::string message = error.message;
  // A lost device may show first in a call that frees something. The next call that uses the device reports
  // it.
  const bool seen_later = expected == VK_ERROR_DEVICE_LOST && message.ends_with("(VK_ERROR_DEVICE_LOST)");
  CHECK((message.find(named) != std::string::npos || seen_later));
}

bool few() {
  return std::getenv("PUMICE_TEST_FEW_FAULTS") != nullptr;
}

// Which of a function's calls fail: the first, the last, and calls between them at even distances.
int call_number(int index, int chosen, int calls) {
  return chosen < 2 ? 0 : static_cast<int>(int64_t{index} * (calls - 1) / (chosen - 1));
}

} // namespace

FaultCount& FaultCount::operator+=(const FaultCount& other) {
  cases += other.cases;
  tolerated += other.tolerated;
  return *this;
}

FaultCount inject(FaultyVulkan& vulkan, const FaultPhase& phase, const FaultEffort& wanted) {
  const FaultEffort effort = few() ? FaultEffort{std::min(wanted.most_calls, 2), false} : wanted;
  const auto start = std::chrono::steady_clock::now();
  FaultCount count;
  pumice_error error = {};
  // Runs one case, or the phase without a failure.
  const auto run = [&](const auto& arm, const auto& check) {
    phase.before();
    arm();
    const pumice_status status = phase.during(&error);
    vulkan.rest();
    check(status);
    phase.after(status);
  };
  INFO(phase.name);
  const auto well = [&](pumice_status status) {
    INFO(error.message);
    REQUIRE(status == PUMICE_OK);
  };
  std::vector<FaultyVulkan::Function> functions;
  run([&] { vulkan.count(); },
      [&](pumice_status status) {
        well(status);
        functions = vulkan.functions();
      });
  for (size_t id = 0; id < functions.size(); ++id) {
    const FaultyVulkan::Function& function = functions[id];
    if (function.errors.empty()) continue;
    const int chosen = std::min({function.calls, phase.most_calls, effort.most_calls});
    const size_t ways = function.errors.size();
    for (int index = 0; index < chosen; ++index) {
      const bool every_way = index == 0 && effort.every_way;
      for (size_t way = 0; way < (every_way ? ways : 1); ++way) {
        const int call = call_number(index, chosen, function.calls);
        const VkResult result = function.errors[every_way ? way : (ways - 1 + index) % ways];
        INFO(function.name << ", call " << call << ", VkResult " << result);
        run([&] { vulkan.fail(id, call, result); },
            [&](pumice_status status) {
              // The number of calls may differ from run to run.
              if (!vulkan.failed()) return well(status);
              ++count.cases;
              if (status != PUMICE_OK) return check_error(function.name, result, status, error);
              ++count.tolerated;
              // Another kernel takes the place of one that cannot be compiled while a model is loaded.
              const bool replaced = result == VK_ERROR_INVALID_SHADER_NV;
              if (phase.has_status) CHECK((replaced || !is_needed(function.name)));
            });
      }
    }
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  MESSAGE(phase.name << ": " << count.cases << " failures injected, " << count.tolerated
                     << " of them without consequence, in " << took.count() << " s");
  return count;
}

void check_count(const FaultCount& count, int least) {
  MESSAGE(count.cases << " failures injected, " << count.tolerated << " of them without consequence");
  CHECK(count.cases >= (few() ? 1 : least));
}
