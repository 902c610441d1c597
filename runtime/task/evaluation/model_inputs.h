#pragma once

#include <string>
#include <vector>

#include "io/formats/safetensors.h"
#include "speech/audio_features.h"

// Reads the inputs of a model from the tensors of a file, without their padding. The tensors have the names
// of Hugging Face's models.
namespace pumice {

// A tensor of whole numbers [rows, columns]. A tensor with one dimension is a single row.
struct IdTable {
  std::string source; // "FILE: tensor 'NAME'"
  uint64_t rows = 0;
  uint64_t columns = 0;
  std::vector<int64_t> values;
};
// Finds a tensor of a file. If it is missing, the error says that `expected` was expected.
Result<const SafetensorsFile::Entry*> find_tensor(const SafetensorsFile& file, const std::string& path,
                                                  const std::string& name, const std::string& expected);
Result<IdTable> read_table(const SafetensorsFile& file, const std::string& path, const std::string& name);

// Which elements of a batch are not padding: the columns of each row.
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
  Unpadded places; // the tokens, patches or frames that are not padding
  std::vector<EncoderInput> inputs;
  // The values are sound samples at 16 kHz. replace_sound() turns them into features.
  bool samples = false;
};

// Reads token ids [batch, tokens]. `mask` is the name of an optional tensor of the same shape: 0 is padding.
Result<TokenBatch> read_tokens(const SafetensorsFile& file, const std::string& path, const std::string& name,
                               const std::string& mask, uint32_t vocabulary);

// Reads the inputs of the encoder: input_ids with attention_mask and token_type_ids; pixel_values; or
// input_features, and if that is missing audio_16khz.
Result<EncoderBatch> read_encoder_inputs(const SafetensorsFile& file, const std::string& path,
                                         const EncoderShape& shape);

// The name of the tensor that has the pictures or sounds of prompts, and all such names.
const char* prompt_pictures_name(const EncoderShape& shape);
inline constexpr const char* prompt_pictures_names[] = {"pixel_values", "input_features", "audio_16khz"};
// Reads the pictures of prompts: pixel_values as read_encoder_inputs() has them, or [batch, pictures,
// channels, height, width], where pictures of zeros are padding. pixel_attention_mask may name those alone.
// Where tiles have another size, they are in pixel_values_local, num_local_patches of each picture.
// Or the windows of sounds: input_features, of which feature_attention_mask says which frames are the
// sound's.
Result<EncoderBatch> read_prompt_pictures(const SafetensorsFile& file, const std::string& path,
                                          const EncoderShape& shape);

// Turns sound samples into the features that the encoder reads. Does nothing for other inputs.
Status replace_sound(const Model& model, EncoderBatch& batch);

// Checks that no input is longer than the encoder's context.
Status check_lengths(const EncoderBatch& batch, const EncoderShape& shape);

// The maximum number of positions of a step, near `wanted`: at least the longest input, at most all inputs,
// and for pictures and sounds a multiple of their size.
uint32_t step_positions(const EncoderBatch& batch, const EncoderShape& shape, uint32_t wanted);

} // namespace pumice
