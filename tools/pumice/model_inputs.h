#pragma once

#include <string>
#include <vector>

#include "io/safetensors.h"
#include "speech/audio_features.h"

// The tensors that a file gives a model, under the names that Hugging Face's models take, without their
// padding.
namespace pumice::command {

// What of a batch is not padding: of each row, the columns that are left.
struct Unpadded {
  uint64_t columns = 0; // padding included
  std::vector<std::vector<uint64_t>> rows;

  uint64_t longest() const;
};

struct TokenBatch {
  std::string source; // "FILE: tensor 'NAME'"
  Unpadded places;
  std::vector<std::vector<uint32_t>> ids;
};

struct EncoderBatch {
  std::string source;
  Unpadded places; // of tokens, patches or frames
  std::vector<EncoderInput> inputs;
  // The inputs' values are sound at 16 kHz, which replace_sound() makes features of.
  bool samples = false;
};

// Token ids [batch, tokens]. `mask` names a tensor of the same shape, which need not be there: 0 is padding.
Result<TokenBatch> read_tokens(const SafetensorsFile& file, const std::string& path, const std::string& name,
                               const std::string& mask, uint32_t vocabulary);

// input_ids with attention_mask and token_type_ids, pixel_values, or input_features, failing that
// audio_16khz: what the encoder reads.
Result<EncoderBatch> read_encoder_inputs(const SafetensorsFile& file, const std::string& path,
                                         const EncoderShape& shape);

// Makes features of sound.
Status replace_sound(const Model& model, EncoderBatch& batch);

// That an encoder has room for each of them.
Status check_lengths(const EncoderBatch& batch, const EncoderShape& shape);

// Most positions of a step of such inputs, where `wanted` would do: room for the longest, for nothing but
// whole pictures or sounds, and for no more than there is.
uint32_t step_positions(const EncoderBatch& batch, const EncoderShape& shape, uint32_t wanted);

} // namespace pumice::command
