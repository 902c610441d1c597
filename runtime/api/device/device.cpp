#include <fmt/format.h>

#include "api/call.h"
#include "api/handles.h"
#include "api/tune.h"
#include "gpu/known_drivers.h"
#include "kernel/probe/open_device.h"

using namespace pumice;
using namespace pumice::api;

namespace {

Allocator allocator_of(const pumice_allocator& functions) {
  Allocator allocator;
  allocator.allocate = [functions](const MemoryRequest& request) -> Result<DeviceMemory> {
    const pumice_memory_request asked{request.bytes,       request.alignment,    request.memory_type_bits,
                                      request.memory_type, request.host_visible, request.device_address};
    pumice_memory memory = {};
    const pumice_status status = functions.allocate(functions.user, &asked, &memory);
    if (status == PUMICE_OK) return DeviceMemory{memory.memory, memory.offset, memory.handle};
    return Error{to_code(status), fmt::format("the application's allocator refused {} bytes: {}",
                                              request.bytes, pumice_status_name(status))};
  };
  allocator.free = [functions](const DeviceMemory& memory) {
    const pumice_memory range{memory.memory, memory.offset, memory.handle};
    functions.free(functions.user, &range);
  };
  allocator.map = [functions](const DeviceMemory& memory) -> void* {
    const pumice_memory range{memory.memory, memory.offset, memory.handle};
    return functions.map ? functions.map(functions.user, &range) : nullptr;
  };
  return allocator;
}

Result<DeviceOptions> device_options(const pumice_device_options& options) {
  DeviceOptions result;
  result.memory_limit = options.memory_limit;
  if (!(options.queue_priority >= 0 && options.queue_priority <= 1)) {
    return Error{Code::invalid_argument,
                 fmt::format("options.queue_priority is {}: expected 0 to 1", options.queue_priority)};
  }
  if (options.queue_priority != 0) result.queue_priority = options.queue_priority;
  const int priority = number_in(options.global_priority);
  if (priority < PUMICE_PRIORITY_DEFAULT || priority > PUMICE_PRIORITY_REALTIME) {
    return Error{Code::invalid_argument,
                 fmt::format("options.global_priority is {}: expected one of pumice_priority", priority)};
  }
  result.global_priority = static_cast<GlobalPriority>(priority);
  if (!options.allocator) return result;
  PUMICE_TRY(const pumice_allocator allocator, read(options.allocator, "options.allocator"));
  if (!allocator.allocate) return null_argument("options.allocator->allocate");
  if (!allocator.free) return null_argument("options.allocator->free");
  result.allocator = allocator_of(allocator);
  return result;
}

std::function<Status(const Submission&, uint32_t)> submit_of(const pumice_vulkan& vulkan) {
  if (!vulkan.submit) return {};
  return [vulkan](const Submission& submission, uint32_t family) -> Status {
    const auto count = [](const auto& all) { return static_cast<uint32_t>(all.size()); };
    const pumice_submission given{sizeof(pumice_submission),  submission.commands.data(),
                                  submission.wait.data(),     submission.wait_values.data(),
                                  submission.signal.data(),   submission.signal_values.data(),
                                  count(submission.commands), count(submission.wait),
                                  count(submission.signal),   family};
    const pumice_status status = vulkan.submit(vulkan.submit_user, &given);
    if (status == PUMICE_OK) return {};
    return Error{to_code(status),
                 fmt::format("the application did not submit: {}", pumice_status_name(status))};
  };
}

Result<ExternalDevice> external_device(const pumice_vulkan& vulkan) {
  ExternalDevice host;
  host.get_instance_proc_addr = reinterpret_cast<PFN_vkGetInstanceProcAddr>(vulkan.get_instance_proc_addr);
  host.instance = vulkan.instance;
  host.physical_device = vulkan.physical_device;
  host.device = vulkan.device;
  host.queue_family = vulkan.queue_family;
  host.queue = vulkan.queue;
  host.features = vulkan.features;
  host.extensions = {vulkan.extensions, vulkan.extensions ? vulkan.extension_count : 0};
  if (vulkan.lock_queue) host.lock_queue = [vulkan] { vulkan.lock_queue(vulkan.lock_user); };
  if (vulkan.unlock_queue) host.unlock_queue = [vulkan] { vulkan.unlock_queue(vulkan.lock_user); };
  host.submit = submit_of(vulkan);
  if (vulkan.has_copy_queue > 1) {
    return Error{Code::invalid_argument,
                 fmt::format("options.vulkan->has_copy_queue is {}: expected 0 or 1", vulkan.has_copy_queue)};
  }
  if (vulkan.has_copy_queue == 0) return host;
  if (!vulkan.copy_queue && !vulkan.submit) return null_argument("options.vulkan->copy_queue");
  host.copy_queue = vulkan.copy_queue;
  host.copy_queue_family = vulkan.copy_queue_family;
  return host;
}

Result<std::shared_ptr<Device>> own_device(const pumice_device_options& options,
                                           const DeviceOptions& device_options,
                                           const std::shared_ptr<const Log>& log) {
  InstanceOptions instance_options;
  instance_options.validate = options.validate;
  instance_options.validation_log = [log](const std::string& message) {
    log->say(PUMICE_LOG_WARNING, message);
  };
  instance_options.table.vkGetInstanceProcAddr =
      reinterpret_cast<PFN_vkGetInstanceProcAddr>(options.get_instance_proc_addr);
  PUMICE_TRY(std::shared_ptr<Instance> instance, Instance::create(std::move(instance_options)));
  PUMICE_TRY(const Capabilities chosen, instance->choose(options.device ? options.device : ""));
  return Device::create(std::move(instance), chosen, device_options);
}

} // namespace

