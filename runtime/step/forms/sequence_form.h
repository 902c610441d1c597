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

  // Goes on by the last of the tokens, which is no stop token.
  Status follow(std::span<const uint32_t> tokens);
  // The next tokens, as far as the host follows and no others may be drawn, at most so many. A stop token is
  // the last of them.
  std::vector<uint32_t> forced(size_t most) const;
  // Gives it to the device, if there is room for its table. After the slot has got its tokens, each time.
  void place(SamplingState& state, uint32_t slot, FormTables& tables);
  // When the sequence has ended.
  void release(FormTables& tables);
  // Writes which tokens the next step may draw for a slot, unless the device knows.
  Status write_mask(SamplingState& state, uint32_t slot);

private:
  SequenceForm(const Model& model, TextForm form, std::vector<uint32_t> stop_tokens)
      : model_(&model), form_(std::move(form)), stop_tokens_(std::move(stop_tokens)) {}

  Status begin();
  Status go_on(uint32_t token);
  Status set_mask(SamplingState& state, uint32_t slot) const;
  // Lifts a lenient form that failed.
  Status or_lift(Status status);

  const Model* model_;
  TextForm form_;
  std::vector<uint32_t> stop_tokens_;
  std::optional<FormPlace> place_; // none: any text may follow. It stays where it is if the device follows
  std::shared_ptr<const FormTable> table_; // null: the host follows
  uint32_t table_place_ = 0;
  std::optional<uint32_t> table_begin_; // in the device's memory
};

} // namespace pumice
