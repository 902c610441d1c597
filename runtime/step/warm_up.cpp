#include "step/warm_up.h"

#include <algorithm>
#include <utility>

namespace pumice {

namespace {

constexpr uint32_t tokens_after_prompt = 3;
// Steps that may take longer are skipped.
constexpr double longest_step_seconds = 0.1;

// Texts of so many times the token 0, and some tokens after it.
Status run_texts(Batch& batch, Slicer& slicer, uint32_t texts, uint32_t prompt) {
  for (uint32_t text = 0; text < texts; ++text) {
    PUMICE_CHECK(batch.add({std::vector<uint32_t>(prompt), {}, tokens_after_prompt, {}}));
  }
  while (batch.sequences() > 0) {
    Slice slice = slicer.begin({warm_up_slice_seconds});
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
  for (int round = 0; round < warm_up_rounds; ++round) PUMICE_CHECK(run_texts(batch, slicer, texts, prompt));
  return {};
}

// So many tokens, in inputs that are as long as they may be.
std::vector<EncoderInput> blank_texts(Encoder& encoder, uint32_t tokens) {
  std::vector<EncoderInput> inputs;
  const uint32_t longest = encoder.longest();
  while (tokens > 0 && inputs.size() < encoder.runner().size().sequences) {
    const uint32_t length = encoder.shape().padding ? longest : std::min(tokens, longest);
    if (!inputs.empty() && length > tokens) break;
    inputs.emplace_back().tokens.resize(length);
    tokens -= std::min(tokens, length);
  }
  return inputs;
}

EncoderInput blank_picture_or_sound(const EncoderShape& shape) {
  EncoderInput blank;
  if (shape.patch_groups) blank.grid = {shape.patch_groups->merge, shape.patch_groups->merge};
  blank.values.resize(shape.input_values() * std::max<size_t>(blank.grid.count(), 1));
  return blank;
}

} // namespace

Result<std::vector<std::vector<EncoderInput>>> blank_steps(Encoder& encoder) {
  std::vector<std::vector<EncoderInput>> steps;
  if (encoder.shape().kind != InputKind::tokens) {
    steps.push_back({blank_picture_or_sound(encoder.shape())});
    return steps;
  }
  const uint32_t most = encoder.runner().size().chunk;
  uint32_t last = 0;
  for (const uint32_t tokens : {1u, std::min(small_chunk, most), most}) {
    if (tokens == std::exchange(last, tokens)) continue;
    PUMICE_TRY(const double guess, encoder.runner().guessed_step_seconds(tokens));
    if (guess <= longest_step_seconds) steps.push_back(blank_texts(encoder, tokens));
  }
  return steps;
}

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
