#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "generate/resumable_generation.h"
#include "speech/audio_features.h"
#include "speech/timestamps.h"
#include "text/whisper_tokens.h"

namespace pumice {

struct TranscriptionOptions {
  std::string language;    // its code, for example "en"; empty: detected in the first window
  bool translate = false;  // into English
  bool timestamps = false; // also for a sound that fits one window; longer sounds always have them
  uint32_t beams = 0;      // 0: as the model's settings say
  uint32_t max_tokens = 0; // of a window; 0: as the model's settings say, or as many as fit
  // A window counts as silent if its probability of no speech is above `no_speech`, and the mean logarithm of
  // its tokens' probabilities is at most `log_probability`.
  float no_speech = 0.6f;
  float log_probability = -1;
  // Checked between submissions: once it is set, transcribe() returns `cancelled`. Null: cancel() sets one.
  const std::atomic<bool>* interrupt = nullptr;
  bool prepared = false; // all kernels are compiled when the transcriber is created
};

struct TranscriptSegment {
  double start = 0, end = 0;    // seconds
  std::vector<uint32_t> tokens; // timestamps included
  std::string text;             // empty without a tokenizer
  // Of its window: the mean logarithm of the tokens' probabilities, and the probability of no speech.
  std::optional<float> log_probability, no_speech;
};

// The result of one window.
struct TranscriptWindow {
  std::vector<float> features;  // that the encoder read
  std::vector<uint32_t> prompt; // of the decoder
  std::vector<uint32_t> tokens; // that were written after it, without the end token
  std::vector<TranscriptSegment> segments;
};

using WindowFunction = std::function<void(const TranscriptWindow&)>;

struct Transcript {
  std::string language; // its code; empty where the model has no tokens for languages
  std::vector<TranscriptSegment> segments;
};

// Transcribes speech of any length, window by window, like Whisper (Radford et al. 2022): forced tokens tell
// the decoder the language and the task. If it writes timestamps, a window begins at the last timestamp of
// the one before; otherwise windows lie back to back. Models without such tokens are run without them. Runs
// in slices of time or all at once, with the same result. Used by one thread at a time, except cancel().
class Transcriber {
public:
  // `tokenizer` may be null.
  static Result<std::unique_ptr<Transcriber>> create(std::shared_ptr<const Model> model,
                                                     std::shared_ptr<const Tokenizer> tokenizer,
                                                     TranscriptionOptions options);

  const LogMelShape& shape() const { return features_->shape(); }
  EncoderDecoder& session() { return generation_->session(); }

  // Transcribes samples at shape().sample_rate. `on_window` is called after each window that is not silent;
  // progress counts samples.
  Result<Transcript> transcribe(std::span<const float> samples, WindowFunction on_window,
                                Progress progress = {});

  // The same piece by piece: begin(), then run(); or in slices advance(), which submits one of at most
  // `budget` expected seconds, or record(), which records it into the application's command buffer, until the
  // result is not active. The samples must stay where they are until then. The features of a window are
  // computed by the call that begins it.
  Status begin(std::span<const float> samples, WindowFunction on_window, Progress progress = {});
  Result<Transcript> run();
  Result<SliceResult> advance(double budget, const SubmitSync& sync = {});
  Result<SliceResult> record(VkCommandBuffer into, double budget);
  // Forgets slices in command buffers that will not be submitted. The window then begins again.
  Status discard() { return generation_->discard(); }
  // From any thread.
  void cancel() { generation_->cancel(); }

  // The code of the language of the current sound, as far as it is known; empty where the model has no tokens
  // for languages.
  std::string language() const;

private:
  // Tokens that the decoder wrote for a window.
  struct Written {
    std::vector<uint32_t> tokens;
    std::optional<float> log_probability;
  };

  // What is being transcribed.
  struct Sound {
    std::span<const float> samples;
    WindowFunction on_window;
    Progress progress;
    size_t at = 0;    // samples that are done; the window begins there
    size_t count = 0; // samples of the window; 0: it has not begun
    Transcript transcript;
  };

  explicit Transcriber(std::shared_ptr<const Model> model) : model_(std::move(model)) {}
  Status read_tokens();
  Status check_vocabulary() const;
  Status set_task();
  void set_rules();
  void start(bool timestamps);
  bool active() const { return sound_.at < sound_.samples.size(); }
  Status begin_window();
  Status finish_window();
  Status run_window();
  template <class T>
  T failed(T result);
  template <class Slice>
  Result<SliceResult> slice(const Slice& slice_of_window);
  void apply_rules_to(std::span<float> scores, std::span<const uint32_t> text);
  void detect_speech(std::span<const float> scores);
  Written written(const Hypothesis& best) const;
  bool is_silent(const Written& written) const;
  std::vector<TranscriptSegment> segments(const Written& written, double from, double to,
                                          uint32_t& next) const;
  TranscriptSegment segment(const Written& written, const TimedTokens& piece, double from, double to) const;

  std::shared_ptr<const Model> model_;
  TranscriptionOptions options_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<AudioFeatures> features_;
  GenerationOptions generation_options_;
  std::unique_ptr<ResumableGeneration> generation_;
  Sound sound_;
  std::optional<WhisperTokens> tokens_; // none: the vocabulary has no such tokens
  std::optional<uint32_t> no_speech_token_;
  std::vector<uint32_t> suppressed_, suppressed_first_;
  TimestampRule rule_;
  bool timestamps_ = false; // the current sound gets timestamps

  // Tokens that the decoder is forced to write after the start token: the language, which may have to be
  // detected first, the task, and whether there are timestamps.
  std::vector<uint32_t> forced_prefix_;
  bool has_language_ = false;
  std::optional<uint32_t> language_, task_;
  float no_speech_ = 0; // of the window
};

} // namespace pumice
