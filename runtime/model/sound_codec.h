#pragma once

#include <optional>

#include "model/architecture.h"

namespace pumice {

// How an encoder makes a sound of codes. A frame of an input is a token for each codebook in turn, whose
// number is that of the codebook times `codes` and the code.
struct SoundCodec {
  static constexpr const char* samples = "samples"; // of the graph, one after the other in an input's rows

  uint32_t codebooks = 1;
  uint32_t codes = 0; // of each
  uint32_t sample_rate = 0;
  uint32_t frame = 0;   // samples
  uint32_t lacking = 0; // samples at the end of an input
  uint32_t reach = 0;   // frames before and after one that its samples depend on

  uint64_t samples_of(uint64_t frames) const {
    return frames * frame > lacking ? frames * frame - lacking : 0;
  }
};

// What the definition of such a model is besides.
class SoundCodecModel {
public:
  virtual ~SoundCodecModel() = default;
  virtual const SoundCodec& codec() const = 0;
};

// Nothing for other models.
inline std::optional<SoundCodec> sound_codec(const ModelDefinition& definition) {
  const auto* model = dynamic_cast<const SoundCodecModel*>(&definition);
  return model ? std::optional(model->codec()) : std::nullopt;
}

} // namespace pumice
