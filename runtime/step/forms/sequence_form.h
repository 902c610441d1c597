#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "form/form.h"
#include "kernel/sampling/sampling.h"
#include "model/model.h"
#include "step/forms/form_tables.h"

namespace pumice {

// The form of a sequence's answer, and how far the answer has come in it. Where the form's table is small,
// the device follows it by itself; otherwise the host does, and says before each step which tokens it may
// draw.
class SequenceForm {
public:
  // Of the tokens, those from `begin` on are the answer so far. Errors: no stop token, with which the answer
  // could end; tokens that do not fit; a vocabulary that is too large. A lenient form has no errors.
  // `with_table`: the device may follow it.
  static Result<SequenceForm> create(const Model& model, TextForm form, std::vector<uint32_t> stop_tokens,
                                     std::span<const uint32_t> tokens, size_t begin, bool with_table = true);

  bool holds() const { return place_.has_value(); } // not lifted
  bool on_device() const { return table_begin_.has_value(); }
  size_t mask_words() const { return (model_->shape().vocabulary + 31) / 32; }

  // Goes on by the last of the tokens, which is no stop token.
  Status follow(std::span<const uint32_t> tokens);
  // The next tokens, as far as the host follows and no others may be drawn, at most so many. A stop token is
  // the last of them.
  std::vector<uint32_t> forced(size_t most) const;
  // How many of the tokens that are guessed at next may follow, up to a stop token. Notes where they lead.
  size_t follow_drafts(std::span<const uint32_t> drafts);
  // Gives it to the device, if there is room for its table. After the slot has got its tokens, each time.
  void place(SamplingState& state, uint32_t slot, FormTables& tables);
  // When the sequence has ended.
  void release(FormTables& tables);
  // Before a step that guesses at what follow_drafts() has taken: where that leads, if the device follows.
  void place_drafts(SamplingState& state, uint32_t slot) const;
  // Writes which tokens the next step may draw for a slot, unless the device knows.
  Status write_mask(SamplingState& state, uint32_t slot);
  // The same behind each guess, from a word of the draft masks on. Returns how many it has written: all, or
  // those up to a guess behind which it is not known.
  size_t write_draft_masks(SamplingState& state, uint32_t slot, size_t begin, size_t drafts) const;

private:
  SequenceForm(const Model& model, TextForm form, std::vector<uint32_t> stop_tokens)
      : model_(&model), form_(std::move(form)), stop_tokens_(std::move(stop_tokens)) {}

  Status begin();
  Status go_on(uint32_t token);
  Status find_mask(const FormPlace& place, std::span<uint32_t> words) const;
  // Lifts a lenient form that failed.
  Status or_lift(Status status);

  const Model* model_;
  TextForm form_;
  std::vector<uint32_t> stop_tokens_;
  std::optional<FormPlace> place_; // none: any text may follow. It stays where it is if the device follows
  std::shared_ptr<const FormTable> table_; // null: the host follows
  uint32_t table_place_ = 0;
  std::optional<uint32_t> table_begin_; // in the device's memory
  std::vector<FormPlace> draft_places_; // behind each guess, or those in the table
  std::vector<uint32_t> draft_table_places_;
};

} // namespace pumice
