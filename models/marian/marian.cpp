#include "models/marian/marian.h"

#include "models/bart/bart.h"

namespace pumice {

// Marian (Junczys-Dowmunt et al. 2018), such as the Opus-MT models: BART with sinusoidal positions, and
// usually one vocabulary for both languages.
Result<std::unique_ptr<ModelDefinition>> open_marian(const ModelFile& file) {
  BartFamily family;
  family.sinusoids = {SinusoidLayout::halves};
  family.separate_vocabularies = true;
  return open_bart_family(file, family);
}

} // namespace pumice
