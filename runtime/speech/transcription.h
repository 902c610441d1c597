#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "generate/resumable_generation.h"
#include "speech/audio_features.h"
#include "speech/sound_source.h"
#include "speech/whisper_rules.h"
#include "speech/word_times.h"

namespace pumice {

struct TranscriptionOptions {
  std::string language;    // its code, for example "en"; empty: detected in the first window
  bool translate = false;  // into English
  bool timestamps = false; // also for a sound that fits one window; longer sounds always have them
  bool words = false;      // when each word was spoken; takes a second pass of the model over each window
  uint32_t beams = 0;      // 0: as the model's settings say
  uint32_t max_tokens = 0; // of a window; 0: as the model's settings say, or as many as fit
  std::string prompt;      // text that the first window is to go on from: names, spelling, the topic
  // Of each window's text, which then has no timestamps, does not go on from the one before, and is decoded
  // once.
  FormSource form = {};
  bool previous_text = true;  // a window goes on from the text before it
  bool voice_activity = true; // silence between windows is left out, and costs nothing (VoiceActivity)
  // Windows that are decoded together. With several, none depends on the one before: they end where it is
  // quiet, and no window goes on from another's text.
  uint32_t windows = 1;
  // A window is decoded with one temperature after the other, until its text compresses by at most
  // `compression`, and the mean logarithm of its tokens' probabilities is at least `log_probability`.
  std::vector<float> temperatures = {0, 0.2f, 0.4f, 0.6f, 0.8f, 1};
  float compression = 2.4f;
  float log_probability = -1;
  // A window counts as silent if its probability of no speech is above this, and that mean is at most
  // `log_probability`.
  float no_speech = 0.6f;
  uint64_t seed = 0; // of temperatures above 0
  // Checked between submissions: once it is set, transcribe() returns `cancelled`. Null: cancel() sets one.
  const std::atomic<bool>* interrupt = nullptr;
};

struct TranscriptSegment {
  double start = 0, end = 0;    // seconds
  std::vector<uint32_t> tokens; // timestamps included
  std::string text;             // empty without a tokenizer
  std::vector<TimedWord> words; // if they were asked for
  // Of its window: the mean logarithm of the tokens' probabilities, and the probability of no speech.
  std::optional<float> log_probability, no_speech;
  float temperature = 0; // that its window was decoded with
  float compression = 0; // how many times smaller its window's text becomes (compression_ratio)
};

// The result of one window.
struct TranscriptWindow {
  double seconds = 0;           // of its sound, without what fills the window up
  std::vector<float> features;  // that the encoder read
  std::vector<uint32_t> prompt; // of the decoder
  std::vector<uint32_t> tokens; // that were written after it, without the end token
  std::vector<TranscriptSegment> segments;
};

using WindowFunction = std::function<void(const TranscriptWindow&)>;

struct Transcript {
  std::string language;           // its code; empty where it is not known
  float language_probability = 0; // among the model's languages; 1 where it was given
  std::vector<TranscriptSegment> segments;
};

// Transcribes speech of any length, window by window, like Whisper (Radford et al. 2022): forced tokens tell
// the decoder the language and the task. If it writes timestamps, a window begins at the last timestamp of
// the one before; otherwise windows lie back to back. Models without such tokens are run without them; the
// windows of those that read samples (Moonshine) are no longer than their sound, and end where it is quiet.
// Runs in slices of time or all at once, with the same result. Memory does not grow with the sound. Used by
// one thread at a time, except cancel().
class Transcriber : public Work {
public:
  // `tokenizer` may be null.
  static Result<std::unique_ptr<Transcriber>> create(std::shared_ptr<const Model> model,
                                                     std::shared_ptr<const Tokenizer> tokenizer,
                                                     TranscriptionOptions options, const Making& making = {});

  const LogMelShape& shape() const { return features_->shape(); }
  EncoderDecoder& session() { return generation_->session(); }

  // Transcribes samples at shape().sample_rate. `on_window` is called after each window that is not silent;
  // progress counts samples.
  Result<Transcript> transcribe(std::span<const float> samples, WindowFunction on_window,
                                Progress progress = {});
  Result<Transcript> transcribe(std::unique_ptr<SoundSource> source, WindowFunction on_window,
                                Progress progress = {});

