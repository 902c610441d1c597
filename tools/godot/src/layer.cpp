#include "layer.h"

#ifdef __linux__

#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace godot::layer {

namespace {

constexpr const char* layer_name = "VK_LAYER_PUMICE_engine";

// The loader's first pointer in each handle tells which instance, or device, it belongs to.
void* key(const void* handle) {
  return *static_cast<void* const*>(handle);
}

struct NextInstance {
  VkInstance instance;
  PFN_vkGetInstanceProcAddr get;
};

struct NextDevice {
  PFN_vkGetDeviceProcAddr get;
  PFN_vkDestroyDevice destroy;
  PFN_vkDeviceWaitIdle wait;
  PFN_vkQueueSubmit submit;
  PFN_vkQueueSubmit2 submit_2; // may be null, as may the next
  PFN_vkQueueSubmit2 submit_2_khr;
  PFN_vkQueueWaitIdle wait_queue;
  PFN_vkQueueBindSparse bind_sparse;
  PFN_vkQueuePresentKHR present;
};

std::mutex mutex; // of the maps and what follows
std::map<void*, NextInstance> instances;
std::map<void*, NextDevice> devices;
pumice_features* enabled = nullptr; // of the first device, which Godot draws with
// Functions of a queue. Only one thread at a time may call those of one queue, or wait for its device.
std::mutex queues;

NextDevice next_of(const void* handle) {
  const std::lock_guard lock(mutex);
  return devices.at(key(handle));
}

template <class Link, class Info>
Link* link_of(const Info* info, VkStructureType type) {
  for (auto* each = static_cast<const VkBaseInStructure*>(info->pNext); each; each = each->pNext) {
    auto* link = reinterpret_cast<const Link*>(each);
    if (each->sType == type && link->function == VK_LAYER_LINK_INFO) return const_cast<Link*>(link);
  }
  return nullptr;
}

VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo* info,
                                               const VkAllocationCallbacks* allocator, VkInstance* instance) {
  auto* link = link_of<VkLayerInstanceCreateInfo>(info, VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO);
  if (!link) return VK_ERROR_INITIALIZATION_FAILED;
  const PFN_vkGetInstanceProcAddr get = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
  link->u.pLayerInfo = link->u.pLayerInfo->pNext;
  const auto create = reinterpret_cast<PFN_vkCreateInstance>(get(nullptr, "vkCreateInstance"));
  const VkResult result = create(info, allocator, instance);
  if (result != VK_SUCCESS) return result;
  const std::lock_guard lock(mutex);
  instances[key(*instance)] = {*instance, get};
  return result;
}

VKAPI_ATTR void VKAPI_CALL destroy_instance(VkInstance instance, const VkAllocationCallbacks* allocator) {
  if (!instance) return;
  NextInstance next;
  {
    const std::lock_guard lock(mutex);
    next = instances.at(key(instance));
    instances.erase(key(instance));
  }
  reinterpret_cast<PFN_vkDestroyInstance>(next.get(instance, "vkDestroyInstance"))(instance, allocator);
}

// What Pumice would use of the device, by itself: for pumice_vulkan.
pumice_features* features_of(const NextInstance& next, VkPhysicalDevice physical_device, void* chain) {
  pumice_features* features = nullptr;
  pumice_error error;
  const auto get = reinterpret_cast<pumice_get_instance_proc_addr>(next.get);
  return pumice_features_create(get, next.instance, physical_device, chain, &features, &error) == PUMICE_OK
             ? features
             : nullptr;
}

VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical_device, const VkDeviceCreateInfo* info,
                                             const VkAllocationCallbacks* allocator, VkDevice* device) {
  auto* link = link_of<VkLayerDeviceCreateInfo>(info, VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO);
  if (!link) return VK_ERROR_INITIALIZATION_FAILED;
  NextInstance next;
  {
    const std::lock_guard lock(mutex);
    next = instances.at(key(physical_device));
  }
  const PFN_vkGetDeviceProcAddr get = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
  const PFN_vkGetInstanceProcAddr get_next = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
  link->u.pLayerInfo = link->u.pLayerInfo->pNext;
  const auto create = reinterpret_cast<PFN_vkCreateDevice>(get_next(next.instance, "vkCreateDevice"));

  // Godot's chain with Pumice's features in it. Where Pumice cannot use the device, it is made as Godot
  // wants.
  VkDeviceCreateInfo changed = *info;
  std::vector<const char*> extensions(info->ppEnabledExtensionNames,
                                      info->ppEnabledExtensionNames + info->enabledExtensionCount);
  pumice_features* alone = features_of(next, physical_device, nullptr);
  pumice_features* added =
      alone ? features_of(next, physical_device, const_cast<void*>(info->pNext)) : nullptr;
  if (added) {
    changed.pNext = pumice_features_chain(added);
    uint32_t count = 0;
    const char* const* names = pumice_features_extensions(added, &count);
    for (uint32_t i = 0; i < count; ++i) {
      bool there = false;
      for (const char* name : extensions) there = there || std::strcmp(name, names[i]) == 0;
      if (!there) extensions.push_back(names[i]);
    }
    changed.enabledExtensionCount = static_cast<uint32_t>(extensions.size());
    changed.ppEnabledExtensionNames = extensions.data();
  }
  VkResult result = create(physical_device, &changed, allocator, device);
  pumice_features_destroy(added);
  if (result != VK_SUCCESS) {
    pumice_features_destroy(alone);
    return result;
  }
  NextDevice functions{};
  functions.get = get;
#define PUMICE_NEXT(field, name)                                                                             \
  functions.field = reinterpret_cast<decltype(functions.field)>(get(*device, name));
  PUMICE_NEXT(destroy, "vkDestroyDevice")
  PUMICE_NEXT(wait, "vkDeviceWaitIdle")
  PUMICE_NEXT(submit, "vkQueueSubmit")
  PUMICE_NEXT(submit_2, "vkQueueSubmit2")
  PUMICE_NEXT(submit_2_khr, "vkQueueSubmit2KHR")
  PUMICE_NEXT(wait_queue, "vkQueueWaitIdle")
  PUMICE_NEXT(bind_sparse, "vkQueueBindSparse")
  PUMICE_NEXT(present, "vkQueuePresentKHR")
#undef PUMICE_NEXT
  const std::lock_guard lock(mutex);
  devices[key(*device)] = functions;
  if (added && !enabled)
    enabled = alone;
  else
    pumice_features_destroy(alone);
  return result;
}

VKAPI_ATTR void VKAPI_CALL destroy_device(VkDevice device, const VkAllocationCallbacks* allocator) {
  if (!device) return;
  const NextDevice next = next_of(device);
  {
    const std::lock_guard lock(mutex);
    devices.erase(key(device));
  }
  next.destroy(device, allocator);
}

VKAPI_ATTR VkResult VKAPI_CALL wait_device(VkDevice device) {
  const std::lock_guard lock(queues);
  return next_of(device).wait(device);
}

VKAPI_ATTR VkResult VKAPI_CALL submit(VkQueue queue, uint32_t count, const VkSubmitInfo* infos,
                                      VkFence fence) {
  const std::lock_guard lock(queues);
  return next_of(queue).submit(queue, count, infos, fence);
}

VKAPI_ATTR VkResult VKAPI_CALL submit_2(VkQueue queue, uint32_t count, const VkSubmitInfo2* infos,
                                        VkFence fence) {
  const std::lock_guard lock(queues);
  return next_of(queue).submit_2(queue, count, infos, fence);
}

VKAPI_ATTR VkResult VKAPI_CALL submit_2_khr(VkQueue queue, uint32_t count, const VkSubmitInfo2* infos,
                                            VkFence fence) {
  const std::lock_guard lock(queues);
  return next_of(queue).submit_2_khr(queue, count, infos, fence);
}

VKAPI_ATTR VkResult VKAPI_CALL wait_queue(VkQueue queue) {
  const std::lock_guard lock(queues);
  return next_of(queue).wait_queue(queue);
}

VKAPI_ATTR VkResult VKAPI_CALL bind_sparse(VkQueue queue, uint32_t count, const VkBindSparseInfo* infos,
                                           VkFence fence) {
  const std::lock_guard lock(queues);
  return next_of(queue).bind_sparse(queue, count, infos, fence);
}

