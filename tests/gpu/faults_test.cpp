// Every Vulkan call that can fail, failing: in opening a device, loading, reading a prompt, generating and
// taking all of it down.
#include <doctest/doctest.h>

#include <cstdlib>

#include "gpu/instance.h"
#include "kernel/device_context.h"
#include "session/session.h"
#include "support/faulty_vulkan.h"
#include "support/gpu.h"
#include "support/messages.h"

using namespace pumice;

namespace {

const std::filesystem::path shipped =
    std::filesystem::path(PUMICE_SOURCE_DIR) / "models" / "pretrained" / "stories-2m.gguf";

// What the validation layers say of objects that outlive their device counts too.
Result<std::vector<uint32_t>> generate(const VulkanTable& table) {
  InstanceOptions options;
  options.table = table;
  options.validate = !std::getenv("PUMICE_TEST_NO_VALIDATION");
  options.validation_log = [](const std::string& message) { validation_messages().push_back(message); };
  PUMICE_TRY(std::shared_ptr<Instance> instance, Instance::create(options));
  PUMICE_TRY(Capabilities chosen, instance->choose(""));
  PUMICE_TRY(DeviceContext context, open_device(instance, chosen, {}));
  PUMICE_TRY(std::shared_ptr<const Model> model, Model::load(shipped, context));
  PUMICE_TRY(std::unique_ptr<Session> session, Session::create(model, {}));
  const std::vector<uint32_t> prompt = {1, 300, 400};
  PUMICE_CHECK(session->prefill(prompt, {}));
  std::vector<uint32_t> tokens;
  for (int i = 0; i < 3; ++i) {
    PUMICE_TRY(uint32_t token, session->next());
    tokens.push_back(token);
  }
  return tokens;
}

// What every call of the functions that are most likely to fail is to fail with, not the first alone; there
// is no doing without any of them.
VkResult likeliest(const std::string& function) {
  if (function == "vkAllocateMemory") return VK_ERROR_OUT_OF_DEVICE_MEMORY;
  if (function == "vkQueueSubmit") return VK_ERROR_DEVICE_LOST;
  if (function == "vkCreateComputePipelines") return VK_ERROR_OUT_OF_HOST_MEMORY;
  return VK_SUCCESS;
}

Code expected_code(VkResult error) {
  if (error == VK_ERROR_DEVICE_LOST) return Code::device_lost;
  if (error == VK_ERROR_OUT_OF_HOST_MEMORY || error == VK_ERROR_OUT_OF_DEVICE_MEMORY)
    return Code::out_of_memory;
  return Code::internal; // any
}

} // namespace

TEST_CASE("whichever Vulkan call fails, and how, it comes back as an error and nothing is left behind") {
  FaultyVulkan vulkan;
  const auto expected = generate(vulkan.table());
  if (!expected.ok()) FAIL(expected.error().text());
  std::vector<FaultyVulkan::Function> functions = vulkan.functions();

  int cases = 0, tolerated = 0;
  for (size_t id = 0; id < functions.size(); ++id) {
    const FaultyVulkan::Function& function = functions[id];
    for (int call = 0; call < function.calls; ++call) {
      // The first call fails in every way; later ones, mostly from the same places, in one way each.
      const size_t turn = call % function.errors.size();
      for (size_t way = 0; way < function.errors.size(); ++way) {
        const VkResult error = function.errors[way];
        if (call > 0 && way != turn && error != likeliest(function.name)) continue;
        vulkan.fail(id, call, error);
        const auto result = generate(vulkan.table());
        if (!vulkan.failed()) continue; // threads share calls out differently from run to run
        ++cases;
        INFO(function.name << ", call " << call << ", VkResult " << error);
        if (result.ok()) {
          // Something that only saves time, or that was being taken down anyway.
          ++tolerated;
          CHECK(likeliest(function.name) == VK_SUCCESS);
          CHECK(*result == *expected);
        } else if (error == VK_ERROR_INCOMPATIBLE_DRIVER) {
          CHECK(says(result, {"found no driver"}) == "");
        } else {
          CHECK(result.error().text().find(function.name) != std::string::npos);
          if (expected_code(error) != Code::internal) CHECK(result.error().code == expected_code(error));
        }
      }
    }
    vulkan.reset();
    const auto after = generate(vulkan.table());
    CHECK(after.ok());
    if (after.ok()) CHECK(*after == *expected);
  }
  MESSAGE(cases << " failures injected, " << tolerated << " of them without harm");
  CHECK(cases > 200);
}
