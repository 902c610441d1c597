#include "speech/transcription.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "generate/logit_rules.h"

namespace pumice {

namespace {

// The probability of one token. `scores` may be logits.
float probability(std::span<const float> scores, uint32_t token) {
  const float largest = *std::ranges::max_element(scores);
  double sum = 0;
  for (float score : scores) sum += std::exp(double{score} - largest);
  return static_cast<float>(std::exp(double{scores[token]} - largest) / sum);
}

} // namespace

Result<std::unique_ptr<Transcriber>> Transcriber::create(std::shared_ptr<const Model> model,
                                                         std::shared_ptr<const Tokenizer> tokenizer,
                                                         TranscriptionOptions options) {
  std::unique_ptr<Transcriber> result(new Transcriber(model));
  result->options_ = std::move(options);
  result->tokenizer_ = std::move(tokenizer);
  PUMICE_TRY(result->features_, AudioFeatures::create(*model));
  GenerationConfig& config = result->generation_options_.config;
  PUMICE_TRY(config, read_generation_config(model->file(), model->shape().vocabulary));
  if (result->options_.beams) config.beams = result->options_.beams;
  if (result->options_.max_tokens) config.max_tokens = result->options_.max_tokens;
  result->generation_options_.sampling.temperature = 0;
  result->generation_options_.interrupt = result->options_.interrupt;
  PUMICE_CHECK(result->read_tokens());
  EncoderDecoderOptions session;
  session.beams = config.beams;
  PUMICE_TRY(result->generation_,
             ResumableGeneration::create(std::move(model), session,
                                         result->options_.prepared ? &result->generation_options_ : nullptr));
  return result;
}

Status Transcriber::read_tokens() {
  Result<WhisperTokens> found =
      tokenizer_ ? WhisperTokens::find(*tokenizer_)
                 : Error{Code::not_found, "the tokenizer does not have Whisper's special tokens"};
  if (found.ok()) {
    tokens_ = *std::move(found);
    PUMICE_CHECK(check_vocabulary());
    PUMICE_CHECK(set_task());
    set_rules();
    return {};
  }
  if (options_.language.empty() && !options_.translate && !options_.timestamps) return {};
  return Error{found.error().code,
               fmt::format("{}: {}, so a language, a task or timestamps cannot be chosen: leave them out",
                           model_->file().path(), found.error().message)};
}

Status Transcriber::check_vocabulary() const {
  const uint32_t vocabulary = model_->shape().vocabulary;
  const LogMelShape& shape = features_->shape();
  const double seconds = static_cast<double>(shape.samples) / shape.sample_rate;
  uint32_t largest = std::max({tokens_->start(), tokens_->end(), tokens_->timestamp(seconds)});
  for (const WhisperTokens::Language& language : tokens_->languages()) {
    largest = std::max(largest, language.id);
  }
  if (largest < vocabulary) return {};
  return Error{Code::invalid_file, fmt::format("{}: the tokenizer's token {} is not in the vocabulary of {}",
                                               model_->file().path(), largest, vocabulary)};
}

Status Transcriber::set_task() {
  has_language_ = generation_options_.config.multilingual && !tokens_->languages().empty();
  if (!has_language_) {
    if (options_.language.empty() && !options_.translate) return {};
    return Error{Code::unsupported,
                 fmt::format("{}: the model knows one language only: leave language and task out",
                             model_->file().path())};
  }
  if (!options_.language.empty()) {
    PUMICE_TRY(language_, tokens_->language(options_.language));
  }
  PUMICE_TRY(task_, options_.translate ? tokens_->translate() : tokens_->transcribe());
  return {};
}

void Transcriber::set_rules() {
  GenerationConfig& config = generation_options_.config;
  config.prompt = {tokens_->start()};
  if (std::ranges::count(config.ends, tokens_->end()) == 0) config.ends.push_back(tokens_->end());
  // The rule of this class forces tokens of the prefix that are among the suppressed ones, so it applies the
  // suppression itself.
  suppressed_ = std::exchange(config.suppressed, {});
  suppressed_first_ = std::exchange(config.suppressed_first, {});
  config.forced_first.reset();
  for (const char* name : {"<|startoftranscript|>", "<|startoflm|>", "<|startofprev|>", "<|transcribe|>",
                           "<|translate|>", "<|nospeech|>", "<|nocaptions|>"}) {
    const std::optional<uint32_t> token = tokenizer_->find(name);
    if (!token || *token >= model_->shape().vocabulary) continue;
    suppressed_.push_back(*token);
    if (std::string_view(name).starts_with("<|no")) no_speech_token_ = token;
  }
  const LogMelShape& shape = features_->shape();
  rule_.end = tokens_->end();
  rule_.no_timestamps = tokens_->no_timestamps();
  rule_.first = tokens_->first_timestamp();
  rule_.last = tokens_->timestamp(static_cast<double>(shape.samples) / shape.sample_rate);
  const uint32_t latest = std::min(config.latest_first_timestamp, rule_.last - rule_.first);
  rule_.latest_start = rule_.first + latest;
  generation_options_.rule = [this](std::span<float> scores, std::span<const uint32_t> text) {
    apply_rules_to(scores, text);
  };
}

// Begins a new sound.
void Transcriber::start(bool timestamps) {
  timestamps_ = timestamps;
  forced_prefix_.clear();
  if (!tokens_) return;
  if (has_language_) {
    if (options_.language.empty()) language_.reset();
    forced_prefix_ = {language_.value_or(0), *task_};
  }
  if (!timestamps) forced_prefix_.push_back(tokens_->no_timestamps());
  GenerationConfig& config = generation_options_.config;
  config.forced_tokens = static_cast<uint32_t>(forced_prefix_.size());
  if (options_.max_tokens) config.max_tokens = options_.max_tokens + config.forced_tokens;
}

// The scores right after the start token tell whether there is speech, and in which language.
void Transcriber::detect_speech(std::span<const float> scores) {
  no_speech_ = no_speech_token_ ? probability(scores, *no_speech_token_) : 0;
  if (!has_language_ || language_) return;
  const auto score = [&](const WhisperTokens::Language& language) { return scores[language.id]; };
  language_ = std::ranges::max_element(tokens_->languages(), {}, score)->id;
  forced_prefix_[0] = *language_;
}

// Forces the tokens of the prefix one by one: then the scores of the first step, which detect_speech() needs,
// come from an ordinary step.
void Transcriber::apply_rules_to(std::span<float> scores, std::span<const uint32_t> text) {
  if (text.empty()) detect_speech(scores);
  if (text.size() < forced_prefix_.size()) {
    std::ranges::fill(scores, forbidden_score);
    scores[forced_prefix_[text.size()]] = 0;
    return;
  }
  const std::span<const uint32_t> own = text.subspan(forced_prefix_.size());
  for (uint32_t token : suppressed_) scores[token] = forbidden_score;
  if (own.empty()) {
    for (uint32_t token : suppressed_first_) scores[token] = forbidden_score;
  }
  if (timestamps_) rule_.apply(scores, own);
}

Transcriber::Written Transcriber::written(const Hypothesis& best) const {
  const GenerationConfig& config = generation_options_.config;
  const size_t forced = std::min(forced_prefix_.size(), best.tokens.size());
  Written written;
  written.tokens.assign(best.tokens.begin() + static_cast<ptrdiff_t>(forced), best.tokens.end());
  if (tokens_) {
    const auto length = static_cast<float>(std::max<size_t>(written.tokens.size(), 1));
    written.log_probability = best.score * std::pow(length, config.length_penalty - 1);
  }
  if (!written.tokens.empty() && std::ranges::count(config.ends, written.tokens.back())) {
    written.tokens.pop_back();
  }
  return written;
}

bool Transcriber::is_silent(const Written& written) const {
  return no_speech_token_ && no_speech_ > options_.no_speech &&
         !(written.log_probability && *written.log_probability > options_.log_probability);
}

TranscriptSegment Transcriber::segment(const Written& written, const TimedTokens& piece, double from,
                                       double to) const {
  TranscriptSegment result;
  result.start = std::min(from + piece.start * WhisperTokens::kStep, to);
  result.end = std::min(from + piece.end * WhisperTokens::kStep, to);
  result.tokens = piece.tokens;
  result.log_probability = written.log_probability;
  if (no_speech_token_) result.no_speech = no_speech_;
  if (!tokenizer_) return result;
  std::vector<uint32_t> spoken = piece.tokens;
  if (tokens_) std::erase_if(spoken, [&](uint32_t token) { return tokens_->is_timestamp(token); });
  result.text = tokenizer_->decode(spoken, false);
  return result;
}

std::vector<TranscriptSegment> Transcriber::segments(const Written& written, double from, double to,
                                                     uint32_t& next) const {
  const auto length = static_cast<uint32_t>(std::ceil((to - from) / WhisperTokens::kStep - 1e-6));
  TimedPieces cut{{{0, length, written.tokens}}, length};
  if (timestamps_) cut = cut_at_timestamps(written.tokens, tokens_->first_timestamp(), length);
  next = cut.next < length ? cut.next : 0;
  std::vector<TranscriptSegment> result;
  for (const TimedTokens& piece : cut.pieces) {
    TranscriptSegment made = segment(written, piece, from, to);
    const bool empty =
        tokenizer_ ? made.text.find_first_not_of(" \n\t") == std::string::npos : made.tokens.empty();
    if (!empty) result.push_back(std::move(made));
  }
  return result;
}

Status Transcriber::begin(std::span<const float> samples, WindowFunction on_window, Progress progress) {
  PUMICE_CHECK(generation_->stop());
  start(tokens_ && (options_.timestamps || samples.size() > features_->shape().samples));
  sound_ = {samples, std::move(on_window), std::move(progress), 0, 0, {}};
  return {};
}

// Ends the sound where it was cancelled.
template <class T>
T Transcriber::failed(T result) {
  if (!result.ok() && result.error().code == Code::cancelled) sound_ = {};
  return result;
}

Status Transcriber::begin_window() {
  const bool wanted = !sound_.progress || sound_.progress(sound_.at, sound_.samples.size());
  if (!wanted || generation_->cancelled()) return Error{Code::cancelled, "cancelled between two windows"};
  const size_t count = std::min<size_t>(features_->shape().samples, sound_.samples.size() - sound_.at);
  EncoderInput input;
  PUMICE_TRY(input.values, features_->compute(sound_.samples.subspan(sound_.at, count)));
  PUMICE_CHECK(generation_->start({std::move(input)}, generation_options_));
  sound_.count = count;
  return {};
}

Status Transcriber::finish_window() {
  PUMICE_TRY(const std::span<const std::vector<Hypothesis>> texts, generation_->texts());
  Written written = this->written(texts[0].at(0));
  const LogMelShape& shape = features_->shape();
  const size_t count = std::exchange(sound_.count, 0);
  const double from = static_cast<double>(sound_.at) / shape.sample_rate;
  const double to = static_cast<double>(sound_.at + count) / shape.sample_rate;
  uint32_t next = 0; // steps; 0: behind the window
  if (!is_silent(written)) {
    TranscriptWindow window;
    window.segments = segments(written, from, to, next);
    window.features = generation_->inputs()[0].values;
    window.prompt = generation_options_.config.prompt;
    window.prompt.insert(window.prompt.end(), forced_prefix_.begin(), forced_prefix_.end());
    window.tokens = std::move(written.tokens);
    std::vector<TranscriptSegment>& all = sound_.transcript.segments;
    all.insert(all.end(), window.segments.begin(), window.segments.end());
    if (sound_.on_window) sound_.on_window(window);
  }
  const auto moved = static_cast<size_t>(std::llround(next * WhisperTokens::kStep * shape.sample_rate));
  sound_.at += moved > 0 ? std::min(moved, count) : count;
  return {};
}

Status Transcriber::run_window() {
  PUMICE_CHECK(begin_window());
  PUMICE_CHECK(generation_->run());
  return finish_window();
}

Result<Transcript> Transcriber::transcribe(std::span<const float> samples, WindowFunction on_window,
                                           Progress progress) {
  PUMICE_CHECK(begin(samples, std::move(on_window), std::move(progress)));
  return run();
}

Result<Transcript> Transcriber::run() {
  while (active()) {
    Status status = run_window();
    if (status.ok()) continue;
    sound_ = {};
    return status.error();
  }
  if (sound_.progress) (void)sound_.progress(sound_.samples.size(), sound_.samples.size());
  Transcript transcript = std::move(sound_.transcript);
  sound_ = {};
  transcript.language = language();
  return transcript;
}

std::string Transcriber::language() const {
  for (size_t i = 0; tokens_ && has_language_ && i < tokens_->languages().size(); ++i) {
    const WhisperTokens::Language& language = tokens_->languages()[i];
    if (language_ == language.id) return language.code;
  }
  return "";
}

template <class Slice>
Result<SliceResult> Transcriber::slice(const Slice& slice_of_window) {
  if (active() && sound_.count == 0) PUMICE_CHECK(begin_window());
  PUMICE_TRY(SliceResult result, slice_of_window());
  if (active() && !result.active) PUMICE_CHECK(finish_window());
  result.active = active();
  return result;
}

Result<SliceResult> Transcriber::advance(double budget, const SubmitSync& sync) {
  return failed(slice([&] { return generation_->advance(budget, sync); }));
}

Result<SliceResult> Transcriber::record(VkCommandBuffer into, double budget) {
  return failed(slice([&] { return generation_->record(into, budget); }));
}

} // namespace pumice
