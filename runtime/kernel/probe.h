#pragma once

#include "gpu/pipelines.h"
#include "kernel/ceilings.h"
#include "kernel/style.h"

namespace pumice {

// Chooses the kernels' style for a device: by its properties, and on CPU drivers by timing two ways to load,
// which differ tenfold one way or the other between versions of the same driver. What was measured is kept
// among the device's facts and not measured again; the choices among them are the style's.
Result<KernelStyle> choose_style(const std::shared_ptr<Device>& device,
                                 const std::shared_ptr<Pipelines>& pipelines);

Result<Ceilings> measure_ceilings(const std::shared_ptr<Device>& device,
                                  const std::shared_ptr<Pipelines>& pipelines);
// The same, kept among the device's facts.
Result<Ceilings> known_ceilings(const std::shared_ptr<Device>& device,
                                const std::shared_ptr<Pipelines>& pipelines);

} // namespace pumice
