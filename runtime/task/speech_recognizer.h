#pragma once

#include <memory>
#include <optional>
#include <string>

#include "model/architecture.h"
#include "speech/ctc.h"
#include "speech/transcription.h"
#include "task/option_names.h"

namespace pumice {

// How a model turns speech into text, by the options and its files. Known before it is loaded.
struct SpeechSettings {
  TranscriptionOptions transcription;
  std::shared_ptr<const Tokenizer> tokenizer; // null: of a model of letters, or results are ids of tokens
  std::optional<CtcVocabulary> letters;       // of a model that hears letters (wav2vec 2.0)
  uint32_t sample_rate = 0;
  OptionNames names;

  bool has_text() const { return letters ? !letters->letters.empty() : tokenizer != nullptr; }
};

// `more`: something is asked for that is no transcription, such as which language is spoken. Errors:
// unsupported for a model that does not hear, or one of letters that cannot do what was asked for.
Result<SpeechSettings> read_speech_settings(const ModelFile& file, const ModelDefinition& definition,
                                            const TranscriptionOptions& options, bool more = false,
                                            const OptionNames& names = {});

// Turns speech into text, window by window with Whisper's rules or letter by letter, in slices of time or all
// at once, with the same result. Used by one thread at a time, except cancel().
class SpeechRecognizer : public Work {
public:
  static Result<std::unique_ptr<SpeechRecognizer>> create(std::shared_ptr<const Model> model,
                                                          SpeechSettings settings);

  const SpeechSettings& settings() const { return settings_; }
  // Whether begin() wants a sound twice: its level is taken first.
  bool wants_level() const { return settings_.letters && settings_.letters->normalises; }
  // Of a model that does not hear letters; otherwise null.
  Transcriber* transcriber() const { return transcriber_.get(); }

  // Takes a sound at settings().sample_rate; see Transcriber. `level`: what wants_level() asks for.
  Status begin(std::unique_ptr<SoundSource> source, const SoundLevel& level, WindowFunction on_window,
               Progress progress = {});
  Result<Transcript> run();
  Result<SliceResult> slice(const SliceRequest& request) override { return work().slice(request); }
  Status discard() override { return work().discard(); }
  void cancel() override { work().cancel(); }

  // What is spoken, as far as it is known; its probability is 0 where the model has no tokens for languages.
  Transcript language() const;
  // What is spoken at the beginning of a sound, without its text; its language is empty where nothing is
  // spoken. unsupported where the model cannot tell.
  Result<Transcript> detect_language(std::unique_ptr<SoundSource> source);

private:
  explicit SpeechRecognizer(SpeechSettings settings) : settings_(std::move(settings)) {}
  Work& work() { return ctc_ ? static_cast<Work&>(*ctc_) : *transcriber_; }

  const SpeechSettings settings_;
  std::string path_; // of the model, for messages
  std::unique_ptr<Transcriber> transcriber_;
  std::unique_ptr<CtcTranscriber> ctc_;
};

} // namespace pumice
