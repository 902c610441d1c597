#include "models/pegasus/pegasus.h"

#include "models/bart/bart.h"

namespace pumice {

// PEGASUS (Zhang et al. 2020): BART with norms before sublayers and sinusoidal positions.
Result<std::unique_ptr<ModelDefinition>> open_pegasus(const ModelFile& file) {
  BartFamily family;
  family.sinusoids = {SinusoidLayout::halves};
  family.norm_first = true;
  return open_bart_family(file, family);
}

} // namespace pumice
