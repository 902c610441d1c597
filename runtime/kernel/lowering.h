#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "kernel/activation_ref.h"
#include "kernel/cache_layout.h"
#include "kernel/choices.h"
#include "kernel/device_profile.h"
#include "kernel/dispatch.h"
#include "kernel/packed_weight.h"
#include "kernel/state_layout.h"
#include "kernel/step_layout.h"

namespace pumice {

// The interface of a plan to an operation that emits its kernel launches.
class Lowering {
public:
  virtual ~Lowering() = default;

  virtual const DeviceProfile& profile() const = 0;
  virtual const Graph& graph() const = 0;
  virtual ActivationRef tensor(TensorId id) const = 0;

  // Several weights ([rows, columns] each, of one type) packed as one matrix, one after the other; each
  // begins at a multiple of merged_columns rows. With `alternating` the tiles of two weights of one shape
  // alternate; of more than two weights, those of each pair, and each pair begins at such a multiple. A
  // matrix is packed only once.
  virtual Result<PackedWeight> matrix(std::span<const WeightId> weights, bool alternating = false) = 0;
  // The same for the matrices of experts, of which a step reads only some: they may lie in the host's memory.
  virtual Result<PackedWeight> expert_matrix(std::span<const WeightId> weights, bool alternating) = 0;
  // The weights' elements one after the other as floats. Each weight begins at a multiple of merged_columns,
  // and the end is padded with zeros to a multiple of 32. With `alternating`: eight of the first, eight of
  // the second, ...
  virtual Result<BufferRef> vector(std::span<const WeightId> weights, bool alternating = false) = 0;
  Result<BufferRef> vector(WeightId weight) { return vector(std::span(&weight, 1)); }
  // Constants that are computed, not read from the model's file, such as rotary frequencies.
  virtual Result<BufferRef> constants(const std::string& key, std::span<const float> values) = 0;

  virtual CacheRef cache(uint32_t layer) = 0;
  virtual StateRef state(uint32_t index) = 0; // of ModelShape::states
  virtual uint32_t context() const = 0;       // positions of one sequence
  virtual BufferRef step() const = 0;         // the step block
  virtual const StepLayout& step_layout() const = 0;
  uint32_t step_capacity() const { return step_layout().capacity; } // rows that fit the step block
  virtual BufferRef sampling() const = 0;          // sampling's state, see kernel/sampling/sampling.h
  virtual BufferRef temporary(uint64_t bytes) = 0; // scratch that lasts as long as this node
  virtual BufferRef counters() = 0;                // StepLayout::counters

  virtual void emit(Dispatch dispatch) = 0;
  // What is emitted between the two is what was chosen.
  virtual void begin_choice(VariantChoice) {}
  virtual void end_choice() {}
};

} // namespace pumice