  // Whether a text that is not good is decoded again with the other temperatures, as at first. Between
  // sounds.
  void set_fallback(bool on) { attempts_ = on ? options_.temperatures.size() : 1; }

  // The same piece by piece: begin(), then run() or slice() until the result is not active. The samples must
  // stay where they are until then. The features of a window are computed by the call that begins it, its
  // words by the one that ends it. After discard() the window begins again.
  Status begin(std::span<const float> samples, WindowFunction on_window, Progress progress = {});
  Status begin(std::unique_ptr<SoundSource> source, WindowFunction on_window, Progress progress = {});
  Result<Transcript> run();
  Result<SliceResult> slice(const SliceRequest& request) override;
  Status discard() override { return generation_->discard(); }
  void cancel() override { generation_->cancel(); }

  // What is spoken at the beginning of a sound, without its text. Its language is empty where nothing is
  // spoken, or the model does not know languages.
  Result<Transcript> detect_language(std::unique_ptr<SoundSource> source);

  bool knows_languages() const { return rules_ && rules_->knows_languages(); }
  // The code of the language of the current sound, as far as it is known; empty where the model has no tokens
  // for languages.
  std::string language() const;
  float language_probability() const; // 1 where it was given, 0 where there are no such tokens

private:
  // Tokens that the decoder wrote for a window.
  struct Written {
    std::vector<uint32_t> tokens;
    std::optional<float> log_probability;
    float compression = 0;
  };

  // A part of the sound that is being transcribed.
  struct Window {
    uint64_t at = 0;  // its first sample
    size_t count = 0; // of samples
    std::vector<float> features;
    WindowText text;
    std::optional<Written> written; // once it is good enough
  };

  // What is being transcribed.
  struct Sound {
    std::unique_ptr<SoundReader> reader; // none: there is no sound, or it has ended
    WindowFunction on_window;
    Progress progress;
    uint64_t at = 0; // samples that are done; the next windows begin there
    std::vector<Window> windows;
    std::vector<size_t> running;   // those of them that are being decoded
    size_t attempt = 0;            // with which of the temperatures
    std::vector<uint32_t> history; // what was written and may be gone on from
    Transcript transcript;
  };

  explicit Transcriber(std::shared_ptr<const Model> model) : model_(std::move(model)) {}
  Status set_rules();
  Status set_form();
  Status check_prompt();
  bool active() const { return sound_.reader != nullptr; }
  Status start_sound();
  Status begin_windows();
  void end_sound();
  Result<bool> add_window(uint64_t& at);
  Status start_decoding(std::optional<std::vector<size_t>> again);
  Status finish_windows();
  Status finish_window(Window& window);
  Transcript with_language(Transcript transcript) const;
  Status run_windows();
  template <class T>
  T failed(T result);
  Result<SliceResult> slice_of_windows(const SliceRequest& request);
  std::vector<uint32_t> prompt() const;
  Written written(const Hypothesis& best, const Window& window) const;
  std::string text_of(std::span<const uint32_t> tokens) const;
  bool is_silent(const Written& written, const WindowText& text) const;
  bool is_good(const Written& written, const WindowText& text) const;
  std::vector<TranscriptSegment> segments(const Window& window, uint32_t& next) const;
  TranscriptSegment segment(const Window& window, const TimedTokens& piece) const;
  Status add_words(const Window& window, std::vector<TranscriptSegment>& segments);

  std::shared_ptr<const Model> model_;
  TranscriptionOptions options_;
  size_t attempts_ = 1; // temperatures that are tried at most
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<AudioFeatures> features_;
  GenerationOptions generation_options_;
  std::unique_ptr<ResumableGeneration> generation_;
  std::unique_ptr<WordTimer> words_;
  std::optional<WhisperRules> rules_; // none: the vocabulary has no such tokens
  std::vector<uint32_t> prompt_;      // of the options
  Sound sound_;
};

} // namespace pumice
