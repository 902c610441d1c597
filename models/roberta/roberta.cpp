#include "models/roberta/roberta.h"

#include "models/bert/bert.h"
#include "models/settings.h"

namespace pumice {

// RoBERTa (Liu et al. 2019), and so XLM-R: BERT whose positions begin after the number of the padding token,
// and whose classifier has a dense layer of its own.
Result<std::unique_ptr<ModelDefinition>> open_roberta(const ModelFile& file) {
  BertFamily family;
  family.prefix = "roberta.";
  family.classifier_has_dense = true;
  PUMICE_TRY(uint32_t padding, Settings(file).u32_or({"pad_token_id", ""}, 0, most::tokens, 1));
  family.position_offset = padding + 1;
  return open_bert_family(file, family);
}

} // namespace pumice
