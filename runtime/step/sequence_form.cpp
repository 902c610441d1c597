#include "step/sequence_form.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace pumice {

Result<SequenceForm> SequenceForm::create(const Model& model, TextForm form,
                                          std::vector<uint32_t> stop_tokens, std::span<const uint32_t> tokens,
                                          size_t begin) {
  constexpr uint32_t most = SAMPLING_MASK * 32;
  if (model.shape().vocabulary > most) {
    return Error{Code::unsupported,
                 fmt::format("{}: the answer can only have a form with a vocabulary of at most {} "
                             "tokens, and the model has {}",
                             model.file().path(), most, model.shape().vocabulary)};
  }
  if (stop_tokens.empty())
    return Error{Code::invalid_argument,
                 "an answer that has a form ends with a stop token: give at least one"};
  SequenceForm sequence(model, std::move(form), std::move(stop_tokens));
  if (sequence.form_.begins_after.empty() || sequence.form_.before_it)
    sequence.place_ = sequence.form_.form->start();
  while (begin < tokens.size()) PUMICE_CHECK(sequence.follow(tokens.first(++begin)));
  return sequence;
}

Status SequenceForm::follow(std::span<const uint32_t> tokens) {
  if (std::exchange(first_, false) && form_.before_it == tokens.back()) {
    place_.reset();
    return {};
  }
  if (!place_) {
    const std::vector<uint32_t>& before = form_.begins_after;
    if (tokens.size() >= before.size() && std::ranges::equal(tokens.last(before.size()), before))
      place_ = form_.form->start();
    return {};
  }
  PUMICE_TRY(const bool fits, form_.form->accept(*place_, tokens.back()));
  if (fits) return {};
  return Error{Code::invalid_argument,
               fmt::format("the token {} does not fit the form of the answer", tokens.back())};
}

Status SequenceForm::write_mask(SamplingState& state, uint32_t slot) const {
  if (!place_) {
    state.lift_mask(slot);
    return {};
  }
  const std::span<uint32_t> words = state.set_mask(slot).first((model_->shape().vocabulary + 31) / 32);
  PUMICE_CHECK(form_.form->mask(*place_, stop_tokens_, words));
  if (first_ && form_.before_it) words[*form_.before_it / 32] |= 1U << *form_.before_it % 32;
  if (std::ranges::any_of(words, [](uint32_t word) { return word != 0; })) return {};
  return Error{
      Code::unsupported,
      fmt::format("{}: no token of the model can follow in the form of the answer", model_->file().path())};
}

} // namespace pumice
