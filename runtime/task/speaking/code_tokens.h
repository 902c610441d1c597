#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "kernel/sampling/sampling.h"
#include "model/sound_codec.h"
#include "text/tokenizer.h"

namespace pumice {

// The tokens of a vocabulary that are codes of a sound, as OuteTTS spells them: "<|c1_17|>" is code 17 of the
// first codebook.
class CodeTokens {
public:
  struct Code {
    uint32_t codebook = 0, code = 0;
  };

  // `path`: of the model, for messages. Error: unsupported where the vocabulary lacks one of the codec's
  // codes.
  static Result<CodeTokens> find(const Tokenizer& tokenizer, const SoundCodec& codec,
                                 const std::string& path);

  // Null: the token is no code.
  const Code* code(uint32_t token) const;
  // Codes that the codec does not have; they are not to be drawn.
  const std::vector<LogitBias>& beyond() const { return beyond_; }

private:
  std::unordered_map<uint32_t, Code> codes_;
  std::vector<LogitBias> beyond_;
};

// Whether a vocabulary has such tokens. `tokenizer` may be null.
bool speaks(const Tokenizer* tokenizer);

// The codes that a model has written, and the inputs of a codec that make their sound, a chunk at a time. A
// chunk's input has the frames around it that its samples depend on, so that they are those of the whole
// sound.
class CodeFrames {
public:
  CodeFrames(const SoundCodec& codec, uint32_t chunk)
      : codec_(codec), chunk_(chunk), codes_(codec.codebooks) {}

  // Frames of an input, at most.
  uint32_t most() const { return chunk_ + 2 * codec_.reach; }

  // The codes of a codebook come in their order, whatever comes of others meanwhile.
  void add(const CodeTokens::Code& code) { codes_[code.codebook].push_back(code.code); }
  size_t frames() const; // that have all their codes

  // The tokens of the next chunk's input, if it can be made. `ended`: there are no further codes.
  std::vector<uint32_t> next(bool ended);
  // The chunk's samples, of what the codec has made of next().
  std::span<const float> samples(std::span<const float> made) const;
  // Goes on to the chunk after it.
  void done() { done_ += taken_; }

private:
  SoundCodec codec_;
  uint32_t chunk_;
  std::vector<std::vector<uint32_t>> codes_; // of each codebook
  // Frames: those that have their samples, and of the input that next() gave: how many, those before the
  // chunk, and the chunk.
  size_t done_ = 0;
  size_t input_ = 0, before_ = 0, taken_ = 0;
};

} // namespace pumice
