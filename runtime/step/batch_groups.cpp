#include "step/batch_groups.h"

#include <algorithm>

#include "model/upstream.h"

namespace pumice {

Result<std::unique_ptr<BatchGroups>> BatchGroups::create(const std::shared_ptr<const Model>& model,
                                                         const SessionOptions& options) {
  const uint32_t stages = model->upstream() ? model->upstream()->stages() + 1 : 1;
  const uint32_t count = std::clamp(options.size.sequences, 1u, stages);
  auto groups = std::make_unique<BatchGroups>();
  for (uint32_t group = 0; group < count; ++group) {
    SessionOptions group_options = options;
    group_options.size.sequences = group_sequences(options.size.sequences, count, group);
    PUMICE_TRY(std::unique_ptr<Batch> batch, Batch::create(model, group_options));
    // Texts wait for kernels that are compiled, too.
    if (options.max_stall_seconds > 0) PUMICE_CHECK(batch->runner().prepare_all(options.compiling_threads));
    groups->batches_.push_back(std::move(batch));
  }
  return groups;
}

Result<uint32_t> BatchGroups::add(SequenceRequest request) {
  const auto fewest = std::ranges::min_element(batches_, {}, &Batch::sequences);
  PUMICE_TRY(const uint32_t id, (*fewest)->add(std::move(request)));
  return static_cast<uint32_t>(id * batches_.size()) + static_cast<uint32_t>(fewest - batches_.begin());
}

Status BatchGroups::stop(uint32_t id) {
  return batch_of(id).stop(id_in_batch(id));
}

Status BatchGroups::stop_all() {
  for (const std::unique_ptr<Batch>& batch : batches_) PUMICE_CHECK(batch->stop_all());
  return {};
}

size_t BatchGroups::sequences() const {
  size_t sum = 0;
  for (const std::unique_ptr<Batch>& batch : batches_) sum += batch->sequences();
  return sum;
}

uint32_t BatchGroups::unread(uint32_t id) const {
  return batch_of(id).unread(id_in_batch(id));
}

Result<std::span<const BatchToken>> BatchGroups::step() {
  if (batches_.size() == 1) return first().step();
  results_.clear();
  for (const std::unique_ptr<Batch>& batch : batches_) PUMICE_CHECK(batch->submit_ahead());
  for (size_t group = 0; group < batches_.size(); ++group) {
    Batch& batch = *batches_[group];
    if (batch.sequences() == 0 && !batch.in_flight()) continue;
    PUMICE_TRY(const std::span<const BatchToken> tokens, batch.step());
    for (const BatchToken& token : tokens) {
      results_.push_back(token);
      results_.back().sequence = static_cast<uint32_t>(token.sequence * batches_.size() + group);
    }
    PUMICE_CHECK(batch.submit_ahead()); // its stages work while the next groups are waited for
  }
  return std::span<const BatchToken>(results_);
}

} // namespace pumice
