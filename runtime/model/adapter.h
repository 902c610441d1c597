#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/tensor_type.h"
#include "kernel/adapter/adapter_packing.h"
#include "model/architecture.h"
#include "plan/adapters.h"

namespace pumice {

struct AdapterChoice;

// A low-rank adapter of a model, in the host's memory. Any number of sessions share it; each has a copy on
// its device while a text uses it. Immutable.
class Adapter {
public:
  // Reads what AdapterFile::read() does, and finds the model's matrices, whichever of its two forms the names
  // are of. What does not fit the model is an error that names the tensor.
  static Result<std::shared_ptr<const Adapter>>
  load(const std::filesystem::path& path, const ModelDefinition& definition, const ModelFile& file);

  const std::map<AdapterTarget, AdapterMatrix>& matrices() const { return matrices_; }
  uint32_t rank() const { return rank_; }         // the largest
  TensorType numbers() const { return numbers_; } // of all matrices: F16, BF16, or otherwise F32
  const std::string& path() const { return path_; }

private:
  friend AdapterChoice combined(std::span<const AdapterChoice> choices);

  std::string path_;
  uint32_t rank_ = 0;
  TensorType numbers_ = TensorType::f32;
  std::map<AdapterTarget, AdapterMatrix> matrices_;
};

// The adapter of a text, and how much of it is added.
struct AdapterChoice {
  std::shared_ptr<const Adapter> adapter; // null: none
  float scale = 1;

  bool operator==(const AdapterChoice& other) const {
    return adapter == other.adapter && (!adapter || scale == other.scale);
  }
};

// Several together, as one: what they add is added up. Of a single one, that itself.
AdapterChoice combined(std::span<const AdapterChoice> choices);

// The room that these need, so many at a time. Where all have 16-bit numbers of one type, it is for such.
std::shared_ptr<const AdapterRoom> room_for(std::span<const std::shared_ptr<const Adapter>> adapters,
                                            uint32_t places);
// An error if an adapter does not fit.
Status check_room(const Adapter& adapter, const AdapterRoom& room);
// An error if the scale is no number that can be used.
Status check_scale(float scale);

} // namespace pumice
