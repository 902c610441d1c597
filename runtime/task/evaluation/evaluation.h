#pragma once

#include <optional>
#include <string>
#include <vector>

#include "generate/forced_pass.h"
#include "generate/picture_prompt.h"
#include "task/evaluation/model_inputs.h"

namespace pumice {

// The inputs of an evaluation, a single run of a model on tensors: of the encoder, of the decoder, or of
// both, as the model needs them.
struct EvalBatch {
  std::optional<EncoderBatch> encoder;
  std::optional<TokenBatch> decoder;
  std::vector<PicturePrompt> prompts; // the decoder's, where pictures are in them

  size_t rows() const { return encoder ? encoder->inputs.size() : decoder->ids.size(); }
  ForcedInput input(size_t row) const;
  bool is_padding(size_t row) const; // whether the whole row is padding
};

// An output tensor of the whole batch. Padding is zero. The shape is [batch, tokens, width]; for attention
// weights [batch, heads, queries, keys]; for outputs with one row for each input [batch, width].
class EvalOutput {
public:
  // `batch` must outlive the object.
  EvalOutput(ForcedPass& pass, const EvalBatch& batch, std::string name);

  const std::string& name() const { return name_; }
  // Stores the values that the pass returned for row `row` of the batch.
  void place(size_t row, std::span<const float> values);
  // `rows`: only the first so many of the batch.
  SafetensorsFile::Entry entry(uint64_t rows = UINT64_MAX) const;
  std::span<const float> values() const { return values_; }

private:
  void place_token(float* to, size_t row, std::span<const float> values) const;

  std::string name_;
  const Unpadded* queries_ = nullptr; // null: the output has one row for each input
  const Unpadded* keys_ = nullptr;    // for attention weights only
  std::vector<uint64_t> shape_;
  size_t width_ = 0; // values that the pass returns for each token
  std::vector<float> values_;
};

// What an encoder reads of sound, whether it was given or made here: [batch, mels, frames].
class InputFeatures {
public:
  static constexpr const char* name = "input_features";

  InputFeatures(const EncoderBatch& batch, const EncoderShape& shape);
  SafetensorsFile::Entry entry() const { return {name, "F32", shape_, std::as_bytes(std::span(values_))}; }

private:
  std::vector<uint64_t> shape_;
  std::vector<float> values_;
};

} // namespace pumice
