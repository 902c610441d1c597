#include <fmt/format.h>

#include "api/call.h"
#include "api/handles.h"
#include "api/tune.h"
#include "gpu/known_drivers.h"
#include "kernel/probe/open_device.h"

using namespace pumice;
using namespace pumice::api;

namespace {

Allocator allocator_of(const pumice_allocator& given) {
  Allocator allocator;
  allocator.allocate = [given](const MemoryRequest& request) -> Result<DeviceMemory> {
    const pumice_memory_request asked{request.bytes,       request.alignment,    request.memory_type_bits,
                                      request.memory_type, request.host_visible, request.device_address};
    pumice_memory memory = {};
    const pumice_status status = given.allocate(given.user, &asked, &memory);
    if (status == PUMICE_OK) return DeviceMemory{memory.memory, memory.offset, memory.handle};
    return Error{to_code(status), fmt::format("the application's allocator refused {} bytes: {}",
                                              request.bytes, pumice_status_name(status))};
  };
  allocator.free = [given](const DeviceMemory& memory) {
    const pumice_memory range{memory.memory, memory.offset, memory.handle};
    given.free(given.user, &range);
  };
  allocator.map = [given](const DeviceMemory& memory) -> void* {
    const pumice_memory range{memory.memory, memory.offset, memory.handle};
    return given.map ? given.map(given.user, &range) : nullptr;
  };
  return allocator;
}

Result<DeviceOptions> device_options(const pumice_device_options& given) {
  DeviceOptions options;
  options.memory_limit = given.memory_limit;
  if (!(given.queue_priority >= 0 && given.queue_priority <= 1)) {
    return Error{Code::invalid_argument,
                 fmt::format("options.queue_priority is {}: expected 0 to 1", given.queue_priority)};
  }
  if (given.queue_priority != 0) options.queue_priority = given.queue_priority;
  const int priority = number_in(given.global_priority);
  if (priority < PUMICE_PRIORITY_DEFAULT || priority > PUMICE_PRIORITY_REALTIME) {
    return Error{Code::invalid_argument,
                 fmt::format("options.global_priority is {}: expected one of pumice_priority", priority)};
  }
  options.global_priority = static_cast<GlobalPriority>(priority);
  if (!given.allocator) return options;
  PUMICE_TRY(const pumice_allocator allocator, read(given.allocator, "options.allocator"));
  if (!allocator.allocate) return null_argument("options.allocator->allocate");
  if (!allocator.free) return null_argument("options.allocator->free");
  options.allocator = allocator_of(allocator);
  return options;
}

ExternalDevice external_device(const pumice_vulkan& given) {
  ExternalDevice host;
  host.get_instance_proc_addr = reinterpret_cast<PFN_vkGetInstanceProcAddr>(given.get_instance_proc_addr);
  host.instance = given.instance;
  host.physical_device = given.physical_device;
  host.device = given.device;
  host.queue_family = given.queue_family;
  host.queue = given.queue;
  host.features = given.features;
  host.extensions = {given.extensions, given.extensions ? given.extension_count : 0};
  if (given.lock_queue) host.lock_queue = [given] { given.lock_queue(given.lock_user); };
  if (given.unlock_queue) host.unlock_queue = [given] { given.unlock_queue(given.lock_user); };
  return host;
}

Result<std::shared_ptr<Device>> own_device(const pumice_device_options& given, const DeviceOptions& options,
                                           const std::shared_ptr<const Log>& log) {
  InstanceOptions instance_options;
  instance_options.validate = given.validate;
  instance_options.validation_log = [log](const std::string& message) {
    log->say(PUMICE_LOG_WARNING, message);
  };
  instance_options.table.vkGetInstanceProcAddr =
      reinterpret_cast<PFN_vkGetInstanceProcAddr>(given.get_instance_proc_addr);
  PUMICE_TRY(std::shared_ptr<Instance> instance, Instance::create(std::move(instance_options)));
  PUMICE_TRY(const Capabilities chosen, instance->choose(given.device ? given.device : ""));
  return Device::create(std::move(instance), chosen, options);
}

} // namespace

