#include "step/warm_up.h"

#include <algorithm>

namespace pumice {

namespace {

constexpr int rounds = 3;
constexpr uint32_t tokens_after_prompt = 3;
// Small slicer, like those of an application, because their start has a cost of its own.
constexpr double slice_seconds = 1e-3;
// Steps that may take longer are skipped.
constexpr double longest_step_seconds = 0.1;

// Texts of so many times the token 0, and some tokens after it.
Status run_texts(Batch& batch, Slicer& slicer, uint32_t texts, uint32_t prompt) {
  for (uint32_t text = 0; text < texts; ++text) {
    PUMICE_CHECK(batch.add({std::vector<uint32_t>(prompt), {}, tokens_after_prompt, {}}));
  }
  while (batch.sequences() > 0) {
    Slice slice = slicer.begin({slice_seconds});
    PUMICE_CHECK(batch.fill(slice));
    PUMICE_CHECK(slicer.end(slice));
    PUMICE_CHECK(slicer.wait());
    for (bool more = true; more;) {
      PUMICE_TRY(const auto tokens, batch.collect());
      more = tokens.has_value();
    }
  }
  for (uint32_t slot = 0; slot < batch.size().sequences; ++slot) batch.forget(slot);
  return {};
}

Status run_rounds(Batch& batch, Slicer& slicer, uint32_t texts, uint32_t prompt) {
  PUMICE_TRY(const double guess, batch.runner().guessed_step_seconds(texts * prompt));
  if (guess > longest_step_seconds) return {};
  for (int round = 0; round < rounds; ++round) PUMICE_CHECK(run_texts(batch, slicer, texts, prompt));
  return {};
}

} // namespace

Status warm_up(Batch& batch, Slicer& slicer) {
  const SessionSize& size = batch.size();
  const uint32_t most = size.context - tokens_after_prompt;
  for (uint32_t prompt : {size.chunk, small_chunk, 1u}) {
    if (prompt <= size.chunk && prompt < most) PUMICE_CHECK(run_rounds(batch, slicer, 1, prompt));
  }
  for (uint32_t texts = 2; texts < 2 * size.sequences; texts *= 2) {
    PUMICE_CHECK(run_rounds(batch, slicer, std::min(texts, size.sequences), 1));
  }
  return {};
}

} // namespace pumice
