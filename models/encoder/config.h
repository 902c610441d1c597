#pragma once

#include <string>
#include <vector>

#include "kernel/position/position.h"
#include "model/architecture.h"
#include "models/stack/config.h"

namespace pumice {

// The settings of an encoder besides those of its stack of layers.
struct EncoderConfig : StackConfig {
  InputKind kind = InputKind::tokens;
  uint32_t token_types = 1;
  bool any_length = false;
  std::vector<uint32_t> input_shape;           // for a picture or a sound
  std::vector<FrameConvolution> convolutions;  // over samples
  std::optional<PatchGroups> patch_groups;     // of patches
  std::optional<SoundWindows> sound_windows;   // see EncoderShape
  std::optional<ImagePreparation> preparation; // see EncoderShape
  std::vector<bool> patch_windows; // by layer: a patch sees those of its window; empty: all see all
  // The layers from the first such one on read rows that are so many patches each, see AttentionArgs.
  uint32_t first_joined = UINT32_MAX, joined = 1;
  std::optional<uint32_t> padding;                                  // see EncoderShape
  uint32_t picture_rows = 0;                                        // see EncoderShape
  uint32_t causal_from = 0;                                         // see EncoderShape
  std::vector<std::pair<std::string_view, std::string_view>> tasks; // see EncoderShape
  bool causal = false;                                              // a position attends to those before it
  std::vector<std::string> labels;                                  // of the classifier; empty: there is none
  // A head with logits of each token: the name of its matrix, and of its columns.
  TokenHead token_head = TokenHead::none;
  std::string_view token_matrix = {};
  std::vector<std::string> token_labels;
  RotaryConfig rotary;
  // By layer: positions that a token attends to on each side, with its own, 0: all; empty: all in all layers.
  std::vector<uint32_t> windows;
  std::vector<LayerCache> memory; // of each decoder layer's cross-attention, if there is a decoder

  // The index of the cache that the encoder's layers share, one after the other. It follows the decoder's
  // caches and those of its cross-attention.
  uint32_t own_cache() const { return 2 * static_cast<uint32_t>(memory.size()); }
  EncoderShape shape() const;
};

// How the encoder rotates its queries and keys, as read_rotary() of models/decoder/rotary.h reads it.
Result<RotaryConfig> read_rotary(const Settings& settings, const EncoderConfig& config);

// Finds the head of a model that labels each token or finds answers (BertForTokenClassification,
// BertForQuestionAnswering): what config.json says, or else what the file has. Returns whether there is one:
// then the model has no other. `classifies`: where config.json is silent, "classifier" is of whole inputs.
// `answers`: the name of the matrix that finds answers.
Result<bool> read_token_head(const Settings& settings, EncoderConfig& config, bool classifies,
                             std::string_view answers = "qa_outputs");

// Refuses a model whose config.json says that it is the decoder of a pair.
Status refuse_decoder(const Settings& settings);

std::vector<Hyperparameter> hyperparameters(const EncoderConfig& config);

} // namespace pumice
