#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "generate/encoder_decoder.h"
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
  // Checked between submissions: once it is set, transcribe() returns `cancelled`.
  const std::atomic<bool>* interrupt = nullptr;
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

struct Transcript {
  std::string language; // its code; empty where the model has no tokens for languages
  std::vector<TranscriptSegment> segments;
};

// Transcribes speech of any length, window by window, like Whisper (Radford et al. 2022): forced tokens tell
// the decoder the language and the task. If it writes timestamps, a window begins at the last timestamp of
// the one before; otherwise windows lie back to back. Models without such tokens are run without them. Used
// by one thread at a time.
class Transcriber {
public:
  // `tokenizer` may be null.
  static Result<std::unique_ptr<Transcriber>> create(std::shared_ptr<const Model> model,
                                                     std::shared_ptr<const Tokenizer> tokenizer,
                                                     TranscriptionOptions options);

  const LogMelShape& shape() const { return features_->shape(); }
  EncoderDecoder& session() { return *session_; }

  // Transcribes samples at shape().sample_rate. `on_window` is called after each window that is not silent;
  // progress counts samples.
  Result<Transcript> transcribe(std::span<const float> samples,
                                const std::function<void(const TranscriptWindow&)>& on_window,
                                const Progress& progress = {});
  // The code of the language of the current sound, as far as it is known; empty where the model has no tokens
  // for languages.
  std::string language() const;

private:
  // Tokens that the decoder wrote for a window.
  struct Written {
    std::vector<uint32_t> tokens;
    std::optional<float> log_probability;
  };

  Transcriber() = default;
  Status read_tokens();
  Status check_vocabulary() const;
  Status set_task();
  void set_rules();
  void start(bool timestamps);
  void apply_rules_to(std::span<float> scores, std::span<const uint32_t> text);
  void detect_speech(std::span<const float> scores);
  Result<Written> write(const EncoderInput& input);
  bool is_silent(const Written& written) const;
  std::vector<TranscriptSegment> segments(const Written& written, double from, double to,
                                          uint32_t& next) const;
  TranscriptSegment segment(const Written& written, const TimedTokens& piece, double from, double to) const;

  TranscriptionOptions options_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<AudioFeatures> features_;
  std::unique_ptr<EncoderDecoder> session_;
  GenerationOptions generation_;
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
