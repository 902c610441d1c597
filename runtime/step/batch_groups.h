#pragma once

#include <memory>
#include <span>
#include <vector>

#include "step/batch.h"

namespace pumice {

// How many of all sequences run in one of so many groups.
constexpr uint32_t group_sequences(uint32_t sequences, uint32_t groups, uint32_t group) {
  return sequences / groups + (group < sequences % groups ? 1 : 0);
}

// Batches that take turns, so that all stages of a model work at once: while one group's step is in a later
// stage, an earlier one computes the next group's. Each group has caches of its own for its part of the
// sequences. A model in one piece has one group, which is a Batch and nothing else. A sequence's tokens are
// the same in any group; a slot's keys and values are found again only within their group.
class BatchGroups {
public:
  static Result<std::unique_ptr<BatchGroups>> create(const std::shared_ptr<const Model>& model,
                                                     const SessionOptions& options);

  // As in Batch. A sequence goes to the group with the fewest.
  Result<uint32_t> add(SequenceRequest request);
  Status stop(uint32_t id);
  Status stop_all();
  size_t sequences() const;
  uint32_t unread(uint32_t id) const;

  // A step of each group that has sequences: waits for one after the other and returns the tokens of all.
  Result<std::span<const BatchToken>> step();

  size_t groups() const { return batches_.size(); }
  Batch& first() { return *batches_.front(); } // has the slots that one sequence alone uses
  uint32_t context() const { return batches_.front()->size().context; }

private:
  // Which batch a sequence is in, and its id there.
  Batch& batch_of(uint32_t id) const { return *batches_[id % batches_.size()]; }
  uint32_t id_in_batch(uint32_t id) const { return id / static_cast<uint32_t>(batches_.size()); }

  std::vector<std::unique_ptr<Batch>> batches_;
  std::vector<BatchToken> results_;
};

} // namespace pumice
