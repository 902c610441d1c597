#include "recording/plan_outputs.h"

namespace pumice {

Result<PlanOutputs> PlanOutputs::create(const std::shared_ptr<Device>& device, uint64_t bytes,
                                        const char* name) {
  PlanOutputs outputs;
  const bool unified = device->capabilities().unified_memory;
  PUMICE_TRY(outputs.written_,
             Buffer::create(device, bytes, unified ? MemoryUse::readback : MemoryUse::device, name));
  if (!unified) {
    PUMICE_TRY(outputs.host_, Buffer::create(device, bytes, MemoryUse::readback, name));
  }
  return outputs;
}

Result<uint64_t> PlanOutputs::memory_needed(const Device& device, uint64_t bytes) {
  PUMICE_TRY(const uint64_t one, Buffer::memory_needed(device, bytes));
  return device.capabilities().unified_memory ? one : 2 * one;
}

std::vector<BufferCopy> PlanOutputs::copies(const Plan& plan) const {
  if (!host_ || plan.output_bytes == 0) return {};
  return {{written_.handle(), host_.handle(), {0, 0, plan.output_bytes}}};
}

} // namespace pumice
