#include "models/marian/marian.h"

#include "models/bart/bart.h"

namespace pumice {

// Marian (Junczys-Dowmunt et al. 2018), of which the Opus-MT models are: BART with the sinusoidal positions
// of 2017, and mostly one vocabulary for each pair of languages.
Result<std::unique_ptr<ModelDefinition>> open_marian(const ModelFile& file) {
  BartFamily family;
  family.sinusoidal_positions = true;
  family.separate_vocabularies = true;
  return open_bart_family(file, family);
}

} // namespace pumice