void pumice::api::save_pipelines(const DeviceContext& context, const Log& log) {
  if (const Status saved = context.pipelines->save(); !saved.ok()) {
    log.say(PUMICE_LOG_WARNING, saved.error().text());
  }
}

extern "C" {

pumice_status pumice_device_create(const pumice_device_options* caller_options, pumice_device** device,
                                   pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE(device);
    *device = nullptr;
    PUMICE_TRY(const pumice_device_options options, read(caller_options, "options"));
    PUMICE_TRY(const DeviceOptions device_options, device_options(options));
    PUMICE_CHECK(check_array(options.tuning, options.tuning_bytes, 1, "options.tuning"));
    if (options.tuning_file && options.tuning_bytes > 0) {
      return Error{Code::invalid_argument, "options has both tuning_file and tuning: set one of them"};
    }
    auto handle = std::make_unique<pumice_device>();
    handle->log = std::make_shared<const Log>(options.log, options.log_user);
    std::shared_ptr<Device> opened;
    if (options.vulkan) {
      PUMICE_TRY(const pumice_vulkan vulkan, read(options.vulkan, "options.vulkan"));
      PUMICE_CHECK(check_array(vulkan.extensions, vulkan.extension_count, sizeof(char*),
                               "options.vulkan->extensions"));
      PUMICE_TRY(const ExternalDevice external, external_device(vulkan));
      PUMICE_TRY(opened, Device::adopt(external, {}, device_options));
    } else {
      PUMICE_TRY(opened, own_device(options, device_options, handle->log));
    }
    for (const std::string& note : opened->notes()) handle->log->say(PUMICE_LOG_WARNING, note);
    const TuningResults shipped = shipped_results(options, opened->capabilities(), *handle->log);
    PUMICE_TRY(
        handle->context,
        open_device(std::move(opened), path_of(options.cache_folder ? options.cache_folder : ""), shipped));
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
  if (!is_live(device)) return;
  (void)call(nullptr, [&]() -> Status {
    save_pipelines(device->context, *device->log);
    return {};
  });
  delete device;
}

pumice_status pumice_device_vulkan(const pumice_device* device, pumice_vulkan* vulkan, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(device);
    PUMICE_REQUIRE(vulkan);
    Device& vulkan_device = *device->context.device;
    pumice_vulkan handles = {sizeof handles};
    handles.get_instance_proc_addr =
        reinterpret_cast<pumice_get_instance_proc_addr>(vulkan_device.table().vkGetInstanceProcAddr);
    handles.instance = vulkan_device.instance();
    handles.physical_device = vulkan_device.capabilities().handle;
    handles.device = vulkan_device.handle();
    handles.queue_family = static_cast<uint32_t>(vulkan_device.capabilities().compute_queue_family);
    handles.queue = vulkan_device.queue().handle();
    handles.lock_user = &vulkan_device;
    handles.lock_queue = [](void* user) { static_cast<Device*>(user)->queue().lock(); };
    handles.unlock_queue = [](void* user) { static_cast<Device*>(user)->queue().unlock(); };
    return write(handles, vulkan, "vulkan");
  });
}

const char* pumice_device_name(const pumice_device* device) {
  return is_live(device) ? device->context.device->capabilities().name.c_str() : "";
}

pumice_status pumice_device_memory(const pumice_device* device, pumice_memory_report* report,
                                   pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(device);
    PUMICE_REQUIRE(report);
    const MemoryReport memory = device->context.device->memory();
    return write({sizeof(pumice_memory_report), memory.allocated, memory.peak, memory.limit, memory.heap,
                  memory.available},
                 report, "report");
  });
}

} // extern "C"
