#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernel/sampling/sampling.h"
#include "text/continued_text.h"
#include "text/stop_strings.h"

namespace pumice {

// What texts for people are drawn with where nobody says otherwise.
SamplingParams usual_sampling();

// Where DRY is asked for: the tokens that contain one of these strings end repetitions; without any string
// those with a line end, a colon, a quotation mark or an asterisk. `tokenizer`: null: no token does. Errors:
// invalid_argument for a string that no token contains.
Status set_dry_breakers(SamplingParams& params, std::span<const std::string> breakers,
                        const Tokenizer* tokenizer);

// A text that a model generates, token by token, up to a string that ends it.
class GeneratedText {
public:
  // `prompt`: what the text continues. `tokenizer`: null where there is none; then nothing is ever said.
  GeneratedText(std::shared_ptr<const Tokenizer> tokenizer, std::span<const uint32_t> prompt,
                std::vector<std::string> stops)
      : stops_(std::move(stops)) {
    if (tokenizer) text_.emplace(std::move(tokenizer), prompt);
  }

  // What can be said once this token is there: a character may need the next one too, and the text may be the
  // beginning of a string that ends it.
  std::string push(uint32_t token) { return text_ ? stops_.push(text_->push(token)) : ""; }
  // The rest, at the end.
  std::string finish() {
    if (!text_) return "";
    std::string rest = stops_.push(text_->flush());
    return rest + stops_.flush();
  }
  bool stopped() const { return stops_.found(); }

private:
  std::optional<ContinuedText> text_;
  StopStrings stops_;
};

} // namespace pumice
