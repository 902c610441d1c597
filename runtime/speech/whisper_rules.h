#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "generate/form_rule.h"
#include "speech/timestamps.h"
#include "text/tokenizer.h"
#include "text/whisper_tokens.h"

namespace pumice {

// A window's text while the decoder writes it.
struct WindowText {
  float temperature = 0; // 0: the most probable tokens
  uint64_t seed = 0;
  // From here on filled by the rules.
  std::vector<uint32_t> forced; // tokens that the decoder has to write after the start token
  float no_speech = 0;          // the probability that nobody speaks
  double log_probability = 0;   // of the sampled tokens together; of a temperature above 0
  std::mt19937_64 random;
};

struct WhisperTask {
  std::string language; // its code or its English name; empty: detected in the first window
  bool translate = false;
};

// What Whisper's decoder writes (Radford et al. 2022): first tokens that it is forced to, which tell it the
// language and the task, then text, whose tokens these rules restrict, and sample where that is asked for.
class WhisperRules {
public:
  // Takes over the rules of `config` that concern single tokens, because the forced tokens are among those
  // that are suppressed. An error if the model has no such language or task.
  static Result<WhisperRules> create(const Tokenizer& tokenizer, uint32_t vocabulary, double window_seconds,
                                     const WhisperTask& task, GenerationConfig& config);

  const WhisperTokens& tokens() const { return tokens_; }
  // Begins a new sound, whose windows get timestamps or not. The number of forced tokens.
  uint32_t start(bool timestamps);
  bool timestamps() const { return timestamps_; }
  bool knows_speech() const { return no_speech_token_.has_value(); }
  std::optional<uint32_t> previous_token() const { return previous_token_; } // begins a prompt of text
  // The same languages and task, and no timestamps: what precedes text alone.
  std::vector<uint32_t> prefix_without_timestamps() const;

  // Texts keep to this form, and have no timestamps.
  void set_form(FormRule form) { form_ = std::move(form); }

  // A LogitRule for one window.
  Status apply(WindowText& window, std::span<float> scores, std::span<const uint32_t> text);

  bool knows_languages() const { return has_language_; } // has tokens for them
  // Of the current sound, as far as it is known; empty where nothing was spoken yet, or no language is known.
  std::string language() const;
  float language_probability() const { return language_probability_; } // 1 where it was given

private:
  explicit WhisperRules(WhisperTokens tokens) : tokens_(std::move(tokens)) {}
  Status set_task(const WhisperTask& task, const GenerationConfig& config);
  void set_rules(const Tokenizer& tokenizer, uint32_t vocabulary, double window_seconds,
                 GenerationConfig& config);
  void detect(WindowText& window, std::span<const float> scores);
  Status restrict(std::span<float> scores, std::span<const uint32_t> text) const;

  WhisperTokens tokens_;
  std::optional<uint32_t> no_speech_token_, previous_token_;
  std::vector<uint32_t> suppressed_, suppressed_first_;
  TimestampRule times_;
  std::optional<FormRule> form_;
  bool timestamps_ = false;
  bool has_language_ = false, language_given_ = false;
  std::optional<uint32_t> language_, task_;
  float language_probability_ = 0;
};

// The probability of one token, or of one among others. `scores` may be logits.
float probability(std::span<const float> scores, uint32_t token);

// Chooses a token at random by softmax(scores / temperature), and returns the logarithm of its probability in
// softmax(scores). All other scores become forbidden.
double sample_one(std::span<float> scores, float temperature, std::mt19937_64& random);

} // namespace pumice
