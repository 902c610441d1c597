#pragma once

#include "gpu/pipelines.h"
#include "kernel/style.h"

namespace pumice {

// Chooses the kernels' style for a device: by its properties, and on CPU drivers by timing two ways to load,
// which differ tenfold one way or the other between versions of the same driver.
Result<KernelStyle> choose_style(const std::shared_ptr<Device>& device,
                                 const std::shared_ptr<Pipelines>& pipelines);

// What the device reaches with kernels that do nothing else: the roof that results are held against.
struct Ceilings {
  double copy_bytes_per_second = 0; // read plus written
  double flops_per_second = 0;      // fused multiply-adds in 32 bits count two
};
Result<Ceilings> measure_ceilings(const std::shared_ptr<Device>& device,
                                  const std::shared_ptr<Pipelines>& pipelines);

} // namespace pumice
