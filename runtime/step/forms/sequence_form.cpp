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

size_t SequenceForm::follow_drafts(std::span<const uint32_t> drafts) {
  if (!place_) return drafts.size();
  draft_places_.clear();
  draft_table_places_.clear();
  FormPlace place = *place_;
  uint32_t table_place = table_place_;
  for (size_t i = 0; i < drafts.size(); ++i) {
    if (std::ranges::find(stop_tokens_, drafts[i]) != stop_tokens_.end()) return i;
    if (on_device()) {
      const std::optional<uint32_t> next = table_->next(table_place, drafts[i]);
      if (!next) return i;
      draft_table_places_.push_back(table_place = *next);
    } else {
      const Result<bool> fits = form_.form->accept(place, drafts[i]);
      if (!fits.ok() || !*fits) return i;
      draft_places_.push_back(place);
    }
  }
  return drafts.size();
}

void SequenceForm::place_drafts(SamplingState& state, uint32_t slot) const {
  if (on_device()) state.set_draft_places(slot, draft_table_places_);
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
  if (place_) PUMICE_CHECK(or_lift(find_mask(*place_, state.set_mask(slot))));
  if (!place_) state.lift_mask(slot);
  return {};
}

size_t SequenceForm::write_draft_masks(SamplingState& state, uint32_t slot, size_t begin,
                                       size_t drafts) const {
  if (on_device() || !place_) return drafts;
  state.set_draft_masks(slot, begin);
  for (size_t i = 0; i < drafts; ++i, begin += mask_words()) {
    if (!find_mask(draft_places_[i], state.draft_masks().subspan(begin)).ok()) return i;
  }
  return drafts;
}

Status SequenceForm::find_mask(const FormPlace& place, std::span<uint32_t> words) const {
  words = words.first(mask_words());
  PUMICE_CHECK(form_.form->mask(place, stop_tokens_, words));
  if (std::ranges::any_of(words, [](uint32_t word) { return word != 0; })) return {};
  return Error{
      Code::unsupported,
      fmt::format("{}: no token of the model can follow in the form of the answer", model_->file().path())};
}

} // namespace pumice
