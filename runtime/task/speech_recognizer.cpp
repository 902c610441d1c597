#include "task/speech_recognizer.h"

#include <algorithm>

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
                                                                   SpeechSettings settings) {
  std::unique_ptr<SpeechRecognizer> result(new SpeechRecognizer(std::move(settings)));
  const SpeechSettings& kept_settings = result->settings_;
  result->path_ = model->file().path();
  if (kept_settings.letters) {
    const CtcOptions options = {std::max(kept_settings.transcription.beams, 1u),
                                kept_settings.transcription.prepared, kept_settings.transcription.compiling};
    PUMICE_TRY(result->ctc_, CtcTranscriber::create(std::move(model), *kept_settings.letters, options));
  } else {
    PUMICE_TRY(result->transcriber_,
               Transcriber::create(std::move(model), kept_settings.tokenizer, kept_settings.transcription));
  }
  return result;
}

Status SpeechRecognizer::begin(std::unique_ptr<SoundSource> source, const SoundLevel& level,
                               WindowFunction on_window, Progress progress) {
  if (ctc_) return ctc_->begin(std::move(source), level, std::move(on_window), std::move(progress));
  return transcriber_->begin(std::move(source), std::move(on_window), std::move(progress));
}

Result<Transcript> SpeechRecognizer::run() {
  return ctc_ ? ctc_->run() : transcriber_->run();
}

Transcript SpeechRecognizer::language() const {
  if (ctc_) return {};
  return {transcriber_->language(), transcriber_->language_probability(), {}};
}

Result<Transcript> SpeechRecognizer::detect_language(std::unique_ptr<SoundSource> source) {
  if (transcriber_ && transcriber_->knows_languages())
    return transcriber_->detect_language(std::move(source));
  return Error{Code::unsupported,
               fmt::format("{}: the model has no tokens for languages, so {} cannot be answered: use a "
                           "multilingual Whisper",
                           path_, settings_.names.detect_language)};
}

} // namespace pumice
