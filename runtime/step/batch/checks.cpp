#include "step/batch/checks.h"

#include <algorithm>

#include <fmt/format.h>

#include "step/batch/whole_pictures.h"
#include "step/check_tokens.h"

namespace pumice {

namespace {

// Pictures that do not fit a step.
Status check_picture_rows(const SessionSize& size, std::span<const uint32_t> prompt, const Model& model) {
  const uint32_t most = size.chunk - std::min(size.sequences, size.chunk) + 1;
  for (uint32_t at = 0; at < prompt.size(); ++at) {
    const auto [begin, end] = picture_at(prompt, at);
    if (end - begin > most) {
      return Error{
          Code::invalid_argument,
          fmt::format("{}: {} rows of pictures lie side by side in the prompt, and a step has room for "
                      "{}: put a token between pictures, or use longer steps (--chunk)",
                      model.file().path(), end - begin, most)};
    }
    at = std::max(at, end);
  }
  return {};
}

// Checks the prompt's tokens, and that there are rows for those that are given.
Status check_given(const Model& model, const SequenceRequest& request) {
  const std::vector<uint32_t>& prompt = *request.tokens;
  const uint32_t vocabulary = model.shape().vocabulary;
  const auto count = static_cast<size_t>(std::ranges::count_if(prompt, is_prompt_row));
  if (count == 0 || !model.shape().pictures) return check_tokens(model, prompt, vocabulary);
  std::vector<uint32_t> others = prompt;
  std::erase_if(others, is_prompt_row);
  PUMICE_CHECK(check_tokens(model, others, vocabulary));
  const size_t numbers = request.embeddings ? request.embeddings->values.size() : 0;
  if (numbers == 0 || numbers % count != 0) {
    return Error{
        Code::invalid_argument,
        fmt::format("{}: the prompt has {} places for rows of pictures, and their rows have {} numbers",
                    model.file().path(), count, numbers)};
  }
  if (!model.shape().pictures->has_places()) return {};
  const std::vector<PatchGrid>& grids = request.embeddings->grids;
  uint64_t rows = 0;
  for (const PatchGrid& grid : grids) rows += grid.count();
  if (rows >= count && std::ranges::none_of(grids, [](const PatchGrid& grid) { return grid.count() == 0; }))
    return {};
  return Error{Code::invalid_argument,
               fmt::format("{}: the prompt has {} places for rows of pictures, and the sizes of its pictures "
                           "tell of {}",
                           model.file().path(), count, rows)};
}

} // namespace

Status check_request(const Model& model, const SessionSize& size, const SequenceRequest& request) {
  const std::vector<uint32_t>& prompt = *request.tokens;
  if (prompt.empty()) {
    return Error{Code::invalid_argument, "the prompt is empty: give at least one token"};
  }
  if (prompt.size() >= size.context) {
    return Error{Code::context_full,
                 fmt::format("the prompt of {} tokens does not fit the context of {}: it may have at most {}",
                             prompt.size(), size.context, size.context - 1)};
  }
  if (request.max_tokens == 0) {
    return Error{Code::invalid_argument, "no token is asked for: max_tokens must be at least 1"};
  }
  PUMICE_CHECK(check_given(model, request));
  if (has_bidirectional_pictures(model)) PUMICE_CHECK(check_picture_rows(size, prompt, model));
  return check_sampling(request.sampling);
}

Status check_adapter(const Runner& runner, const AdapterChoice& choice) {
  if (!choice.adapter) return {};
  if (!runner.adapters()) {
    return Error{
        Code::invalid_argument,
        fmt::format("{}: the text has an adapter, and there is no room for any", choice.adapter->path())};
  }
  PUMICE_CHECK(check_scale(choice.scale));
  return check_room(*choice.adapter, *runner.adapters());
}

// The host has to see which guesses held.
Status check_drafts(const Model& model, const SessionOptions& options) {
  if (options.size.drafts == 0) return {};
  if (!options.logits.buffer) return {};
  return Error{Code::unsupported,
               fmt::format("{}: tokens cannot be guessed at where the logits go to the application: leave "
                           "--drafts out",
                           model.file().path())};
}

bool can_draft(const SamplingParams& sampling) {
  return sampling.mirostat == 0 && sampling.dry_multiplier <= 0;
}

} // namespace pumice
