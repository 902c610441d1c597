#include "models/llama/llama.h"

#include "models/decoder/model.h"
#include "models/mixtral/mixtral.h"

namespace pumice {

namespace {

// LLaMA 1 to 3 (Touvron et al. 2023) and models of the same form: pre-norm blocks of grouped-query attention
// with rotary positions and a gated feed-forward.
class Llama : public DecoderModel {
public:
  Llama(DecoderConfig config, bool gguf, const Biases& biases)
      : DecoderModel(std::move(config), gguf), biases_(biases) {}

protected:
  void build(DecoderBuilder& builder) const override {
    builder.decode([&](uint32_t layer, TensorId x) { return builder.llama_block(layer, x, biases_); });
  }

  std::vector<Hyperparameter> own_hyperparameters() const override {
    return pumice::hyperparameters(biases_);
  }
  std::string_view gguf_architecture() const override { return "llama"; }

private:
  Biases biases_;
};

Result<std::unique_ptr<ModelDefinition>> open_with_pictures(const Settings& settings,
                                                            std::optional<PictureTokens> pictures) {
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings));
  config.set_neighbouring_in_gguf(settings.gguf());
  PUMICE_TRY(Biases biases, read_biases(settings));
  // Mistral is "llama" in GGUF too.
  PUMICE_TRY(uint32_t window, settings.u32_or({"", "attention.sliding_window"}, 0, limits::context, 0));
  config.windows.assign(config.layers, window);
  config.pictures = std::move(pictures);
  return make_llama(std::move(config), settings.gguf(), biases);
}

} // namespace

std::unique_ptr<ModelDefinition> make_llama(DecoderConfig config, bool gguf, const Biases& biases) {
  return std::make_unique<Llama>(std::move(config), gguf, biases);
}

Result<std::unique_ptr<ModelDefinition>> open_llama(const ModelFile& file) {
  const Settings settings = Settings::of_text(file);
  // GGUF uses the name "llama" for Mixtral too.
  if (settings.has({"", "expert_count"})) {
    PUMICE_TRY(uint32_t experts, settings.fields().u32("llama.expert_count"));
    if (experts > 0) return open_mixtral(file);
  }
  return open_with_pictures(settings, {});
}

Result<std::unique_ptr<ModelDefinition>> open_llama_that_sees(const ModelFile& file, PictureTokens pictures) {
  return open_with_pictures(Settings(file), std::move(pictures));
}

} // namespace pumice