void pumice::api::save_pipelines(const DeviceContext& context, const Log& log) {
  if (const Status saved = context.pipelines->save(); !saved.ok()) {
    log.say(PUMICE_LOG_WARNING, saved.error().text());
  }
}

extern "C" {

pumice_status pumice_device_create(const pumice_device_options* options, pumice_device** device,
                                   pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE(device);
    *device = nullptr;
    PUMICE_TRY(const pumice_device_options given, read(options, "options"));
    PUMICE_TRY(const DeviceOptions own, device_options(given));
    PUMICE_CHECK(check_array(given.tuning, given.tuning_bytes, 1, "options.tuning"));
    if (given.tuning_file && given.tuning_bytes > 0) {
      return Error{Code::invalid_argument, "options has both tuning_file and tuning: set one of them"};
    }
    auto handle = std::make_unique<pumice_device>();
    handle->log = std::make_shared<const Log>(given.log, given.log_user);
    std::shared_ptr<Device> opened;
    if (given.vulkan) {
      PUMICE_TRY(const pumice_vulkan vulkan, read(given.vulkan, "options.vulkan"));
      PUMICE_CHECK(check_array(vulkan.extensions, vulkan.extension_count, sizeof(char*),
                               "options.vulkan->extensions"));
      PUMICE_TRY(opened, Device::adopt(external_device(vulkan), {}, own));
    } else {
      PUMICE_TRY(opened, own_device(given, own, handle->log));
    }
    for (const std::string& note : opened->notes()) handle->log->say(PUMICE_LOG_WARNING, note);
    const TuningResults shipped = shipped_results(given, opened->capabilities(), *handle->log);
    PUMICE_TRY(handle->context, open_device(std::move(opened),
                                            path_of(given.cache_folder ? given.cache_folder : ""), shipped));
    const Capabilities& capabilities = handle->context.device->capabilities();
    handle->log->say(PUMICE_LOG_INFO, fmt::format("{} ({}, {})", capabilities.name, capabilities.driver,
                                                  capabilities.driver_version));
    for (const KnownDriver& fault : known_faults(capabilities)) {
      handle->log->say(PUMICE_LOG_INFO, fault.text());
    }
    for (const std::string& note : newly_blocked(*handle->context.pipelines)) {
      handle->log->say(PUMICE_LOG_WARNING, note);
    }
    *device = handle.release();
    return {};
  });
}

void pumice_device_destroy(pumice_device* device) {
  if (!device) return;
  (void)call(nullptr, [&]() -> Status {
    save_pipelines(device->context, *device->log);
    return {};
  });
  delete device;
}

pumice_status pumice_device_vulkan(const pumice_device* device, pumice_vulkan* vulkan, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE(device);
    PUMICE_REQUIRE(vulkan);
    Device& own = *device->context.device;
    pumice_vulkan handles = {sizeof handles};
    handles.get_instance_proc_addr =
        reinterpret_cast<pumice_get_instance_proc_addr>(own.table().vkGetInstanceProcAddr);
    handles.instance = own.instance();
    handles.physical_device = own.capabilities().handle;
    handles.device = own.handle();
    handles.queue_family = static_cast<uint32_t>(own.capabilities().compute_queue_family);
    handles.queue = own.queue().handle();
    handles.lock_user = &own;
    handles.lock_queue = [](void* user) { static_cast<Device*>(user)->queue().lock(); };
    handles.unlock_queue = [](void* user) { static_cast<Device*>(user)->queue().unlock(); };
    return write(handles, vulkan, "vulkan");
  });
}

const char* pumice_device_name(const pumice_device* device) {
  return device ? device->context.device->capabilities().name.c_str() : "";
}

pumice_status pumice_device_memory(const pumice_device* device, pumice_memory_report* report,
                                   pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE(device);
    PUMICE_REQUIRE(report);
    const MemoryReport own = device->context.device->memory();
    return write({sizeof(pumice_memory_report), own.allocated, own.peak, own.limit, own.heap, own.available},
                 report, "report");
  });
}

} // extern "C"