VKAPI_ATTR VkResult VKAPI_CALL present(VkQueue queue, const VkPresentInfoKHR* info) {
  const std::lock_guard lock(queues);
  return next_of(queue).present(queue, info);
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_device_function(VkDevice device, const char* name);
VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_instance_function(VkInstance instance, const char* name);

struct Entry {
  const char* name;
  PFN_vkVoidFunction function;
};

#define PUMICE_ENTRY(name, function)                                                                         \
  { name, reinterpret_cast<PFN_vkVoidFunction>(function) }
const Entry device_entries[] = {PUMICE_ENTRY("vkGetDeviceProcAddr", get_device_function),
                                PUMICE_ENTRY("vkDestroyDevice", destroy_device),
                                PUMICE_ENTRY("vkDeviceWaitIdle", wait_device),
                                PUMICE_ENTRY("vkQueueSubmit", submit),
                                PUMICE_ENTRY("vkQueueSubmit2", submit_2),
                                PUMICE_ENTRY("vkQueueSubmit2KHR", submit_2_khr),
                                PUMICE_ENTRY("vkQueueWaitIdle", wait_queue),
                                PUMICE_ENTRY("vkQueueBindSparse", bind_sparse),
                                PUMICE_ENTRY("vkQueuePresentKHR", present)};
const Entry instance_entries[] = {PUMICE_ENTRY("vkGetInstanceProcAddr", get_instance_function),
                                  PUMICE_ENTRY("vkCreateInstance", create_instance),
                                  PUMICE_ENTRY("vkDestroyInstance", destroy_instance),
                                  PUMICE_ENTRY("vkCreateDevice", create_device)};
#undef PUMICE_ENTRY

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_device_function(VkDevice device, const char* name) {
  const PFN_vkVoidFunction next = next_of(device).get(device, name);
  if (!next) return nullptr; // of an extension that is not there
  for (const Entry& entry : device_entries)
    if (std::strcmp(entry.name, name) == 0) return entry.function;
  return next;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_instance_function(VkInstance instance, const char* name) {
  for (const Entry& entry : instance_entries)
    if (std::strcmp(entry.name, name) == 0) return entry.function;
  if (!instance) return nullptr;
  PFN_vkGetInstanceProcAddr get;
  {
    const std::lock_guard lock(mutex);
    get = instances.at(key(instance)).get;
  }
  const PFN_vkVoidFunction next = get(instance, name);
  if (!next) return nullptr;
  for (const Entry& entry : device_entries)
    if (std::strcmp(entry.name, name) == 0) return entry.function;
  return next;
}

std::string folder; // of the layer's description, while the loader may read it

std::string own_path() {
  Dl_info info{};
  return dladdr(reinterpret_cast<const void*>(&announce), &info) && info.dli_fname ? info.dli_fname : "";
}

// Puts a value before those that a variable has, and remembers what it was.
struct Variable {
  const char* name;
  bool was_set = false;
  std::string before = {};

  void put(const std::string& value) {
    const char* old = std::getenv(name);
    was_set = old != nullptr;
    before = old ? old : "";
    setenv(name, (was_set && !before.empty() ? value + ":" + before : value).c_str(), 1);
  }
  void take_back() const { was_set ? setenv(name, before.c_str(), 1) : unsetenv(name); }
};
Variable layers{"VK_INSTANCE_LAYERS"}, paths{"VK_ADD_LAYER_PATH"};

} // namespace

extern "C" __attribute__((visibility("default"))) VKAPI_ATTR VkResult VKAPI_CALL
pumice_negotiate_layer(VkNegotiateLayerInterface* version) {
  if (version->loaderLayerInterfaceVersion < 2) return VK_ERROR_INITIALIZATION_FAILED;
  version->loaderLayerInterfaceVersion = 2;
  version->pfnGetInstanceProcAddr = get_instance_function;
  version->pfnGetDeviceProcAddr = get_device_function;
  version->pfnGetPhysicalDeviceProcAddr = nullptr;
  return VK_SUCCESS;
}

void announce() {
  const char* temporary = std::getenv("TMPDIR");
  std::string name = std::string(temporary ? temporary : "/tmp") + "/pumice-XXXXXX";
  const std::string library = own_path();
  if (library.empty() || !mkdtemp(name.data())) return;
  std::FILE* file = std::fopen((name + "/layer.json").c_str(), "w");
  if (!file) {
    rmdir(name.c_str());
    return;
  }
  std::fprintf(file,
               "{\"file_format_version\": \"1.2.0\", \"layer\": {\"name\": \"%s\", \"type\": \"GLOBAL\", "
               "\"library_path\": \"%s\", \"api_version\": \"1.3.0\", \"implementation_version\": \"1\", "
               "\"description\": \"lets Pumice use the engine's device\", "
               "\"functions\": {\"vkNegotiateLoaderLayerInterfaceVersion\": \"pumice_negotiate_layer\"}}}\n",
               layer_name, library.c_str());
  std::fclose(file);
  folder = name;
  layers.put(layer_name);
  paths.put(folder);
}

void withdraw() {
  if (folder.empty()) return;
  layers.take_back();
  paths.take_back();
  unlink((folder + "/layer.json").c_str());
  rmdir(folder.c_str());
  folder.clear();
}

bool hooked() {
  const std::lock_guard lock(mutex);
  return enabled && !devices.empty();
}

pumice_get_instance_proc_addr get_instance_proc_addr() {
  void* loader = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
  return loader ? reinterpret_cast<pumice_get_instance_proc_addr>(dlsym(loader, "vkGetInstanceProcAddr"))
                : nullptr;
}

const void* features() {
  return pumice_features_chain(enabled);
}

const char* const* extensions(uint32_t* count) {
  return pumice_features_extensions(enabled, count);
}

} // namespace godot::layer

#else

// Only tried on Linux. Elsewhere models are on a device of their own.
namespace godot::layer {

void announce() {}
void withdraw() {}
bool hooked() {
  return false;
}
pumice_get_instance_proc_addr get_instance_proc_addr() {
  return nullptr;
}
const void* features() {
  return nullptr;
}
const char* const* extensions(uint32_t* count) {
  return *count = 0, nullptr;
}

} // namespace godot::layer

#endif
