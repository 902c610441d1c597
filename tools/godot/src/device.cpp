#include "device.h"

#include "layer.h"

#include <mutex>

namespace godot {

namespace {

// Numbers of RenderingDevice.DriverResource.
enum Resource : int64_t { logical_device, physical_device, topmost_object, command_queue, queue_family };

// May come from any thread, and Godot's print functions may be called from any.
void log(void*, pumice_log_level level, const char* message) {
  if (level == PUMICE_LOG_WARNING) print_warning(std::string("Pumice: ") + message);
}

int64_t resource(const Variant& device, Resource which) {
  const Variant none = Variant::empty(GDEXTENSION_VARIANT_TYPE_RID);
  return device.call("get_driver_resource", static_cast<int64_t>(which), none, 0).integer();
}

std::shared_ptr<pumice_device> make(const EngineDevice* engine, const std::string& cache_folder,
                                    std::string& failure) {
  pumice_device_options options{};
  options.struct_size = sizeof options;
  options.cache_folder = cache_folder.empty() ? nullptr : cache_folder.c_str();
  options.log = log;
  pumice_vulkan vulkan{};
  if (engine) {
    vulkan.struct_size = sizeof vulkan;
    vulkan.get_instance_proc_addr = layer::get_instance_proc_addr();
    vulkan.instance = engine->instance;
    vulkan.physical_device = engine->physical_device;
    vulkan.device = engine->device;
    vulkan.queue_family = engine->queue_family;
    vulkan.queue = engine->queue;
    // What the layer has switched on in addition to what Godot asks for. The layer also keeps Godot's threads
    // and Pumice's apart where they submit, so there is no lock here.
    vulkan.features = layer::features();
    vulkan.extensions = layer::extensions(&vulkan.extension_count);
    options.vulkan = &vulkan;
  }
  pumice_device* device = nullptr;
  pumice_error error;
  if (pumice_device_create(&options, &device, &error) != PUMICE_OK) {
    failure = error.message;
    return nullptr;
  }
  return {device, pumice_device_destroy};
}

} // namespace

EngineDevice find_engine_device() {
  EngineDevice found;
  const Variant device = Variant::singleton("RenderingServer").call("get_rendering_device");
  if (!device.object() || !layer::hooked()) return found;
  found.instance = reinterpret_cast<VkInstance>(resource(device, topmost_object));
  found.physical_device = reinterpret_cast<VkPhysicalDevice>(resource(device, physical_device));
  found.device = reinterpret_cast<VkDevice>(resource(device, logical_device));
  found.queue = reinterpret_cast<VkQueue>(resource(device, command_queue));
  found.queue_family = static_cast<uint32_t>(resource(device, queue_family));
  return found;
}

std::shared_ptr<pumice_device> open_device(Where where, const EngineDevice& engine,
                                           const std::string& cache_folder, bool& is_engine_device,
                                           std::string& failure) {
  static std::mutex mutex;
  static std::weak_ptr<pumice_device> engine_device, own_device;
  const std::lock_guard lock(mutex);
  is_engine_device = false;
  if (where != Where::own && engine.device) {
    std::shared_ptr<pumice_device> device = engine_device.lock();
    if (!device) engine_device = device = make(&engine, cache_folder, failure);
    is_engine_device = device != nullptr;
    if (device || where == Where::engine) return device;
  } else if (where == Where::engine) {
    failure =
        "Godot does not draw with Vulkan here, or Pumice was loaded after its device was made: set device "
        "to Automatic or Own";
    return nullptr;
  }
  std::shared_ptr<pumice_device> device = own_device.lock();
  if (!device) own_device = device = make(nullptr, cache_folder, failure);
  return device;
}

} // namespace godot
