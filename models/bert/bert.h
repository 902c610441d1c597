#pragma once

#include <string_view>

#include "model/architecture.h"

namespace pumice {

// How a descendant of BERT differs from it.
struct BertFamily {
  std::string_view prefix = "bert."; // of Hugging Face's names, where the file has more than the encoder
  uint32_t position_offset = 0;      // the position table's row that is the first position's
  bool classifier_has_dense =
      false; // a classifier of its own over the last hidden state, not the pooler's result
};

Result<std::unique_ptr<ModelDefinition>> open_bert_family(const ModelFile& file, const BertFamily& family);
Result<std::unique_ptr<ModelDefinition>> open_bert(const ModelFile& file);

} // namespace pumice
