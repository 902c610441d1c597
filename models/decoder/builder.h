#pragma once

#include <deque>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "models/architecture.h"
#include "models/decoder/config.h"
#include "models/gguf_model.h"

namespace pumice {

// A tensor's name in each format, without the layer's prefix and without ".weight".
struct TensorName {
  std::string_view hugging_face;
  std::string_view gguf;
};

// What a tensor's GGUF twin has done to it.
struct GgufChange {
  uint32_t rotary_heads = 0; // of the pairs that llama.cpp keeps as neighbours
  float offset = 0;
  float scale = 1;
};

// How a layer's attention differs from the plainest.
struct AttentionStyle {
  bool input_bias = false;
  bool output_bias = false;
  float score_scale = 0;                // 0: 1 / sqrt(head_dim)
  float soft_cap = 0;                   // 0: none
  bool head_norms = false;              // RMS norms of each head's query and key
  float head_norm_offset = 0;           // added to their weights
  const RotaryConfig* rotary = nullptr; // null: the config's
};

// The projections of one layer's attention, however a file stores them.
struct AttentionInputs {
  TensorId query = 0, key = 0, value = 0;
};

// Describes a model once: its weights, under the names of either format, and its graph. With a file the
// weights are found in it and checked; without one they are only listed. The first error is kept, and what
// follows goes on with weights that are not there.
class DecoderBuilder {
public:
  DecoderBuilder(const DecoderConfig& config, bool gguf, const ModelFile* file);

  const DecoderConfig& config() const { return config_; }
  bool gguf() const { return gguf_; }
  Graph& graph() { return result_.graph; }

  // Names that follow get this in front of them.
  void prefix(std::string hugging_face, std::string gguf);
  void layer(uint32_t layer, std::string_view hugging_face = "model.layers.{}.");

  // Weights.

  // A tensor of the shape [rows, columns], or [rows] where columns is 0.
  WeightView tensor(const TensorName& name, std::string_view suffix, uint64_t rows, uint64_t columns,
                    std::string_view component, const GgufChange& change = {});
  // One that Hugging Face keeps the other way round, [columns, rows].
  WeightView transposed_tensor(const TensorName& name, uint64_t rows, uint64_t columns,
                               std::string_view component);
  // Parts of one tensor that are rows of their own, `counts` of each. Interleaved: Hugging Face's file has
  // `interleaved_run` rows of each part in turn, GGUF's one part after the other.
  std::vector<WeightView> fused_tensor(const TensorName& name, std::string_view suffix,
                                       std::span<const uint64_t> counts, uint64_t columns,
                                       uint64_t interleaved_run, std::string_view component);
  // A matrix for each expert: tensors of their own in Hugging Face's file, whose name has {} for the number,
  // and one of three dimensions in GGUF.
  std::vector<WeightView> expert_tensors(const TensorName& name, uint32_t experts, uint64_t rows,
                                         uint64_t columns);
  WeightId weight(const WeightView& view, std::string_view component);

  // Operations.

  std::string node_name(const TensorName& name) const;
  TensorId project(TensorId x, const TensorName& name, uint32_t rows, bool bias, std::string_view component);
  TensorId project(TensorId x, const std::string& name, const WeightView& weight, const WeightView* bias,
                   std::string_view component);
  // The norm's weights are `weight_offset` more than Hugging Face's file says; GGUF has it added already.
  TensorId rms_norm(TensorId x, const TensorName& name, float weight_offset = 0);
  // The weight of such a norm as the file has it, for an operation that has the norm in it.
  WeightId norm_weight(const TensorName& name, uint64_t size, float weight_offset, float gguf_scale = 1);
  TensorId layer_norm(TensorId x, const TensorName& name);
  // Separate projections under LLaMA's names.
  AttentionInputs query_key_value(TensorId x, const AttentionStyle& style);
  // Rotates, stores and attends; the output projection is not in it.
  TensorId attend(uint32_t layer, const AttentionInputs& inputs, const AttentionStyle& style);
  // Separate projections, attention and the output projection, under LLaMA's names.
  TensorId self_attention(uint32_t layer, TensorId x, const AttentionStyle& style);
  // LLaMA's names: gate, up, down.
  TensorId gated_feed_forward(TensorId x, bool bias = false);
  TensorId add(TensorId a, TensorId b, std::string_view name);

  using Sublayer = std::function<TensorId(TensorId x)>;
  // x + attention(norm(x)), and to that its own feed_forward(norm), under LLaMA's names.
  TensorId pre_norm_block(TensorId x, const Sublayer& attention, const Sublayer& feed_forward,
                          float norm_offset = 0);

  // The same with norms after the sublayers too, under Gemma's names.
  TensorId sandwich_norm_block(TensorId x, const Sublayer& attention, const Sublayer& feed_forward,
                               float norm_offset = 0);

  TensorId embed(const TensorName& name, float scale = 1);
  void hidden_state(TensorId x) { result_.hidden_states.push_back(x); }
  // The head over the rows whose logits are wanted. `x` has had the final norm.
  void finish(TensorId x, const TensorName& head, bool bias = false, float soft_cap = 0);
  // The whole of the plainest: embedding, `block` for each layer, a final RMS norm, the head.
  void decode(const std::function<TensorId(uint32_t layer, TensorId x)>& block, float embedding_scale = 1,
              float norm_offset = 0, float logit_soft_cap = 0);

  // Results.

  const Status& status() const { return status_; }
  const std::vector<WeightSpec>& specs() const { return specs_; }
  const std::vector<GgufTensor>& gguf_tensors() const { return gguf_tensors_; } // of a Hugging Face file
  DecoderGraph take() { return std::move(result_); }

private:
  const TensorView* find(const std::string& name, const std::vector<uint64_t>& shape,
                         std::string_view component);
  std::string full_name(const TensorName& name, std::string_view suffix, bool gguf) const;
  void twin(const TensorName& name, std::string_view suffix, std::vector<uint64_t> shape,
            std::vector<WeightView> parts, const GgufChange& change = {});

  const DecoderConfig& config_;
  const bool gguf_;
  const ModelFile* file_;
  std::string hugging_face_prefix_, gguf_prefix_;
  DecoderGraph result_;
  WeightView embedding_table_;
  Status status_;
  std::vector<WeightSpec> specs_;
  std::vector<GgufTensor> gguf_tensors_;
  std::map<std::string, const TensorView*> found_;
  std::deque<TensorView> listed_; // stand-ins
};

} // namespace pumice
