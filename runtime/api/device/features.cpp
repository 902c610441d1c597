#include "api/call.h"
#include "api/live.h"
#include "gpu/device_features.h"
#include "gpu/instance.h"

using namespace pumice;
using namespace pumice::api;

struct pumice_features : Live<pumice_features> {
  DeviceFeatures features;
};

extern "C" {

pumice_status pumice_features_create(pumice_get_instance_proc_addr get_instance_proc_addr,
                                     VkInstance instance, VkPhysicalDevice physical_device, void* chain,
                                     pumice_features** features, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE(get_instance_proc_addr);
    PUMICE_REQUIRE(instance);
    PUMICE_REQUIRE(physical_device);
    PUMICE_REQUIRE(features);
    *features = nullptr;
    PUMICE_TRY(
        const std::shared_ptr<Instance> adopted,
        Instance::adopt(instance, reinterpret_cast<PFN_vkGetInstanceProcAddr>(get_instance_proc_addr), {}));
    Capabilities capabilities = read_capabilities(adopted->table(), physical_device, 0);
    PUMICE_CHECK(check_usable(capabilities));
    if (!capabilities.is_cpu()) read_matrices(adopted->table(), capabilities);
    *features = new pumice_features{{}, DeviceFeatures(capabilities, chain)};
    return {};
  });
}

void pumice_features_destroy(pumice_features* features) {
  destroy_live(features);
}

const void* pumice_features_chain(const pumice_features* features) {
  return is_live(features) ? features->features.chain() : nullptr;
}

const char* const* pumice_features_extensions(const pumice_features* features, uint32_t* count) {
  const bool live = is_live(features);
  if (count) *count = live ? static_cast<uint32_t>(features->features.extensions().size()) : 0;
  return live ? features->features.extensions().data() : nullptr;
}

} // extern "C"
