#include "models/roberta/roberta.h"

#include "models/bert/bert.h"
#include "models/settings.h"

namespace pumice {

// RoBERTa (Liu et al. 2019) and XLM-R: BERT whose first position is the id of the padding token plus 1, and
// whose classifier has a dense layer of its own.
Result<std::unique_ptr<ModelDefinition>> open_roberta(const ModelFile& file) {
  BertFamily family;
  family.prefix = "roberta.";
  family.classifier_has_dense = true;
  PUMICE_TRY(uint32_t padding, Settings(file).u32_or({"pad_token_id", ""}, 0, limits::tokens, 1));
  family.position_offset = padding + 1;
  return open_bert_family(file, family);
}

} // namespace pumice
