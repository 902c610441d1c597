#pragma once

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
  std::string language;    // its code, as "en"; empty: the one that the first window is heard in
  bool translate = false;  // into English
  bool timestamps = false; // also of a sound that one window holds; a longer one has them anyway
  uint32_t beams = 0;      // 0: as the model's settings say
  uint32_t max_tokens = 0; // of a window; 0: as the model's settings say, or as many as fit
  // A window is silent where this is exceeded by the probability of no speech, and not exceeded by the
  // logarithm of its tokens' probabilities, on average.
  float no_speech = 0.6f;
  float log_probability = -1;
};

struct TranscriptSegment {
  double start = 0, end = 0;    // seconds
  std::vector<uint32_t> tokens; // timestamps included
  std::string text;             // where there is a tokenizer
  // Of its window: the logarithm of its tokens' probabilities, on average, and the probability of no speech.
  std::optional<float> log_probability, no_speech;
};

// What was made of one window.
struct TranscriptWindow {
  std::vector<float> features;  // that the encoder read
  std::vector<uint32_t> prompt; // of the decoder
  std::vector<uint32_t> tokens; // that came after it, without the one that ends them
  std::vector<TranscriptSegment> segments;
};

struct Transcript {
  std::string language; // its code; empty where the model has no tokens for languages
  std::vector<TranscriptSegment> segments;
};

// Writes down what is said in a sound of any length, window by window, as Whisper does (Radford et al. 2022):
// the decoder is told the language and the task by tokens, and where it writes times, a window begins at the
// last time of the one before. A model whose vocabulary has no such tokens writes what comes, in windows that
// lie back to back. Used by one thread at a time.
class Transcriber {
public:
  // `tokenizer` may be null.
  static Result<std::unique_ptr<Transcriber>> create(std::shared_ptr<const Model> model,
                                                     std::shared_ptr<const Tokenizer> tokenizer,
                                                     TranscriptionOptions options);

  const LogMelShape& shape() const { return features_->shape(); }
  EncoderDecoder& session() { return *session_; }

  // Of samples at shape().sample_rate. `on_window` is called as windows are done, but for silent ones;
  // progress counts samples.
  Result<Transcript> transcribe(std::span<const float> samples,
                                const std::function<void(const TranscriptWindow&)>& on_window,
                                const Progress& progress = {});

private:
  // Tokens that were written about a window.
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
  void steer(std::span<float> scores, std::span<const uint32_t> text);
  void listen(std::span<const float> scores);
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
  std::optional<WhisperTokens> tokens_; // none: a vocabulary without them
  std::optional<uint32_t> no_speech_token_;
  std::vector<uint32_t> suppressed_, suppressed_first_;
  TimestampRule rule_;
  bool timestamps_ = false; // of this sound

  // What the decoder is told after the token that starts a transcript. The first one is the language, which
  // may have to be heard.
  std::vector<uint32_t> orders_;
  bool has_language_ = false;
  std::optional<uint32_t> language_, task_;
  float no_speech_ = 0; // of the window
};

} // namespace pumice
