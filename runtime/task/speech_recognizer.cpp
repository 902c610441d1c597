#include "task/speech_recognizer.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "model/vocabulary.h"
#include "speech/transducer.h"
#include "task/model_kind.h"

namespace pumice {

namespace {

// Null if the model has no tokenizer. Then the results are ids of tokens.
Result<std::shared_ptr<const Tokenizer>> find_tokenizer(const ModelFile& file) {
  Result<std::shared_ptr<const Tokenizer>> tokenizer = load_tokenizer(file);
  if (!tokenizer.ok() && tokenizer.error().code == Code::not_found) return std::shared_ptr<const Tokenizer>();
  return tokenizer;
}

// Of a model that hears letters (wav2vec 2.0).
Result<CtcVocabulary> read_letters(const ModelFile& file, const ModelDefinition& definition,
                                   const TranscriptionOptions& asked, bool more, const OptionNames& names) {
  if (!asked.language.empty() || asked.translate || asked.words || !asked.prompt.empty() ||
      has_form(asked.form) || more) {
    return Error{Code::unsupported, fmt::format("{} hears the letters of one language: leave {} out",
                                                file.path(), names.of_words)};
  }
  PUMICE_TRY(const EncoderGraph graph, definition.encoder_graph(file));
  if (!graph.readable.contains("logits") && !graph.readable.contains(Transducer::frames)) {
    return Error{
        Code::unsupported,
        fmt::format("{}: it has no head for letters ('lm_head.weight'): it was not trained to transcribe",
                    file.path())};
  }
  return read_ctc_vocabulary(file);
}

// What a decoder continues that hears a whole sound in its prompt.
Result<std::string> prompt_for_words(const ModelFile& file, const PictureTokens& shape,
                                     const TranscriptionOptions& asked, bool more, const OptionNames& names) {
  if (shape.transcription.empty())
    return wrong_kind(file, "it was not trained to write down speech by a prompt of its own");
  if (asked.translate || asked.timestamps || asked.words || !asked.prompt.empty() || asked.beams > 1 ||
      more) {
    return Error{Code::unsupported,
                 fmt::format("{} reads a whole sound in its prompt and writes its words: leave {} out",
                             file.path(), names.of_windows)};
  }
  const std::string& code = asked.language;
  if (code.find_first_not_of("abcdefghijklmnopqrstuvwxyz") != std::string::npos || code.size() > 3) {
    return Error{Code::invalid_argument,
                 fmt::format("{} is '{}': this model expects a code, such as en", names.language, code)};
  }
  std::string prompt = shape.transcription, spoken;
  if (!code.empty()) spoken = fmt::format(fmt::runtime(shape.spoken), fmt::arg("code", code));
  constexpr std::string_view place = "{language}";
  return prompt.replace(prompt.find(place), place.size(), spoken);
}

Result<CaptionerSettings> read_prompted(const ModelFile& file, const ModelShape& shape,
                                        std::shared_ptr<const Tokenizer> tokenizer,
                                        const TranscriptionOptions& asked, bool more,
                                        const OptionNames& names) {
  CaptionerOptions options;
  PUMICE_TRY(options.prompt, prompt_for_words(file, *shape.pictures, asked, more, names));
  options.writing.sampling.temperature = 0;
  options.writing.max_tokens = asked.max_tokens;
  options.form = asked.form;
  PUMICE_TRY(CaptionerSettings settings,
             read_captioner_settings(file, shape, std::move(tokenizer), options, names));
  settings.writes_down = asked.max_tokens == 0;
  return settings;
}

} // namespace

Result<SpeechSettings> read_speech_settings(const ModelFile& file, const ModelDefinition& definition,
                                            const TranscriptionOptions& options, bool more,
                                            const OptionNames& names) {
  SpeechSettings settings;
  settings.transcription = options;
  settings.names = names;
  if (has_form(options.form)) {
    if (const Result<form::Grammar> form = parse_form(options.form); !form.ok()) return form.error();
  }
  const ModelShape shape = definition.shape();
  if (shape.pictures && shape.pictures->sounds) {
    PUMICE_TRY(settings.tokenizer, load_tokenizer(file));
    PUMICE_TRY(settings.prompted, read_prompted(file, shape, settings.tokenizer, options, more, names));
    settings.sample_rate = settings.prompted->sound->spectrum.sample_rate;
    return settings;
  }
  const bool samples = shape.encoder && shape.encoder->kind == InputKind::samples;
  if (samples && !shape.has_decoder()) {
    PUMICE_TRY(settings.letters, read_letters(file, definition, options, more, names));
    settings.sample_rate = settings.letters->sample_rate;
    return settings;
  }
  if (!samples && (!shape.encoder || shape.encoder->kind != InputKind::features))
    return wrong_kind(file, "it does not read sound");
  PUMICE_TRY(const LogMelShape sound, read_sound_shape(file, shape));
  settings.sample_rate = sound.sample_rate;
  PUMICE_TRY(settings.tokenizer, find_tokenizer(file));
  return settings;
}

Result<std::unique_ptr<SpeechRecognizer>> SpeechRecognizer::create(std::shared_ptr<const Model> model,
                                                                   SpeechSettings settings,
                                                                   std::shared_ptr<const Model> tower,
                                                                   const Making& making) {
  std::unique_ptr<SpeechRecognizer> result(new SpeechRecognizer(std::move(model), std::move(settings)));
  const SpeechSettings& own = result->settings_;
  const TranscriptionOptions& asked = own.transcription;
  if (own.prompted) {
    PUMICE_TRY(result->captioner_,
               Captioner::create(result->model_, std::move(tower), own.tokenizer, *own.prompted, making));
  } else if (own.letters) {
    const CtcOptions options = {std::max(asked.beams, 1u)};
    PUMICE_TRY(result->ctc_, CtcTranscriber::create(result->model_, *own.letters, options, making));
  } else {
    PUMICE_TRY(result->transcriber_, Transcriber::create(result->model_, own.tokenizer, asked, making));
  }
  return result;
}

Work& SpeechRecognizer::work() {
  if (captioner_) return *captioner_;
  return ctc_ ? static_cast<Work&>(*ctc_) : *transcriber_;
}

Status SpeechRecognizer::begin(std::unique_ptr<SoundSource> source, const SoundLevel& level,
                               WindowFunction on_window, Progress progress) {
  if (captioner_) return begin_prompted(*source, std::move(on_window), progress);
  if (ctc_) return ctc_->begin(std::move(source), level, std::move(on_window), std::move(progress));
  return transcriber_->begin(std::move(source), std::move(on_window), std::move(progress));
}

// Of a prompt, all of the sound is needed before anything is computed.
Status SpeechRecognizer::begin_prompted(SoundSource& source, WindowFunction on_window,
                                        const Progress& progress) {
  constexpr size_t piece = 1 << 18;
  const Error stopped{Code::cancelled, "transcribing was cancelled"};
  const size_t most = most_samples(*settings_.prompted->sound);
  cancelled_ = false;
  on_window_ = {};
  preparing_.reset();
  PUMICE_CHECK(captioner_->begin({})); // ends what is under way
  std::vector<float> samples;
  size_t before = 0;
  do {
    before = samples.size();
    PUMICE_CHECK(source.read(piece, samples));
    if (cancelled_ || (progress && !progress(0, source.samples()))) return stopped;
  } while (samples.size() > before && samples.size() <= most);
  const size_t count = samples.size();
  PUMICE_TRY(preparing_, begin_sound(std::move(samples), *settings_.prompted->sound, "the sound"));
  const std::string& language = settings_.transcription.language;
  transcript_ = {language, language.empty() ? 0.0f : 1.0f, {}};
  seconds_ = static_cast<double>(count) / settings_.sample_rate;
  on_window_ = std::move(on_window);
  return {};
}

// Goes on with the sound's spectrum, and begins the text once that is done.
Status SpeechRecognizer::prepare(std::chrono::steady_clock::time_point until) {
  do {
    if (cancelled_ || model_->context().interrupted())
      return Error{Code::cancelled, "transcribing was cancelled"};
    if (preparing_->spectrum.advance()) continue;
    std::vector<PreparedPicture> sounds(1, preparing_->finish());
    preparing_.reset();
    PUMICE_CHECK(captioner_->begin(std::move(sounds)));
    if (cancelled_) captioner_->cancel(); // begin() forgets what was cancelled before it
    return {};
  } while (std::chrono::steady_clock::now() < until);
  return {};
}

// Tells of the text, once.
Status SpeechRecognizer::end_prompted() {
  if (!on_window_) return {};
  PUMICE_TRY(std::vector<std::vector<WrittenText>> texts, captioner_->texts());
  WrittenText& text = texts.front().front();
  TranscriptSegment segment;
  segment.end = seconds_;
  segment.tokens = std::move(text.tokens);
  segment.text = std::move(text.text);
  TranscriptWindow window;
  window.seconds = seconds_;
  window.tokens = segment.tokens;
  window.segments = {segment};
  transcript_.segments = {std::move(segment)};
  std::exchange(on_window_, {})(window);
  return {};
}

Result<Transcript> SpeechRecognizer::run() {
  if (!captioner_) return ctc_ ? ctc_->run() : transcriber_->run();
  PUMICE_CHECK(ended(preparing_ ? prepare(std::chrono::steady_clock::time_point::max()) : Status()));
  PUMICE_CHECK(ended(captioner_->run()));
  PUMICE_CHECK(end_prompted());
  return transcript_;
}

Result<SliceResult> SpeechRecognizer::slice(const SliceRequest& request) {
  if (preparing_) {
    // The host's part takes as much of the caller's time as the device's.
    constexpr double least_seconds = 1e-4, most_seconds = 2e-3;
    const std::chrono::duration<double> time(std::clamp(request.budget, least_seconds, most_seconds));
    PUMICE_CHECK(ended(prepare(std::chrono::steady_clock::now() +
                               std::chrono::duration_cast<std::chrono::steady_clock::duration>(time))));
  }
  PUMICE_TRY(SliceResult result, ended(work().slice(request)));
  if (preparing_) {
    result.active = true;
  } else if (captioner_ && !result.active) {
    PUMICE_CHECK(end_prompted());
  }
  return result;
}

// An error ends what is under way.
template <class T>
T SpeechRecognizer::ended(T result) {
  if (!result.ok()) {
    on_window_ = {};
    preparing_.reset();
  }
  return result;
}

void SpeechRecognizer::cancel() {
  cancelled_ = true;
  work().cancel();
}

Transcript SpeechRecognizer::language() const {
  if (captioner_) return {transcript_.language, transcript_.language_probability, {}};
  if (ctc_) return {};
  return {transcriber_->language(), transcriber_->language_probability(), {}};
}

Result<Transcript> SpeechRecognizer::detect_language(std::unique_ptr<SoundSource> source) {
  if (transcriber_ && transcriber_->knows_languages())
    return transcriber_->detect_language(std::move(source));
  return Error{Code::unsupported,
               fmt::format("{}: the model has no tokens for languages, so {} cannot be answered: use a "
                           "multilingual Whisper",
                           model_->file().path(), settings_.names.detect_language)};
}

} // namespace pumice
