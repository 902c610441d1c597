#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "form/form.h"
#include "generate/generation_config.h"

namespace pumice {

// Keeps the texts of an encoder's decoder to a form. A text may begin with the space that the tokens of a
// first word often have.
class FormRule {
public:
  // What else the settings say of tokens (suppressed ones, repeated runs, a least length) is taken out of
  // them: the form decides. `path`: of the model, for messages. Errors name what is wrong in the source; a
  // model without a tokenizer, or without a token that ends a text, can keep to none.
  static Result<FormRule> create(const FormSource& source, std::shared_ptr<const Tokenizer> tokenizer,
                                 GenerationConfig& config, const std::string& path);

  // Forbids what may not follow `text`, in which no token was forced.
  Status apply(std::span<float> scores, std::span<const uint32_t> text) const;

private:
  FormRule() = default;

  std::shared_ptr<Form> form_;
  std::vector<uint32_t> ends_;
  std::string path_;
};

} // namespace pumice
