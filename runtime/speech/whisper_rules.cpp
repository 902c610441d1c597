#include "speech/whisper_rules.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "generate/logit_rules.h"

namespace pumice {

namespace {

double log_sum(std::span<const float> scores, double scale) {
  const float largest = *std::ranges::max_element(scores);
  double sum = 0;
  for (float score : scores) sum += std::exp((double{score} - largest) * scale);
  return largest * scale + std::log(sum);
}

} // namespace

float probability(std::span<const float> scores, uint32_t token) {
  return static_cast<float>(std::exp(scores[token] - log_sum(scores, 1)));
}

double sample_one(std::span<float> scores, float temperature, std::mt19937_64& random) {
  if (!(*std::ranges::max_element(scores) > forbidden_score)) return 0;
  const double scale = 1.0 / temperature, all = log_sum(scores, scale);
  double left = std::generate_canonical<double, 53>(random);
  size_t chosen = static_cast<size_t>(std::ranges::max_element(scores) - scores.begin());
  for (size_t token = 0; token < scores.size(); ++token) {
    if (!(scores[token] > forbidden_score)) continue;
    left -= std::exp(scores[token] * scale - all);
    if (left >= 0) continue;
    chosen = token;
    break;
  }
  const double log_probability = scores[chosen] - log_sum(scores, 1);
  std::ranges::fill(scores, forbidden_score);
  scores[chosen] = 0;
  return log_probability;
}

Result<WhisperRules> WhisperRules::create(const Tokenizer& tokenizer, uint32_t vocabulary,
                                          double window_seconds, const WhisperTask& task,
                                          GenerationConfig& config) {
  PUMICE_TRY(WhisperTokens tokens, WhisperTokens::find(tokenizer));
  uint32_t largest = std::max({tokens.start(), tokens.end(), tokens.timestamp(window_seconds)});
  for (const WhisperTokens::Language& language : tokens.languages()) largest = std::max(largest, language.id);
  if (largest >= vocabulary) {
    return Error{Code::invalid_file,
                 fmt::format("the tokenizer's token {} is not in the vocabulary of {}", largest, vocabulary)};
  }
  WhisperRules rules(std::move(tokens));
  PUMICE_CHECK(rules.set_task(task, config));
  rules.set_rules(tokenizer, vocabulary, window_seconds, config);
  return rules;
}

Status WhisperRules::set_task(const WhisperTask& task, const GenerationConfig& config) {
  has_language_ = config.multilingual && !tokens_.languages().empty();
  if (!has_language_) {
    if (task.language.empty() && !task.translate) return {};
    return Error{Code::unsupported, "the model knows one language only: leave language and task out"};
  }
  language_given_ = !task.language.empty();
  if (language_given_) {
    PUMICE_TRY(language_, tokens_.language(task.language));
    language_probability_ = 1;
  }
  PUMICE_TRY(task_, task.translate ? tokens_.translate() : tokens_.transcribe());
  return {};
}

void WhisperRules::set_rules(const Tokenizer& tokenizer, uint32_t vocabulary, double window_seconds,
                             GenerationConfig& config) {
  if (std::ranges::count(config.ends, tokens_.end()) == 0) config.ends.push_back(tokens_.end());
  suppressed_ = std::exchange(config.suppressed, {});
  suppressed_first_ = std::exchange(config.suppressed_first, {});
  config.forced_first.reset();
  for (const char* name : {"<|startoftranscript|>", "<|startoflm|>", "<|startofprev|>", "<|transcribe|>",
                           "<|translate|>", "<|nospeech|>", "<|nocaptions|>"}) {
    const std::optional<uint32_t> token = tokenizer.find(name);
    if (!token || *token >= vocabulary) continue;
    suppressed_.push_back(*token);
    if (std::string_view(name).starts_with("<|no")) no_speech_token_ = token;
    if (std::string_view(name) == "<|startofprev|>") previous_token_ = token;
  }
  times_.end = tokens_.end();
  times_.no_timestamps = tokens_.no_timestamps();
  times_.first = tokens_.first_timestamp();
  times_.last = tokens_.timestamp(window_seconds);
  times_.latest_start = times_.first + std::min(config.latest_first_timestamp, times_.last - times_.first);
}

uint32_t WhisperRules::start(bool timestamps) {
  timestamps_ = timestamps;
  if (!language_given_) {
    language_.reset();
    language_probability_ = 0;
  }
  return (has_language_ ? 2 : 0) + (timestamps ? 0 : 1);
}

std::vector<uint32_t> WhisperRules::prefix_without_timestamps() const {
  std::vector<uint32_t> prefix = {tokens_.start()};
  if (has_language_) prefix.insert(prefix.end(), {language_.value_or(0), *task_});
  prefix.push_back(tokens_.no_timestamps());
  return prefix;
}

// The scores right after the start token tell whether there is speech, and in which language.
void WhisperRules::detect(WindowText& window, std::span<const float> scores) {
  window.no_speech = no_speech_token_ ? probability(scores, *no_speech_token_) : 0;
  if (has_language_ && !language_) {
    const auto score = [&](const WhisperTokens::Language& language) { return scores[language.id]; };
    language_ = std::ranges::max_element(tokens_.languages(), {}, score)->id;
    double sum = 0; // among the languages
    for (const WhisperTokens::Language& language : tokens_.languages())
      sum += std::exp(double{scores[language.id]} - scores[*language_]);
    language_probability_ = static_cast<float>(1 / sum);
  }
  window.forced.clear();
  if (has_language_) window.forced = {*language_, *task_};
  if (!timestamps_) window.forced.push_back(tokens_.no_timestamps());
  window.log_probability = 0;
  window.random.seed(window.seed);
}

// Forces the tokens of the prefix one by one: then the scores of the first step, which detect() needs, come
// from an ordinary step.
Status WhisperRules::apply(WindowText& window, std::span<float> scores, std::span<const uint32_t> text) {
  if (text.empty()) detect(window, scores);
  if (text.size() < window.forced.size()) {
    std::ranges::fill(scores, forbidden_score);
    scores[window.forced[text.size()]] = 0;
    return {};
  }
  PUMICE_CHECK(restrict(scores, text.subspan(window.forced.size())));
  if (window.temperature > 0) window.log_probability += sample_one(scores, window.temperature, window.random);
  return {};
}

// Forbids what may not follow a window's own text.
Status WhisperRules::restrict(std::span<float> scores, std::span<const uint32_t> text) const {
  if (form_) return form_->apply(scores, text);
  for (uint32_t token : suppressed_) scores[token] = forbidden_score;
  if (text.empty()) {
    for (uint32_t token : suppressed_first_) scores[token] = forbidden_score;
  }
  if (timestamps_) times_.apply(scores, text);
  return {};
}

std::string WhisperRules::language() const {
  for (size_t i = 0; has_language_ && i < tokens_.languages().size(); ++i) {
    const WhisperTokens::Language& language = tokens_.languages()[i];
    if (language_ == language.id) return language.code;
  }
  return "";
}

} // namespace pumice
