#pragma once

#include <functional>
#include <optional>

#include "kernel/pooling/pooling.h"
#include "models/encoder/config.h"
#include "models/encoder/masked_head.h"
#include "models/stack/builder.h"

namespace pumice {

// Describes an encoder, in which each position attends to the whole input.
class EncoderBuilder : public StackBuilder {
public:
  EncoderBuilder(const EncoderConfig& config, bool gguf, const ModelFile* file);

  const EncoderConfig& config() const { return config_; }

  TensorId attend(uint32_t layer, const AttentionInputs& inputs, const AttentionStyle& style) override;
  // An attention that is none of the layers'.
  TensorId attend_apart(const AttentionInputs& inputs, const AttentionStyle& style = {});
  // Sets the last hidden state, the result of the final norm, which a head of each token reads.
  void finish(TensorId x);
  // The same, where such a head reads what `before` makes of that.
  void finish(TensorId x, const std::function<TensorId(TensorId x)>& before);

  // Heads read each input's first row.
  TensorId first_rows(TensorId x); // [outputs, hidden]
  // The row of each input that the rule names.
  TensorId picked_rows(TensorId x, const PickRows& rule);
  void pooler_output(TensorId x) { pooler_output_ = x; }
  void logits(TensorId x, const TensorName& name); // a projection to the labels
  void logits(TensorId x) { logits_ = x; }         // [outputs, labels]

  // Where the file has the head of a masked language model, and no other gives logits: "logits" of each
  // position, "masked_logits" of the outputs, and "sparse_embedding", for each input the largest logit of
  // each token, at least 0. Nothing is added to the graph unless one of them is read.
  void masked_head(const MaskedHeadNames& names, Activation activation);

  // Stores the keys and values for a decoder layer's cross-attention.
  void store_memory(uint32_t decoder_layer, TensorId keys, TensorId values);
  // Projects x to keys and values and stores them, for each of the decoder's layers.
  void store_memory(TensorId x, const LayerNames& decoder);

  // What may be read: what add_pooled_tensors() adds and the stack's tensors; where the model has them, a row
  // for each input of "pooler_output" and "logits"; and what the architecture has added.
  EncoderGraph take();

private:
  void add_masked_tensors();
  // Returns the queries, rotated if the layer rotates.
  TensorId rotate_and_store(const AttentionInputs& inputs, const AttentionStyle& style, bool in_window);

  const EncoderConfig& config_;
  TensorId last_hidden_state_ = 0;
  std::optional<TensorId> pooler_output_, logits_;
  std::optional<MaskedHead> masked_head_;
  std::vector<TensorId> memory_; // what stores the keys and values of each decoder layer
};

} // namespace pumice
