#include "speech/transcription.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "speech/compression.h"
#include "speech/quiet_end.h"

namespace pumice {

namespace {

// A text that was decoded at a higher temperature is none to go on from.
constexpr float warmest_history = 0.5f;

} // namespace

Result<std::unique_ptr<Transcriber>> Transcriber::create(std::shared_ptr<const Model> model,
                                                         std::shared_ptr<const Tokenizer> tokenizer,
                                                         TranscriptionOptions options, const Making& making) {
  std::unique_ptr<Transcriber> result(new Transcriber(model));
  result->options_ = std::move(options);
  TranscriptionOptions& own = result->options_;
  if (own.temperatures.empty() || has_form(own.form)) own.temperatures = {0}; // what is the best in its form
  result->set_fallback(true);
  own.windows = std::max(own.windows, 1u);
  if (own.windows > 1 || has_form(own.form)) own.previous_text = false;
  result->tokenizer_ = std::move(tokenizer);
  PUMICE_TRY(result->features_, AudioFeatures::create(*model));
  GenerationConfig& config = result->generation_options_.config;
  PUMICE_TRY(config, read_generation_config(model->file(), model->shape().vocabulary));
  if (own.beams) config.beams = own.beams;
  if (own.max_tokens) config.max_tokens = own.max_tokens;
  result->generation_options_.sampling.temperature = 0;
  result->generation_options_.interrupt = own.interrupt;
  PUMICE_CHECK(result->set_rules());
  PUMICE_CHECK(result->set_form());
  PUMICE_CHECK(result->check_prompt());
  EncoderDecoderOptions session;
  session.beams = config.beams;
  session.inputs = own.windows;
  session.input_tokens = own.windows * model->shape().encoder->context;
  PUMICE_TRY(result->generation_,
             ResumableGeneration::create(model, session, result->generation_options_, making));
  if (own.words) {
    PUMICE_TRY(std::vector<AlignmentHead> heads, read_alignment_heads(model->file()));
    PUMICE_TRY(result->words_,
               WordTimer::create(std::move(model), result->tokenizer_, std::move(heads), making));
  }
  return result;
}

Status Transcriber::set_rules() {
  const LogMelShape& shape = features_->shape();
  const double seconds = static_cast<double>(shape.samples) / shape.sample_rate;
  Result<WhisperRules> made =
      tokenizer_ ? WhisperRules::create(*tokenizer_, model_->shape().vocabulary, seconds,
                                        {options_.language, options_.translate}, generation_options_.config)
                 : Error{Code::not_found, "the tokenizer does not have Whisper's special tokens"};
  const bool has_tokens = made.ok() || (tokenizer_ && WhisperTokens::find(*tokenizer_).ok());
  if (!made.ok() && has_tokens)
    return Error{made.error().code, fmt::format("{}: {}", model_->file().path(), made.error().message)};
  if (made.ok()) {
    rules_ = *std::move(made);
    generation_options_.config.prompt = {rules_->tokens().start()};
    generation_options_.rule = [this](size_t input, std::span<float> scores, std::span<const uint32_t> text) {
      if (input >= sound_.running.size()) return Status();
      return rules_->apply(sound_.windows[sound_.running[input]].text, scores, text);
    };
    return {};
  }
  if (options_.language.empty() && !options_.translate && !options_.timestamps && !options_.words &&
      options_.prompt.empty())
    return {};
  return Error{made.error().code,
               fmt::format("{}: {}, so a language, a task, a prompt or timestamps cannot be chosen: leave "
                           "them out",
                           model_->file().path(), made.error().message)};
}

Status Transcriber::set_form() {
  if (!has_form(options_.form)) return {};
  const std::string& path = model_->file().path();
  if (!rules_) {
    return Error{
        Code::unsupported,
        fmt::format("{}: the tokenizer does not have Whisper's special tokens, so its texts can have "
                    "no form: leave it out",
                    path)};
  }
  if (options_.timestamps)
    return Error{Code::invalid_argument, "a text that has a form has no timestamps: leave them out"};
  PUMICE_TRY(FormRule form, FormRule::create(options_.form, tokenizer_, generation_options_.config, path));
  rules_->set_form(std::move(form));
  return {};
}

// The text that the options give. Its last tokens count, as many as half of the decoder's context has room
// for.
Status Transcriber::check_prompt() {
  if (options_.prompt.empty()) return {};
  if (!rules_->previous_token()) {
    return Error{Code::unsupported,
                 fmt::format("{}: the tokenizer has no token \"<|startofprev|>\", so the model takes no "
                             "prompt: leave it out",
                             model_->file().path())};
  }
  const std::string text = options_.prompt.front() == ' ' ? options_.prompt : " " + options_.prompt;
  const Tokenizer::Part part{text, Tokenizer::SpecialTokens::as_text};
  prompt_ = tokenizer_->encode(std::span(&part, 1), false);
  return {};
}

// The start token, after the text that the windows go on from.
std::vector<uint32_t> Transcriber::prompt() const {
  if (!rules_) return generation_options_.config.prompt;
  const uint32_t start = rules_->tokens().start();
  std::vector<uint32_t> before = options_.previous_text ? sound_.history : prompt_;
  if (before.empty() || !rules_->previous_token()) return {start};
  const size_t most = std::max<size_t>(model_->shape().context / 2, 2) - 1;
  std::vector<uint32_t> all = {*rules_->previous_token()};
  all.insert(all.end(), before.end() - static_cast<ptrdiff_t>(std::min(before.size(), most)), before.end());
  all.push_back(start);
  return all;
}

Transcriber::Written Transcriber::written(const Hypothesis& best, const Window& window) const {
  const GenerationConfig& config = generation_options_.config;
  const size_t forced = std::min(window.text.forced.size(), best.tokens.size());
  Written written;
  written.tokens.assign(best.tokens.begin() + static_cast<ptrdiff_t>(forced), best.tokens.end());
  const auto length = static_cast<float>(std::max<size_t>(written.tokens.size(), 1));
  if (rules_ && window.text.temperature > 0) {
    written.log_probability = static_cast<float>(window.text.log_probability / length);
  } else if (rules_) {
    written.log_probability = best.score * std::pow(length, config.length_penalty - 1);
  }
  if (!written.tokens.empty() && std::ranges::count(config.ends, written.tokens.back())) {
    written.tokens.pop_back();
  }
  written.compression = static_cast<float>(compression_ratio(text_of(written.tokens)));
  return written;
}

// Without timestamps.
std::string Transcriber::text_of(std::span<const uint32_t> tokens) const {
  if (!tokenizer_) return {};
  std::vector<uint32_t> spoken(tokens.begin(), tokens.end());
  if (rules_) std::erase_if(spoken, [&](uint32_t token) { return rules_->tokens().is_timestamp(token); });
  return tokenizer_->decode(spoken, false);
}

bool Transcriber::is_silent(const Written& written, const WindowText& text) const {
  return rules_ && rules_->knows_speech() && text.no_speech > options_.no_speech &&
         !(written.log_probability && *written.log_probability > options_.log_probability);
}

// Whether no other temperature is tried.
bool Transcriber::is_good(const Written& written, const WindowText& text) const {
  if (!rules_ || is_silent(written, text)) return true;
  return written.compression <= options_.compression && *written.log_probability >= options_.log_probability;
}

TranscriptSegment Transcriber::segment(const Window& window, const TimedTokens& piece) const {
  const double rate = features_->shape().sample_rate;
  const double from = static_cast<double>(window.at) / rate,
               to = static_cast<double>(window.at + window.count) / rate;
  TranscriptSegment result;
  result.start = std::min(from + piece.start * WhisperTokens::kStep, to);
  result.end = std::min(from + piece.end * WhisperTokens::kStep, to);
  result.tokens = piece.tokens;
  result.text = text_of(piece.tokens);
  result.log_probability = window.written->log_probability;
  if (rules_ && rules_->knows_speech()) result.no_speech = window.text.no_speech;
  result.temperature = window.text.temperature;
  result.compression = window.written->compression;
  return result;
}

std::vector<TranscriptSegment> Transcriber::segments(const Window& window, uint32_t& next) const {
  const double seconds = static_cast<double>(window.count) / features_->shape().sample_rate;
  const auto length = static_cast<uint32_t>(std::ceil(seconds / WhisperTokens::kStep - 1e-6));
  TimedPieces cut{{{0, length, window.written->tokens}}, length};
  if (rules_ && rules_->timestamps())
    cut = cut_at_timestamps(window.written->tokens, rules_->tokens().first_timestamp(), length);
  next = cut.next < length ? cut.next : 0;
  if (options_.windows > 1) {
    // The next window begins elsewhere, so what follows the last timestamp is not heard again.
    size_t taken = 0;
    for (const TimedTokens& piece : cut.pieces) taken += piece.tokens.size();
    const std::span<const uint32_t> rest = std::span(window.written->tokens).subspan(taken);
    if (!rest.empty()) cut.pieces.push_back({std::min(cut.next, length), length, {rest.begin(), rest.end()}});
    next = 0;
  }
  std::vector<TranscriptSegment> result;
  for (const TimedTokens& piece : cut.pieces) {
    TranscriptSegment made = segment(window, piece);
    const bool empty =
        tokenizer_ ? made.text.find_first_not_of(" \n\t") == std::string::npos : made.tokens.empty();
    if (!empty) result.push_back(std::move(made));
  }
  return result;
}

Status Transcriber::add_words(const Window& window, std::vector<TranscriptSegment>& segments) {
  if (!words_) return {};
  const LogMelShape& shape = features_->shape();
  SpokenText text;
  text.features = window.features;
  text.prefix = rules_->prefix_without_timestamps();
  text.end = rules_->tokens().end();
  text.spaced = separates_words(rules_->language());
  const uint32_t positions = model_->shape().encoder->context;
  text.position_seconds = static_cast<double>(shape.samples) / shape.sample_rate / positions;
  const double share = static_cast<double>(window.count) / shape.samples;
  text.positions = std::clamp(static_cast<uint32_t>(std::ceil(share * positions)), 1u, positions);
  for (const TranscriptSegment& segment : segments) {
    for (uint32_t token : segment.tokens) {
      if (!rules_->tokens().is_timestamp(token)) text.tokens.push_back(token);
    }
  }
  PUMICE_TRY(const std::vector<TimedWord> words, words_->words(text));
  const double from = static_cast<double>(window.at) / shape.sample_rate;
  // A word that crosses segments belongs to the first.
  size_t next = 0;
  for (TranscriptSegment& segment : segments) {
    const auto of_text = [&](uint32_t token) { return !rules_->tokens().is_timestamp(token); };
    const auto wanted = static_cast<size_t>(std::ranges::count_if(segment.tokens, of_text));
    for (size_t taken = 0; next < words.size() && taken < wanted; ++next) {
      TimedWord word = words[next];
      taken += word.tokens;
      word.start += from;
      word.end += from;
      segment.words.push_back(std::move(word));
    }
  }
  return {};
}

Status Transcriber::begin(std::span<const float> samples, WindowFunction on_window, Progress progress) {
  return begin(source_of(samples), std::move(on_window), std::move(progress));
}

Status Transcriber::begin(std::unique_ptr<SoundSource> source, WindowFunction on_window, Progress progress) {
  PUMICE_CHECK(generation_->stop());
  sound_ = {};
  sound_.reader = std::make_unique<SoundReader>(std::move(source), features_->shape().sample_rate,
                                                options_.voice_activity);
  sound_.on_window = std::move(on_window);
  sound_.progress = std::move(progress);
  sound_.history = prompt_;
  return failed(start_sound());
}

// Ends the sound where it was cancelled.
template <class T>
T Transcriber::failed(T result) {
  if (!result.ok() && result.error().code == Code::cancelled) sound_ = {};
  return result;
}

// A sound that does not fit one window has timestamps, unless its texts have a form.
Status Transcriber::start_sound() {
  if (!rules_) return {};
  const size_t longest = features_->shape().samples;
  bool timestamps = options_.timestamps;
  if (!timestamps && !has_form(options_.form)) {
    PUMICE_TRY(const std::span<const float> first, sound_.reader->samples(0, longest + 1));
    timestamps = first.size() > longest;
  }
  GenerationConfig& config = generation_options_.config;
  config.forced_tokens = rules_->start(timestamps);
  if (options_.max_tokens) config.max_tokens = options_.max_tokens + config.forced_tokens;
  return {};
}

// Adds the window that begins with the next speech. False: there is none any more.
Result<bool> Transcriber::add_window(uint64_t& at) {
  const LogMelShape& shape = features_->shape();
  const EncoderShape& encoder = *model_->shape().encoder;
  const bool ends_quietly = options_.windows > 1 || encoder.kind == InputKind::samples;
  for (;;) {
    PUMICE_TRY(const std::optional<uint64_t> begin, sound_.reader->speech(at));
    if (!begin) return false;
    PUMICE_TRY(std::span<const float> samples, sound_.reader->samples(*begin, shape.samples));
    if (ends_quietly && samples.size() == shape.samples)
      samples = samples.first(quiet_end(samples, shape.sample_rate));
    Window window;
    window.at = *begin;
    window.count = samples.size();
    at = window.at + window.count;
    // What is shorter than a frame of an encoder of samples has no speech.
    if (encoder.frames(static_cast<uint32_t>(window.count)) == 0) continue;
    PUMICE_TRY(window.features, features_->compute(samples));
    sound_.windows.push_back(std::move(window));
    return true;
  }
}

// Takes in the next windows, and begins to decode them; or ends the sound.
Status Transcriber::begin_windows() {
  const bool wanted = !sound_.progress || sound_.progress(sound_.at, sound_.reader->total());
  if (!wanted || generation_->cancelled()) return Error{Code::cancelled, "cancelled between two windows"};
  uint64_t at = sound_.at;
  while (sound_.windows.size() < options_.windows) {
    PUMICE_TRY(const bool added, add_window(at));
    if (!added) break;
  }
  if (sound_.windows.empty()) {
    end_sound();
    return {};
  }
  sound_.at = sound_.windows[0].at;
  sound_.attempt = 0;
  generation_options_.config.prompt = prompt();
  for (size_t i = 0; i < sound_.windows.size(); ++i) sound_.running.push_back(i);
  return start_decoding({});
}

void Transcriber::end_sound() {
  const uint64_t total = sound_.reader->total();
  if (sound_.progress) (void)sound_.progress(total, total);
  sound_.reader.reset();
}

// Decodes the windows that run: those of them at these places, or all.
Status Transcriber::start_decoding(std::optional<std::vector<size_t>> again) {
  const float temperature = options_.temperatures[sound_.attempt];
  for (const size_t i : sound_.running) {
    Window& window = sound_.windows[i];
    window.text.temperature = rules_ ? temperature : 0;
    window.text.seed = (options_.seed + window.at) * options_.temperatures.size() + sound_.attempt;
  }
  GenerationOptions options = generation_options_;
  options.keep_inputs = rules_ && sound_.attempt + 1 < attempts_;
  if (temperature > 0) options.config.beams = 1;
  if (again) return generation_->again(*again, std::move(options));
  std::vector<EncoderInput> inputs;
  for (const size_t i : sound_.running) inputs.emplace_back().values = sound_.windows[i].features;
  return generation_->start(std::move(inputs), std::move(options));
}

// Takes the texts, and decodes those again that are not good, if there is another temperature.
Status Transcriber::finish_windows() {
  PUMICE_TRY(const std::span<const std::vector<Hypothesis>> texts, generation_->texts());
  const bool last = !rules_ || sound_.attempt + 1 == attempts_;
  std::vector<size_t> again, running;
  for (size_t i = 0; i < sound_.running.size(); ++i) {
    Window& window = sound_.windows[sound_.running[i]];
    Written written = this->written(texts[i].at(0), window);
    if (last || is_good(written, window.text)) {
      window.written = std::move(written);
    } else {
      again.push_back(i);
      running.push_back(sound_.running[i]);
    }
  }
  sound_.running = std::move(running);
  if (!sound_.running.empty()) {
    ++sound_.attempt;
    return start_decoding(std::move(again));
  }
  for (Window& window : sound_.windows) {
    if (generation_->cancelled()) return Error{Code::cancelled, "cancelled between two windows"};
    PUMICE_CHECK(finish_window(window));
  }
  sound_.windows.clear();
  PUMICE_TRY(const std::optional<uint64_t> next, sound_.reader->speech(sound_.at));
  if (!next) end_sound();
  return {};
}

Status Transcriber::finish_window(Window& window) {
  uint32_t next = 0; // steps; 0: behind the window
  if (!is_silent(*window.written, window.text)) {
    TranscriptWindow result;
    result.seconds = static_cast<double>(window.count) / features_->shape().sample_rate;
    result.segments = segments(window, next);
    PUMICE_CHECK(add_words(window, result.segments));
    result.features = std::move(window.features);
    result.prompt = generation_options_.config.prompt;
    result.prompt.insert(result.prompt.end(), window.text.forced.begin(), window.text.forced.end());
    result.tokens = window.written->tokens;
    std::vector<TranscriptSegment>& all = sound_.transcript.segments;
    all.insert(all.end(), result.segments.begin(), result.segments.end());
    if (window.text.temperature > warmest_history) {
      sound_.history.clear();
    } else if (options_.previous_text) {
      for (const TranscriptSegment& each : result.segments)
        sound_.history.insert(sound_.history.end(), each.tokens.begin(), each.tokens.end());
      const size_t most = model_->shape().context;
      if (sound_.history.size() > most)
        sound_.history.erase(sound_.history.begin(), sound_.history.end() - static_cast<ptrdiff_t>(most));
    }
    if (sound_.on_window) sound_.on_window(result);
  }
  const double samples = next * WhisperTokens::kStep * features_->shape().sample_rate;
  const auto moved = static_cast<size_t>(std::llround(samples));
  sound_.at = window.at + (moved > 0 ? std::min(moved, window.count) : window.count);
  return {};
}

Status Transcriber::run_windows() {
  if (sound_.windows.empty()) PUMICE_CHECK(begin_windows());
  if (!active()) return {};
  PUMICE_CHECK(generation_->run());
  return finish_windows();
}

Result<Transcript> Transcriber::transcribe(std::span<const float> samples, WindowFunction on_window,
                                           Progress progress) {
  return transcribe(source_of(samples), std::move(on_window), std::move(progress));
}

Result<Transcript> Transcriber::transcribe(std::unique_ptr<SoundSource> source, WindowFunction on_window,
                                           Progress progress) {
  PUMICE_CHECK(begin(std::move(source), std::move(on_window), std::move(progress)));
  return run();
}

Result<Transcript> Transcriber::run() {
  while (active()) {
    Status status = run_windows();
    if (status.ok()) continue;
    sound_ = {};
    return status.error();
  }
  Transcript transcript = std::move(sound_.transcript);
  sound_ = {};
  return with_language(std::move(transcript));
}

Transcript Transcriber::with_language(Transcript transcript) const {
  transcript.language = language();
  transcript.language_probability = language_probability();
  return transcript;
}

std::string Transcriber::language() const {
  return rules_ ? rules_->language() : "";
}

float Transcriber::language_probability() const {
  return rules_ ? rules_->language_probability() : 0;
}

Result<Transcript> Transcriber::detect_language(std::unique_ptr<SoundSource> source) {
  PUMICE_CHECK(begin(std::move(source), {}));
  const uint32_t most = std::exchange(generation_options_.config.max_tokens, 1);
  Status status = begin_windows();
  if (status.ok() && active()) status = generation_->run();
  generation_options_.config.max_tokens = most;
  sound_ = {};
  PUMICE_CHECK(std::move(status));
  return with_language({});
}

Result<SliceResult> Transcriber::slice_of_windows(const SliceRequest& request) {
  if (active() && sound_.windows.empty()) PUMICE_CHECK(begin_windows());
  PUMICE_TRY(SliceResult result, generation_->slice(request));
  if (active() && !result.active) PUMICE_CHECK(finish_windows());
  result.active = active();
  return result;
}

Result<SliceResult> Transcriber::slice(const SliceRequest& request) {
  return failed(slice_of_windows(request));
}

} // namespace pumice
