#pragma once

#include "gpu/pipelines.h"
#include "kernel/ceilings.h"
#include "kernel/device_profile.h"

namespace pumice {

// Makes the profile of a device: from its properties, and on CPU drivers by timing two ways to load. Which of
// the two is faster, by up to ten times, depends on the driver's version. Of a GPU that does not say how many
// cores it has, they are counted (kernel/probe/core_count.h). What was measured is kept among the device's
// tuning results and not repeated. The profile's choices and speed come from the tuning results too.
Result<DeviceProfile> choose_profile(const std::shared_ptr<Device>& device,
                                     const std::shared_ptr<Pipelines>& pipelines);

// Counts the cores of a GPU (kernel/probe/core_count.h). 0: their times do not show them.
Result<uint32_t> probe_cores(const std::shared_ptr<Device>& device,
                             const std::shared_ptr<Pipelines>& pipelines);

// What a device's properties say of its profile, before anything is measured.
DeviceProfile untuned_profile(const Capabilities& device);

// The profile with the choices, the blocklist and the speed that are known of the device now.
DeviceProfile with_tuning_results(DeviceProfile profile, const Pipelines& pipelines);

// Measures the ceilings. Returns the higher of the known and the measured ones, and stores them.
Result<Ceilings> measure_ceilings(const std::shared_ptr<Device>& device,
                                  const std::shared_ptr<Pipelines>& pipelines);
// The ceilings that are stored for the device; measures them if there are none.
Result<Ceilings> known_ceilings(const std::shared_ptr<Device>& device,
                                const std::shared_ptr<Pipelines>& pipelines);
// The same, but measures again if that was an hour ago or more: the machine may have been busy then.
Result<Ceilings> recent_ceilings(const std::shared_ptr<Device>& device,
                                 const std::shared_ptr<Pipelines>& pipelines);
// Raises the stored ceilings to the rates that were reached now, and returns them. They never go down: on a
// busy machine rates are lower than the device can reach.
Ceilings raise_ceilings(Pipelines& pipelines, const Ceilings& reached);

} // namespace pumice
