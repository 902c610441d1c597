#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "kernel/activation.h"

namespace pumice {

// Hugging Face's names of the head of a masked language model (Devlin et al. 2018): a dense layer, a norm,
// and a product with the table of tokens, or a matrix like it.
struct MaskedHeadNames {
  std::string_view dense, norm;
  std::string_view table;               // without such a tensor: that of the embeddings
  std::vector<std::string_view> biases; // of the product; the first of them that the file has
};

// BERT's and those of models that have its names.
MaskedHeadNames bert_masked_head();
// RoBERTa's.
MaskedHeadNames roberta_masked_head();

// The head's weights.
struct MaskedHead {
  WeightView dense, norm, table;
  std::optional<WeightView> dense_bias, norm_bias, bias;
  Activation activation = Activation::none;
  float norm_eps = 0;

  // The logits of the vocabulary for each row of x. Adds the head to the graph: only where it is asked for.
  TensorId logits(Graph& graph, const std::string& name, TensorId x) const;
};

} // namespace pumice
