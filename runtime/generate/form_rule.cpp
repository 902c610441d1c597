#include "generate/form_rule.h"

#include <utility>

#include <fmt/format.h>

#include "generate/logit_rules.h"

namespace pumice {

Result<FormRule> FormRule::create(const FormSource& source, std::shared_ptr<const Tokenizer> tokenizer,
                                  GenerationConfig& config, const std::string& path) {
  const char* missing = !tokenizer            ? "it has no tokenizer"
                        : config.ends.empty() ? "its settings have no token that ends a text (eos_token_id)"
                                              : nullptr;
  if (missing) {
    return Error{Code::unsupported, fmt::format("{}: {}, so its texts can have no form", path, missing)};
  }
  PUMICE_TRY(form::Grammar grammar, parse_form(source));
  const form::Part space = grammar.optional(grammar.text(" "));
  grammar.root = grammar.add_rule("text", grammar.sequence({space, grammar.call(grammar.root)}));
  FormRule rule;
  PUMICE_TRY(rule.form_, Form::create(grammar, std::make_shared<FormVocabulary>(*tokenizer)));
  rule.ends_ = config.ends;
  rule.path_ = path;
  config.suppressed.clear();
  config.suppressed_first.clear();
  config.forced_last.reset();
  config.min_tokens = config.no_repeat_ngram = 0;
  config.repetition_penalty = 1;
  return rule;
}

Status FormRule::apply(std::span<float> scores, std::span<const uint32_t> text) const {
  FormPlace place = form_->start();
  for (const uint32_t token : text) {
    PUMICE_TRY(const bool fits, form_->accept(place, token));
    if (!fits) return Error{Code::internal, fmt::format("the token {} does not fit the form", token)};
  }
  std::vector<uint32_t> bits((scores.size() + 31) / 32);
  PUMICE_CHECK(form_->mask(place, ends_, bits));
  bool any = false;
  for (size_t token = 0; token < scores.size(); ++token) {
    if (bits[token / 32] >> (token % 32) & 1) {
      any = true;
    } else {
      scores[token] = forbidden_score;
    }
  }
  if (any) return {};
  return Error{Code::unsupported, fmt::format("{}: no token of the model can follow in the form", path_)};
}

} // namespace pumice
