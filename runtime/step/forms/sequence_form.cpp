#include "step/forms/sequence_form.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace pumice {

Result<SequenceForm> SequenceForm::create(const Model& model, TextForm form,
                                          std::vector<uint32_t> stop_tokens, std::span<const uint32_t> tokens,
                                          size_t begin, bool with_table) {
  SequenceForm sequence(model, std::move(form), std::move(stop_tokens));
  PUMICE_CHECK(sequence.or_lift(sequence.begin()));
  if (sequence.holds() && with_table) {
    sequence.table_ =
        sequence.form_.form->table(sequence.form_.begun, sequence.stop_tokens_, model.shape().vocabulary);
  }
  while (begin < tokens.size()) PUMICE_CHECK(sequence.follow(tokens.first(++begin)));
  return sequence;
}

Status SequenceForm::begin() {
  constexpr uint32_t most = SAMPLING_MASK * 32;
  if (model_->shape().vocabulary > most) {
    return Error{Code::unsupported,
                 fmt::format("{}: the answer can only have a form with a vocabulary of at most {} "
                             "tokens, and the model has {}",
                             model_->file().path(), most, model_->shape().vocabulary)};
  }
  if (stop_tokens_.empty())
    return Error{Code::invalid_argument,
                 "an answer that has a form ends with a stop token: give at least one"};
  place_ = form_.form->start();
  PUMICE_TRY(const bool fits, form_.form->accept(*place_, form_.begun));
  if (fits) return {};
  return Error{Code::invalid_argument, "what the answer begins with does not fit its form"};
}

Status SequenceForm::or_lift(Status status) {
  if (status.ok() || !form_.lenient) return status;
  place_.reset();
  table_.reset();
  return {};
}

Status SequenceForm::follow(std::span<const uint32_t> tokens) {
  return place_ ? or_lift(go_on(tokens.back())) : Status();
}

Status SequenceForm::go_on(uint32_t token) {
  bool fits = true;
  if (!on_device()) {
    PUMICE_TRY(fits, form_.form->accept(*place_, token));
  }
  if (table_ && fits) {
    const std::optional<uint32_t> next = table_->next(table_place_, token);
    fits = next.has_value();
    table_place_ = next.value_or(table_place_);
  }
  if (fits) return {};
  return Error{Code::invalid_argument,
               fmt::format("the token {} does not fit the form of the answer", token)};
}

std::vector<uint32_t> SequenceForm::forced(size_t most) const {
  std::vector<uint32_t> tokens;
  if (!place_ || on_device()) return tokens;
  FormPlace place = *place_;
  while (tokens.size() < most) {
    const Result<std::optional<uint32_t>> only =
        form_.form->only_token(place, stop_tokens_, model_->shape().vocabulary);
    if (!only.ok() || !*only) break; // the mask tells of errors
    tokens.push_back(**only);
    if (std::ranges::find(stop_tokens_, **only) != stop_tokens_.end()) break;
    if (const Result<bool> fits = form_.form->accept(place, **only); !fits.ok() || !*fits) break;
  }
  return tokens;
}

void SequenceForm::place(SamplingState& state, uint32_t slot, FormTables& tables) {
  if (table_ && !table_begin_) table_begin_ = tables.use(table_);
  if (!table_begin_) table_.reset(); // a text that began without it goes on so
  if (table_begin_) state.set_form(slot, *table_begin_, table_place_);
}

void SequenceForm::release(FormTables& tables) {
  if (table_begin_) tables.release(*table_);
  table_begin_.reset();
}

Status SequenceForm::write_mask(SamplingState& state, uint32_t slot) {
  if (on_device()) return {};
  if (place_) PUMICE_CHECK(or_lift(set_mask(state, slot)));
  if (!place_) state.lift_mask(slot);
  return {};
}

Status SequenceForm::set_mask(SamplingState& state, uint32_t slot) const {
  const std::span<uint32_t> words = state.set_mask(slot).first((model_->shape().vocabulary + 31) / 32);
  PUMICE_CHECK(form_.form->mask(*place_, stop_tokens_, words));
  if (std::ranges::any_of(words, [](uint32_t word) { return word != 0; })) return {};
  return Error{
      Code::unsupported,
      fmt::format("{}: no token of the model can follow in the form of the answer", model_->file().path())};
}

} // namespace pumice
