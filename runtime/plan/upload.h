#pragma once

#include <vector>

#include "base/progress.h"
#include "gpu/buffer.h"
#include "plan/weight_store.h"

namespace pumice {

// Device memory of an upload, before it is begun.
struct UploadBytes {
  uint64_t weights = 0;
  uint64_t staging = 0; // given back when it is over
};
Result<UploadBytes> upload_bytes(const Device& device, const WeightStore& store);

// Allocates what the store has placed and fills it from the model file, packing each tile on the way:
// straight into the device's memory where the host can reach it, else through a ring of two staging buffers,
// one being filled while the other is copied. The host never holds a second copy of the weights. Returns the
// allocations in their order. Progress counts bytes on the device. At most `threads` threads pack, the caller
// among them; 0: as many as the host can run.
Result<std::vector<Buffer>> upload_weights(const std::shared_ptr<Device>& device, const WeightStore& store,
                                           const Progress& progress, size_t threads = 0);

} // namespace pumice
