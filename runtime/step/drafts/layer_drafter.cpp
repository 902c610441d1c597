#include "step/drafts/layer_drafter.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

namespace pumice {

namespace {

constexpr const char* own_hidden = "hidden_states.0"; // of the layer's graph

} // namespace

LayerDrafter::LayerDrafter(std::unique_ptr<Runner> runner, double guessed_seconds)
    : Drafter(guessed_seconds), runner_(std::move(runner)), sampling_state_(runner_->sampling_state()),
      columns_(runner_->columns(own_hidden)), slots_(runner_->size().sequences) {}

std::string LayerDrafter::hidden_name(const Model& target) {
  return fmt::format("hidden_states.{}", target.shape().layers.size());
}

Result<std::unique_ptr<LayerDrafter>> LayerDrafter::create(std::shared_ptr<const Model> layer,
                                                           const Model& target, const SessionSize& size) {
  const std::string& path = layer->file().path();
  if (layer->shape().vocabulary != target.shape().vocabulary || path != target.file().path()) {
    return Error{Code::invalid_argument,
                 fmt::format("{}: its prediction layer guesses at its own tokens, and not at those of {}",
                             path, target.file().path())};
  }
  if (layer->context().device != target.context().device || target.upstream()) {
    return Error{Code::invalid_argument,
                 path + ": a prediction layer must be loaded on the one device of its model"};
  }
  RunnerOptions options;
  options.size = size;
  options.size.pages = 0;
  options.readable = {own_hidden};
  PUMICE_TRY(std::unique_ptr<Runner> runner, Runner::create(std::move(layer), std::move(options)));
  PUMICE_TRY(const double guess, runner->guessed_step_seconds(1));
  return std::unique_ptr<LayerDrafter>(new LayerDrafter(std::move(runner), guess));
}

// Position p reads the hidden state of p - 1, so what is known ends where a token differs.
void LayerDrafter::forget_from(Slot& slot, uint32_t position) const {
  slot.tokens.resize(std::min<size_t>(slot.tokens.size(), position));
  if (position >= slot.end) {
    slot.unread.resize(std::min(slot.unread.size(), size_t{position - slot.end} * columns_));
    return;
  }
  slot.unread.clear();
  slot.end = position;
  slot.first = std::min(slot.first, position);
}

void LayerDrafter::place(uint32_t slot, std::span<const uint32_t> tokens) {
  Slot& own = slots_[slot];
  const auto differs = std::ranges::mismatch(own.tokens, tokens).in1;
  forget_from(own, static_cast<uint32_t>(differs - own.tokens.begin()));
}

Status LayerDrafter::follow(uint32_t slot, std::span<const uint32_t> tokens, uint32_t position,
                            std::span<const float> hidden) {
  Slot& own = slots_[slot];
  const uint32_t next = position + 1, known = own.end + unread(own);
  forget_from(own, next);
  if (next > known) { // it was not told of those between
    own.unread.clear();
    own.first = own.end = next;
  }
  own.unread.insert(own.unread.end(), hidden.begin(), hidden.end());
  own.tokens.assign(tokens.begin(), tokens.begin() + own.end + unread(own));
  return read_but(slot, runner_->size().drafts + 1);
}

Status LayerDrafter::write(std::span<const StepToken> rows, std::span<const float> hidden) {
  PUMICE_CHECK(runner_->write_step(rows));
  const auto count = static_cast<uint32_t>(rows.size());
  for (uint32_t row = 0; row < count; ++row)
    PUMICE_CHECK(runner_->write_input(count, row, hidden.subspan(size_t{row} * columns_, columns_)));
  return {};
}

// Reads all positions of a slot but the last so many.
Status LayerDrafter::read_but(uint32_t slot, uint32_t left) {
  Slot& own = slots_[slot];
  while (unread(own) > left) {
    const uint32_t count = std::min(unread(own) - left, runner_->size().chunk);
    std::vector<StepToken> rows;
    for (uint32_t at = own.end; at < own.end + count; ++at)
      rows.push_back({own.tokens[at], at, slot, own.first});
    const auto used = own.unread.begin() + static_cast<std::ptrdiff_t>(size_t{count} * columns_);
    PUMICE_CHECK(write(rows, {own.unread.begin(), used}));
    PUMICE_TRY(const Completion done, runner_->submit(count));
    PUMICE_CHECK(done.wait());
    own.unread.erase(own.unread.begin(), used);
    own.end += count;
  }
  return {};
}

Result<std::vector<std::vector<uint32_t>>> LayerDrafter::draft(std::span<const Text> texts) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::vector<uint32_t>> drafts(texts.size());
  struct Row {
    size_t text;
    uint32_t last; // its row in the step
  };
  std::vector<Row> going;
  std::vector<StepToken> rows;
  std::vector<float> hidden;
  uint32_t longest = 0;
  const auto most = std::max<uint32_t>(runner_->size().chunk / static_cast<uint32_t>(texts.size()), 1);
  for (size_t i = 0; i < texts.size(); ++i) {
    const Text& text = texts[i];
    Slot& slot = slots_[text.slot];
    if (slot.unread.empty() || slot.tokens.size() != text.tokens.size()) continue;
    if (text.tokens.size() + text.most > runner_->size().context) continue;
    PUMICE_CHECK(read_but(text.slot, most));
    for (; slot.end < slot.tokens.size(); ++slot.end)
      rows.push_back({slot.tokens[slot.end], slot.end, text.slot, slot.first});
    rows.back().output = true;
    hidden.insert(hidden.end(), slot.unread.begin(), slot.unread.end());
    slot.unread.clear();
    SamplingParams sampling = *text.sampling;
    sampling.log_probabilities = 0;
    sampling_state_.set_params(text.slot, sampling);
    sampling_state_.set_tokens(text.slot, text.tokens);
    going.push_back({i, static_cast<uint32_t>(rows.size()) - 1});
    longest = std::max(longest, text.most);
  }
  while (!going.empty()) {
    const auto count = static_cast<uint32_t>(rows.size());
    PUMICE_CHECK(write(rows, hidden));
    PUMICE_TRY(const Completion done, runner_->submit(count));
    PUMICE_CHECK(done.wait());
    PUMICE_TRY(const std::vector<float> given, runner_->read(own_hidden, count));
    std::vector<Row> next;
    std::vector<StepToken> next_rows;
    hidden.clear();
    for (const Row& row : going) {
      const Text& text = texts[row.text];
      std::vector<uint32_t>& draft = drafts[row.text];
      const auto position = static_cast<uint32_t>(text.tokens.size() + draft.size());
      const uint32_t token = sampling_state_.token(text.slot, position);
      if (token >= runner_->model().shape().vocabulary) continue; // a driver's mistake: no guess
      draft.push_back(token);
      if (draft.size() == text.most) continue;
      next.push_back({row.text, static_cast<uint32_t>(next_rows.size())});
      next_rows.push_back({draft.back(), position, text.slot, slots_[text.slot].first, true});
      const auto from = given.begin() + static_cast<std::ptrdiff_t>(size_t{row.last} * columns_);
      hidden.insert(hidden.end(), from, from + columns_);
    }
    going = std::move(next);
    rows = std::move(next_rows);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  took(seconds.count(), longest);
  return drafts;
}

} // namespace pumice
