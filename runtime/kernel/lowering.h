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
#include "kernel/step_layout.h"

namespace pumice {

// What an operation sees of the plan while it turns itself into kernel launches.
class Lowering {
public:
  virtual ~Lowering() = default;

  virtual const DeviceProfile& profile() const = 0;
  virtual const Graph& graph() const = 0;
  virtual ActivationRef tensor(TensorId id) const = 0;

  // The matrix that the weights' rows make one after the other ([rows, columns] each, of one type, each
  // beginning at a multiple of merged_columns rows), or with `alternating` tiles of two matrices of one
  // shape in turn, of each two if there are more, each two beginning at such a multiple. Packed once, whoever
  // asks.
  virtual Result<PackedWeight> matrix(std::span<const WeightId> weights, bool alternating = false) = 0;
  // The weights' elements one after the other as floats, each beginning at a multiple of merged_columns and
  // the whole padded with zeros to a multiple of 32; with `alternating`, eight of the first, eight of the
  // second, and so on.
  virtual Result<BufferRef> vector(std::span<const WeightId> weights, bool alternating = false) = 0;
  Result<BufferRef> vector(WeightId weight) { return vector(std::span(&weight, 1)); }
  // Numbers that belong to an operation rather than to the file, such as rotary frequencies.
  virtual Result<BufferRef> constants(const std::string& key, std::span<const float> values) = 0;

  virtual CacheRef cache(uint32_t layer) = 0;
  virtual uint32_t context() const = 0; // positions of one sequence
  virtual BufferRef step() const = 0;   // the step block
  virtual const StepLayout& step_layout() const = 0;
  uint32_t step_capacity() const { return step_layout().capacity; } // rows that fit the step block
  virtual BufferRef sampling() const = 0;          // sampling's state, see kernel/sampling/sampling.h
  virtual BufferRef temporary(uint64_t bytes) = 0; // scratch that lasts as long as this node

  virtual void emit(Dispatch dispatch) = 0;
  // What is emitted between the two is what was chosen.
  virtual void begin_choice(VariantChoice) {}
  virtual void end_choice() {}
};

} // namespace pumice
