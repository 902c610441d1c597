#include "models/electra/electra.h"

#include "models/bert/bert.h"

namespace pumice {

// ELECTRA (Clark et al. 2020), the discriminator: BERT without a pooler, whose embeddings may have fewer
// columns than its layers, and whose classifier has a dense layer with GELU.
Result<std::unique_ptr<ModelDefinition>> open_electra(const ModelFile& file) {
  BertFamily family;
  family.prefix = "electra.";
  family.classifier_has_dense = true;
  family.classifier_activation = Activation::gelu;
  return open_bert_family(file, family);
}

} // namespace pumice
