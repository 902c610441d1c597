#include "step/warm_up.h"

namespace pumice {

namespace {

constexpr int rounds = 3;
constexpr uint32_t tokens_after_prompt = 3;
// Small slices, like those of an application, because their start has a cost of its own.
constexpr double slice_seconds = 1e-3;
// Steps that may take longer are skipped.
constexpr double longest_step_seconds = 0.1;

// A text of so many times the token 0, and some tokens after it.
Status run_text(Batch& batch, TimeSlicer& slices, uint32_t prompt) {
  PUMICE_CHECK(batch.add({std::vector<uint32_t>(prompt), {}, tokens_after_prompt, {}}));
  while (batch.sequences() > 0) {
    PUMICE_CHECK(slices.run([&] { return batch.fill(slices); }, slice_seconds));
    PUMICE_CHECK(slices.wait());
    for (bool more = true; more;) {
      PUMICE_TRY(const auto tokens, batch.collect());
      more = tokens.has_value();
    }
  }
  return {};
}

} // namespace

Status warm_up(Batch& batch, TimeSlicer& slices) {
  const SessionSize& size = batch.size();
  const uint32_t most = size.context - tokens_after_prompt;
  for (uint32_t prompt : {size.chunk, small_chunk, 1u}) {
    if (prompt > size.chunk || prompt >= most) continue;
    PUMICE_TRY(const double guess, batch.runner().guessed_step_seconds(prompt));
    if (guess > longest_step_seconds) continue;
    for (int round = 0; round < rounds; ++round) {
      PUMICE_CHECK(run_text(batch, slices, prompt));
      batch.forget(0);
    }
  }
  return {};
}

} // namespace pumice
