#include "models/mbart/mbart.h"

#include "models/bart/bart.h"

namespace pumice {

// mBART (Liu et al. 2020) and mBART-50 (Tang et al. 2020): BART with norms before sublayers.
Result<std::unique_ptr<ModelDefinition>> open_mbart(const ModelFile& file) {
  BartFamily family;
  family.norm_first = true;
  return open_bart_family(file, family);
}

} // namespace pumice
