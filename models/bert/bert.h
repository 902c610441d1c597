#pragma once

#include <string_view>

#include "kernel/activation.h"
#include "model/architecture.h"

namespace pumice {

// How a model that is derived from BERT differs from it.
struct BertFamily {
  std::string_view prefix = "bert."; // of tensor names, if the file has heads
  uint32_t position_offset = 0;      // the position table's row of the first position
  // The classifier has a dense layer of its own and reads the last hidden state, not the pooler's result.
  bool classifier_has_dense = false;
  Activation classifier_activation = Activation::tanh; // of that layer
};

Result<std::unique_ptr<ModelDefinition>> open_bert_family(const ModelFile& file, const BertFamily& family);
Result<std::unique_ptr<ModelDefinition>> open_bert(const ModelFile& file);

} // namespace pumice
