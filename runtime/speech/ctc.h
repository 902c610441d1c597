#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "speech/transcription.h"
#include "step/work/resumable_encoder.h"

namespace pumice {

class Transducer;
class TransducerDecoding;

// Connectionist temporal classification (Graves et al. 2006): each frame has a score for each letter and for
// a blank. A text stands for all paths that become it when neighbouring equal letters are merged and blanks
// then left out.

// A letter, and the frames in which it was heard.
struct HeardLetter {
  uint32_t token = 0;
  uint32_t first = 0, end = 0;
};

// The text of the likeliest path. scores: [frames, vocabulary], logits or log-probabilities.
std::vector<HeardLetter> ctc_greedy(std::span<const float> scores, uint32_t vocabulary, uint32_t blank);

// The likeliest text among `beams` that are kept after each frame, by the sum over its paths (prefix beam
// search, Hannun et al. 2014). Letters have the frames of their likeliest place.
std::vector<HeardLetter> ctc_beam_search(std::span<const float> scores, uint32_t vocabulary, uint32_t blank,
                                         uint32_t beams);

// What a folder's vocab.json or tokenizer, config.json and preprocessor_config.json say of the letters and
// the sound.
struct CtcVocabulary {
  std::vector<std::string> letters; // by token, or parts of words (Parakeet); empty where they are not known
  uint32_t blank = 0;
  std::string delimiter = "|"; // between words
  uint32_t sample_rate = 16000;
  bool normalises = true; // samples to mean 0 and variance 1

  // Empty for a token that stands for no text.
  std::string text_of(uint32_t token) const;
};
Result<CtcVocabulary> read_ctc_vocabulary(const ModelFile& file);

// What brings all windows of a sound to mean 0 and variance 1, as the whole sound has them then.
class SoundLevel {
public:
  void add(std::span<const float> samples);
  void normalise(std::span<float> samples) const;

private:
  uint64_t count_ = 0;
  double sum_ = 0, squares_ = 0;
};

struct CtcOptions {
  uint32_t beams = 1; // 1: the likeliest path
};

// Transcribes speech of any length by a model of samples with a head for letters, or with a transducer, in
// windows that end where it is quiet. Runs in slices of time or all at once, with the same result. Memory
// does not grow with the sound. Used by one thread at a time, except cancel().
class CtcTranscriber : public Work {
public:
  static Result<std::unique_ptr<CtcTranscriber>> create(std::shared_ptr<const Model> model,
                                                        CtcVocabulary vocabulary, const CtcOptions& options,
                                                        const Making& making = {});
  ~CtcTranscriber() override;

  // As Transcriber has it. A segment is a run of words without a pause. `level`: of the whole sound, for
  // models that want samples normalised.
  Status begin(std::unique_ptr<SoundSource> source, const SoundLevel& level, WindowFunction on_window,
               Progress progress = {});
  Result<Transcript> run();
  Result<SliceResult> slice(const SliceRequest& request) override;
  Status discard() override { return encoding_->discard(); }
  void cancel() override;

private:
  // What is being transcribed.
  struct Sound {
    std::unique_ptr<SoundReader> reader; // none: there is no sound, or it has ended
    SoundLevel level;
    WindowFunction on_window;
    Progress progress;
    uint64_t at = 0;                              // samples that are done; the next window begins there
    EncoderInput window;                          // empty: it was not begun
    std::unique_ptr<TransducerDecoding> decoding; // of the window's frames, which are done
    Transcript transcript;
  };

  CtcTranscriber(std::unique_ptr<ResumableEncoder> encoding, const EncoderShape& shape,
                 CtcVocabulary vocabulary, std::shared_ptr<const Transducer> transducer,
                 const CtcOptions& options);
  bool active() const { return sound_.reader != nullptr; }
  Status begin_window();
  Status decode(double seconds);
  Status finish_window(std::span<const HeardLetter> heard);
  Status run_window();
  Result<SliceResult> slice_of_window(const SliceRequest& request);
  std::vector<TranscriptSegment> segments(std::span<const HeardLetter> letters, size_t at, size_t samples,
                                          uint32_t frames) const;

  std::unique_ptr<ResumableEncoder> encoding_;
  const EncoderShape shape_;
  CtcVocabulary vocabulary_;
  std::shared_ptr<const Transducer> transducer_; // null: a classification
  CtcOptions options_;
  Sound sound_;
  std::atomic<bool> cancelled_ = false;
};

} // namespace pumice
