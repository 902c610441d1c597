// What a runner does where its model is one of several stages.
#include <cstring>

#include <fmt/format.h>

#include "step/runner.h"
#include "step/step_rows.h"

namespace pumice {

namespace {

uint64_t bytes_of(const std::vector<HostTensor>& tensors, uint32_t tokens) {
  uint64_t sum = 0;
  for (const HostTensor& tensor : tensors) sum += uint64_t{tokens} * tensor.where.stride * 4;
  return sum;
}

Error wrong_length(const Model& model, uint32_t tokens, uint64_t expected, uint64_t found) {
  return Error{Code::internal, fmt::format("{}: a step of {} rows between stages has {} bytes: expected {}",
                                           model.file().path(), tokens, found, expected)};
}

} // namespace

Status Runner::begin_stages() {
  if (!model_->upstream() || options_.part == ModelPart::encoder) return {};
  if (options_.input.buffer || options_.caches || memory_.size.beams) {
    return Error{Code::unsupported,
                 fmt::format("{}: a model in stages has neither beams nor caches or inputs "
                             "of the application: use one device",
                             model_->file().path())};
  }
  const auto compute = [this](const StepRows& rows, bool composed,
                              std::span<const std::byte> bytes) -> Result<Completion> {
    if (composed) PUMICE_CHECK(write_packed(rows));
    PUMICE_CHECK(write_received(rows.tokens, bytes));
    // Later steps may have been begun, which the last submission is about.
    const Completion last = last_submission_;
    const uint32_t last_tokens = last_tokens_;
    Result<Completion> done = submit_here(rows.tokens, 1);
    last_submission_ = last;
    last_tokens_ = last_tokens;
    return done;
  };
  PUMICE_TRY(last_stage_, LastStage::create(*model_->upstream(),
                                            {memory_.size, options_.all_outputs, options_.readable,
                                             received_bytes(memory_.size.chunk)},
                                            compute));
  return {};
}

uint32_t Runner::steps_in_stages() const {
  return last_stage_ ? model_->upstream()->stages() + 2 : StepRing::places;
}

uint64_t Runner::received_bytes(uint32_t tokens) {
  return bytes_of(bucket_for(tokens).plan.received, tokens);
}

uint64_t Runner::sent_bytes(uint32_t tokens) {
  return bytes_of(bucket_for(tokens).plan.sent, tokens);
}

Status Runner::check_sliceable() const {
  if (!last_stage_) return {};
  return Error{Code::unsupported,
               fmt::format("{}: the steps of a model in stages cannot be divided into time slices",
                           model_->file().path())};
}

// The rows of a step that the device has written itself are known once the step before is done.
Result<Completion> Runner::submit_in_stages(uint32_t tokens, uint32_t steps) {
  for (uint32_t step = 0; step < steps; ++step) {
    if (interrupted()) return Error{Code::cancelled, "a step was cancelled"};
    const bool composed = !composed_.empty();
    StepRows rows{tokens, {}};
    if (composed) {
      rows.words = pack_rows(composed_, memory_.step_layout, tokens);
    } else {
      PUMICE_CHECK(last_submission_.wait());
      const std::span<const std::byte> block = step_.mapped();
      rows.words = pack_rows({reinterpret_cast<const uint32_t*>(block.data()), block.size() / 4},
                             memory_.step_layout, tokens);
    }
    composed_.clear();
    PUMICE_TRY(last_submission_, last_stage_->begin(std::move(rows), composed));
    last_tokens_ = tokens;
  }
  return last_submission_;
}

Status Runner::write_packed(const StepRows& rows) {
  if (rows.tokens < 1 || rows.tokens > memory_.size.chunk ||
      rows.words.size() != packed_row_words(rows.tokens) || rows.words[0] != rows.tokens) {
    return Error{Code::internal, fmt::format("{}: a step of {} rows between stages is damaged",
                                             model_->file().path(), rows.tokens)};
  }
  PUMICE_CHECK(step_ring_.next_place().wait());
  unpack_rows(rows.words, memory_.step_layout, rows.tokens, step_ring_.begin());
  return {};
}

// The step before has read what lies there once it is done.
Status Runner::write_received(uint32_t tokens, std::span<const std::byte> bytes) {
  if (const uint64_t expected = received_bytes(tokens); bytes.size() != expected)
    return wrong_length(*model_, tokens, expected, bytes.size());
  PUMICE_CHECK(submitted_here_.wait());
  for (const HostTensor& tensor : bucket_for(tokens).plan.received) {
    const size_t size = size_t{tokens} * tensor.where.stride * 4;
    std::memcpy(inputs_.mapped().data() + tensor.where.buffer.offset, bytes.data(), size);
    bytes = bytes.subspan(size);
  }
  return {};
}

Status Runner::read_sent(uint32_t tokens, std::span<std::byte> bytes) const {
  PUMICE_CHECK(submitted_here_.wait());
  for (const HostTensor& tensor : buckets_.lower_bound(tokens)->second.plan.sent) {
    const BufferRef& from = tensor.where.buffer;
    const std::span<const std::byte> memory =
        from.space == Space::inputs ? inputs_.mapped() : outputs_.bytes();
    const size_t size = size_t{tokens} * tensor.where.stride * 4;
    if (bytes.size() < size) return wrong_length(*model_, tokens, size, bytes.size());
    std::memcpy(bytes.data(), memory.data() + from.offset, size);
    bytes = bytes.subspan(size);
  }
  return {};
}

} // namespace pumice
