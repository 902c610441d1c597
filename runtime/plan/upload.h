#pragma once

#include <vector>

#include "base/progress.h"
#include "gpu/buffer.h"
#include "plan/upload_pace.h"
#include "plan/weight_store.h"

namespace pumice {

// Memory that an upload will take.
struct UploadBytes {
  uint64_t weights = 0; // of the device
  uint64_t host = 0;    // of the host, for weights that lie there
  uint64_t staging = 0; // of the device; freed when the upload is done
};
Result<UploadBytes> upload_bytes(const Device& device, const WeightStore& store,
                                 const UploadBudget& budget = {});

// Whether ExpertPlacement::automatic leaves the experts in the host's memory: `weights`, all together, leave
// less than an eighth of the device's free memory to sessions, and the host's memory is another one.
constexpr bool experts_leave_device(uint64_t weights, uint64_t available, bool unified_memory) {
  return !unified_memory && weights > available - available / 8;
}

// Allocates the memory of all weights that the store has placed, and fills it from the model file; each tile
// is packed on the way. Where the host can map the device's memory, it writes there directly; otherwise
// through two staging buffers: one is filled while the other is copied. The host never holds a second copy of
// the weights. Returns the allocations in their order. Progress counts bytes on the device. At most `threads`
// threads pack, the caller among them; 0: as many as the host can run. With a budget there is one staging
// buffer, and what was copied before is done whenever progress is reported.
Result<std::vector<Buffer>> upload_weights(const std::shared_ptr<Device>& device, const WeightStore& store,
                                           const Progress& progress, size_t threads = 0,
                                           const UploadBudget& budget = {});

} // namespace pumice
