#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "model/architecture.h"
#include "speech/ctc.h"
#include "speech/transcription.h"
#include "task/captioner.h"
#include "task/option_names.h"

namespace pumice {

// How a model turns speech into text, by the options and its files. Known before it is loaded.
struct SpeechSettings {
  TranscriptionOptions transcription;
  std::shared_ptr<const Tokenizer> tokenizer; // null: of a model of letters, or results are ids of tokens
  std::optional<CtcVocabulary> letters;       // of a model that hears letters (wav2vec 2.0)
  std::optional<CaptionerSettings> prompted;  // of a decoder that hears a whole sound in its prompt (Voxtral)
  uint32_t sample_rate = 0;
  OptionNames names;

  bool has_text() const { return letters ? !letters->letters.empty() : tokenizer != nullptr; }
};

// `more`: something is asked for that is no transcription, such as which language is spoken. Errors:
// unsupported for a model that does not hear, or one of letters that cannot do what was asked for.
Result<SpeechSettings> read_speech_settings(const ModelFile& file, const ModelDefinition& definition,
                                            const TranscriptionOptions& options, bool more = false,
                                            const OptionNames& names = {});

// Turns speech into text, window by window with Whisper's rules, letter by letter, or by a prompt with the
// whole sound, in slices of time or all at once, with the same result. Used by one thread at a time, except
// cancel().
class SpeechRecognizer : public Work {
public:
  // `tower`: with settings.prompted, what reads the sound for the prompt; otherwise null.
  static Result<std::unique_ptr<SpeechRecognizer>> create(std::shared_ptr<const Model> model,
                                                          SpeechSettings settings,
                                                          std::shared_ptr<const Model> tower = nullptr,
                                                          const Making& making = {});

  const SpeechSettings& settings() const { return settings_; }
  // Whether begin() wants a sound twice: its level is taken first.
  bool wants_level() const { return settings_.letters && settings_.letters->normalises; }
  // Of a model that hears windows, such as Whisper; otherwise null.
  Transcriber* transcriber() const { return transcriber_.get(); }

  // Takes a sound at settings().sample_rate; see Transcriber. `level`: what wants_level() asks for.
  Status begin(std::unique_ptr<SoundSource> source, const SoundLevel& level, WindowFunction on_window,
               Progress progress = {});
  Result<Transcript> run();
  Result<SliceResult> slice(const SliceRequest& request) override;
  Status discard() override { return work().discard(); }
  void cancel() override;

  // What is spoken, as far as it is known; its probability is 0 where the model has no tokens for languages.
  Transcript language() const;
  // What is spoken at the beginning of a sound, without its text; its language is empty where nothing is
  // spoken. unsupported where the model cannot tell.
  Result<Transcript> detect_language(std::unique_ptr<SoundSource> source);

private:
  SpeechRecognizer(std::shared_ptr<const Model> model, SpeechSettings settings)
      : settings_(std::move(settings)), model_(std::move(model)) {}
  Work& work();
  Status begin_prompted(SoundSource& source, WindowFunction on_window, const Progress& progress);
  Status prepare(std::chrono::steady_clock::time_point until);
  Status end_prompted();
  template <class T>
  T ended(T result);

  const SpeechSettings settings_;
  const std::shared_ptr<const Model> model_;
  std::unique_ptr<Transcriber> transcriber_;
  std::unique_ptr<CtcTranscriber> ctc_;

  std::unique_ptr<Captioner> captioner_; // with settings_.prompted; of its sound:
  std::atomic<bool> cancelled_ = false;  // while it is read and prepared
  std::optional<PreparingSound> preparing_;
  double seconds_ = 0;
  WindowFunction on_window_; // empty: the sound has ended, or there is none
  Transcript transcript_;
};

} // namespace pumice
