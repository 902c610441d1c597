#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "generate/session.h"
#include "step/work/resumable_encoder.h"
#include "task/option_names.h"
#include "task/speaking/code_tokens.h"
#include "task/speaking/voice.h"

namespace pumice {

// What the makers of OuteTTS 1.0 draw with.
SamplingParams usual_speech_sampling();

struct SpeakerOptions {
  SamplingParams sampling = usual_speech_sampling();
  SessionSize size;        // its context is for the prompt and the sound together
  uint32_t max_tokens = 0; // of a sound; 0: as many as fit the context
  uint32_t chunk_ms = 0;   // of sound that comes at a time; 0: what costs little more than the whole at once
  std::optional<std::string> voice;         // a profile's JSON
  std::string voice_name = "options.voice"; // in messages
};

// How a model speaks, by the options and the files of both. Known before they are loaded.
struct SpeakerSettings {
  SoundCodec codec;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const CodeTokens> codes;
  std::shared_ptr<const Voice> voice; // null: the model takes one
  SamplingParams sampling;            // with what ends a sound
  SessionSize size;
  uint32_t max_tokens = 0;
  uint32_t chunk = 0; // frames
  std::string path;   // of the model, for messages
};

// `codec`: the definition of the model that makes a sound of codes. Errors: unsupported for models that do
// not do this.
Result<SpeakerSettings> read_speaker_settings(const ModelFile& file, const ModelDefinition& definition,
                                              const ModelFile& codec_file, const ModelDefinition& codec,
                                              std::shared_ptr<const Tokenizer> tokenizer,
                                              const SpeakerOptions& options);

// Where the codec of a model is if nobody says it: the folder "codec" in the model's, or beside its file.
std::filesystem::path usual_codec_path(const ModelFile& file);

// Speaks texts: a decoder writes codes, and a codec makes chunks of samples of them as they come. In slices
// of time or all at once, with the same samples. Used by one thread at a time, except cancel().
class Speaker : public Work {
public:
  static Result<std::unique_ptr<Speaker>> create(std::shared_ptr<const Model> model,
                                                 std::shared_ptr<const Model> codec, SpeakerSettings settings,
                                                 const Making& making = {});

  const SpeakerSettings& settings() const { return settings_; }
  // The voice, the sampling and the most tokens of further texts, of settings that were read of the same
  // files.
  void set(SpeakerSettings settings);
  uint32_t sample_rate() const { return settings_.codec.sample_rate; }

  // Receives the next samples, of one channel, from -1 to 1.
  using SamplesFunction = std::function<Status(std::span<const float> samples)>;
  // Takes a text, and computes nothing yet. Ends what is under way.
  Status begin(std::string_view text, SamplesFunction on_samples);
  // To the end; or in slices.
  Status run();
  Result<SliceResult> slice(const SliceRequest& request) override;
  Status discard() override;
  void cancel() override { cancelled_ = true; }

  // Of the last text.
  struct Figures {
    size_t prompt_tokens = 0, tokens = 0;
    uint64_t samples = 0;
    // Why no more tokens came: `stop` where the model has ended the sound itself.
    FinishReason finish_reason = FinishReason::none;
    bool cancelled = false;
  };
  const Figures& figures() const { return figures_; }
  uint64_t most_samples() const; // of a text, if all that the model writes were codes
  std::span<const uint32_t> tokens() const { return tokens_; } // that the model has written

private:
  explicit Speaker(SpeakerSettings settings)
      : settings_(std::move(settings)), frames_(settings_.codec, settings_.chunk) {}

  enum class State { none, writes, sounds, done };
  bool active() const { return state_ == State::writes || state_ == State::sounds; }
  Status take_tokens();
  Status take_samples();
  Status next();
  template <class T>
  T ended(T result);
  Result<SliceResult> next_slice(const SliceRequest& request);
  Status stop();
  Error cancelled(); // after stop()

  SpeakerSettings settings_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<ResumableEncoder> encoder_;
  std::atomic<bool> cancelled_ = false;
  // Of the text:
  State state_ = State::none;
  SamplesFunction on_samples_;
  CodeFrames frames_;
  EncoderInput input_; // that is made a sound
  std::vector<uint32_t> tokens_;
  Figures figures_;
};

} // namespace pumice
