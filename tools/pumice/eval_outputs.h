#pragma once

#include <optional>
#include <string>
#include <vector>

#include "generate/forced_pass.h"
#include "model_inputs.h"

namespace pumice::command {

// What an eval runs on: an encoder's inputs, a decoder's tokens, or both, as the model has them.
struct EvalBatch {
  std::optional<EncoderBatch> encoder;
  std::optional<TokenBatch> decoder;

  size_t rows() const { return encoder ? encoder->inputs.size() : decoder->ids.size(); }
  ForcedInput input(size_t row) const;
  bool is_padding(size_t row) const; // all of it
};

// A tensor of the whole batch, zero where there is padding: [batch, tokens, width]; of attention weights
// [batch, heads, queries, keys]; of what an encoder makes of a whole input [batch, width].
class EvalOutput {
public:
  // The batch has to outlive it.
  EvalOutput(ForcedPass& pass, const EvalBatch& batch, std::string name);

  const std::string& name() const { return name_; }
  // Puts in place what the pass gave for one row of the batch.
  void place(size_t row, std::span<const float> values);
  SafetensorsFile::Entry entry() const;

private:
  void place_token(float* to, size_t row, std::span<const float> values) const;

  std::string name_;
  const Unpadded* queries_ = nullptr; // null: there is a single row for each input
  const Unpadded* keys_ = nullptr;    // of attention weights
  std::vector<uint64_t> shape_;
  size_t width_ = 0; // of what the pass gives for a token
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

} // namespace pumice::command
