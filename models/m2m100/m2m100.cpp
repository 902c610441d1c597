#include "models/m2m100/m2m100.h"

#include <fmt/format.h>

#include "models/bart/bart.h"

namespace pumice {

// M2M-100 (Fan et al. 2020) and NLLB-200 (NLLB Team 2022): BART with norms before sublayers and fairseq's
// sinusoidal positions, which are counted from the padding's id on.
Result<std::unique_ptr<ModelDefinition>> open_m2m100(const ModelFile& file) {
  PUMICE_TRY(const uint32_t width, Settings(file).u32({"d_model", ""}, 1, limits::columns));
  PUMICE_TRY(const uint32_t padding, Settings(file).u32_or({"pad_token_id", ""}, 0, limits::tokens, 1));
  if (width < 4 || width % 2 != 0) {
    return Settings(file).error({"d_model", ""},
                                fmt::format("expected an even number, at least 4; found {}", width));
  }
  BartFamily family;
  family.sinusoids = {SinusoidLayout::halves, SinusoidSpacing::closed, padding + 1};
  family.norm_first = true;
  family.scaled_embedding = true;
  family.activation = Activation::relu;
  return open_bart_family(file, family);
}

} // namespace pumice
