#pragma once

#include "gpu/pipelines.h"
#include "kernel/ceilings.h"
#include "kernel/device_profile.h"

namespace pumice {

// Chooses the kernels' profile for a device: by its properties, and on CPU drivers by timing two ways to
// load, which differ tenfold one way or the other between versions of the same driver. What was measured is
// kept among the tuning results of the device and not measured again; the choices among them are the
// profile's.
Result<DeviceProfile> choose_profile(const std::shared_ptr<Device>& device,
                                     const std::shared_ptr<Pipelines>& pipelines);

// Measures the ceilings and raises those that are known to what it finds.
Result<Ceilings> measure_ceilings(const std::shared_ptr<Device>& device,
                                  const std::shared_ptr<Pipelines>& pipelines);
// Those that are known; measures where none are.
Result<Ceilings> known_ceilings(const std::shared_ptr<Device>& device,
                                const std::shared_ptr<Pipelines>& pipelines);
// The greater of what is known and what was reached now, which is kept among the tuning results of the
// device: a busy machine only ever shows less than the device can do.
Ceilings raise_ceilings(Pipelines& pipelines, Ceilings reached);

} // namespace pumice
