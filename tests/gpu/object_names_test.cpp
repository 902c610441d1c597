// The names that Vulkan objects have in captures and validation messages (VK_EXT_debug_utils).
#include <doctest/doctest.h>

#include <cstdlib>
#include <map>
#include <set>

#include "generate/session.h"
#include "gpu/kernel_table.h"
#include "kernel/probe/open_device.h"
#include "support/files/paths.h"
#include "support/require.h"

using namespace pumice;

namespace {

std::shared_ptr<Device> device_of(const std::shared_ptr<Instance>& instance) {
  return require(Device::create(instance, require(instance->choose(""))));
}

std::map<VkObjectType, std::set<std::string>> names;

VKAPI_ATTR VkResult VKAPI_CALL keep_name(VkDevice device, const VkDebugUtilsObjectNameInfoEXT* info) {
  CHECK(device);
  CHECK(info->objectHandle);
  names[info->objectType].insert(info->pObjectName);
  return VK_ERROR_OUT_OF_HOST_MEMORY; // which is of no consequence
}

PFN_vkCreateInstance create_instance = nullptr;

VKAPI_ATTR VkResult VKAPI_CALL create_without_extensions(const VkInstanceCreateInfo* info,
                                                         const VkAllocationCallbacks* callbacks,
                                                         VkInstance* instance) {
  if (info->enabledExtensionCount) return VK_ERROR_EXTENSION_NOT_PRESENT;
  return create_instance(info, callbacks, instance);
}

} // namespace

TEST_CASE("objects of a model and a session are named after what is in them, or the kernel that they run") {
  names.clear();
  InstanceOptions options;
  options.table.vkSetDebugUtilsObjectNameEXT = keep_name;
  const auto instance = require(Instance::create(options));
  const DeviceContext context = require(open_device(instance, require(instance->choose("")), {}));
  LoadOptions load;
  load.threads = 1; // keep_name() is for one thread
  const auto model = require(Model::load(stories_model(), context, {}, load));
  SessionOptions size;
  size.size.context = 64;
  const auto session = require(Session::create(model, size));
  REQUIRE(session->prefill(std::vector<uint32_t>{1, 300, 400}, {}).ok());
  (void)require(session->next());

  for (const char* name : {"weights", "cache", "scratch", "step block", "step staging", "sampling"}) {
    CAPTURE(name);
    CHECK(names[VK_OBJECT_TYPE_BUFFER].contains(std::string("pumice: ") + name));
    CHECK(names[VK_OBJECT_TYPE_DEVICE_MEMORY].contains(std::string("pumice: ") + name));
  }
  CHECK(names[VK_OBJECT_TYPE_COMMAND_BUFFER].contains("pumice: step"));
  CHECK(names[VK_OBJECT_TYPE_SEMAPHORE].contains("pumice: timeline"));
  CHECK(names[VK_OBJECT_TYPE_PIPELINE].size() > 3);
  CHECK(names[VK_OBJECT_TYPE_DESCRIPTOR_SET].empty());
  for (const std::string& name : names[VK_OBJECT_TYPE_PIPELINE]) {
    CAPTURE(name);
    REQUIRE(name.starts_with("pumice: "));
    CHECK(find_kernel(name.substr(8)));
  }
  for (const auto& [type, of_type] : names) CHECK_FALSE(of_type.contains("pumice: "));
}

TEST_CASE("a validation message says which object it is about") {
  if (std::getenv("PUMICE_TEST_NO_VALIDATION")) return;
  std::string messages;
  InstanceOptions options;
  options.validate = true;
  options.validation_log = [&](const std::string& message) { messages += message + "\n"; };
  const auto device = device_of(require(Instance::create(options)));
  const std::string long_name(500, 'x');
  const Buffer buffer = require(Buffer::create(device, 64, MemoryUse::device, long_name.c_str()));
  Commands commands = require(Commands::create(device, "an example"));
  REQUIRE(commands.begin().ok());
  commands.fill(buffer, 4096, 4, 0); // beyond its end
  REQUIRE(commands.end().ok());
  CAPTURE(messages);
  CHECK(messages.find("vkCmdFillBuffer") != std::string::npos);
  CHECK((messages.find("pumice: an example") != std::string::npos ||
         messages.find("pumice: xxxxx") != std::string::npos));
  CHECK(messages.find(long_name) == std::string::npos);
}

TEST_CASE("without VK_EXT_debug_utils nothing has a name, and everything else is as it was") {
  create_instance = require(Instance::create({}))->table().vkCreateInstance;
  InstanceOptions options;
  options.table.vkCreateInstance = create_without_extensions;
  const auto instance = require(Instance::create(options));
  CHECK_FALSE(static_cast<bool>(instance->table().vkSetDebugUtilsObjectNameEXT));
  CHECK(Buffer::create(device_of(instance), 64, MemoryUse::device, "an example").ok());
}
