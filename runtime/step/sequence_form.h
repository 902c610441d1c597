#pragma once

#include <optional>
#include <span>
#include <vector>

#include "form/form.h"
#include "kernel/sampling/sampling.h"
#include "model/model.h"

namespace pumice {

// The form of a sequence's answer, and how far the answer has come in it.
class SequenceForm {
public:
  // Of the tokens, those from `begin` on are the answer so far. Errors: no stop token, with which the answer
  // could end; tokens that do not fit; a vocabulary that is too large. A lenient form has no errors.
  static Result<SequenceForm> create(const Model& model, TextForm form, std::vector<uint32_t> stop_tokens,
                                     std::span<const uint32_t> tokens, size_t begin);

  bool holds() const { return place_.has_value(); } // not lifted

  // Goes on by the last of the tokens, which is no stop token.
  Status follow(std::span<const uint32_t> tokens);
  // Writes which tokens the next step may draw for a slot.
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
  std::optional<FormPlace> place_; // none: any text may follow
};

} // namespace pumice
