#include "models/mixtral/mixtral.h"

#include "models/decoder/mixture.h"
#include "models/decoder/model.h"

namespace pumice {

namespace {

// Mixtral (Jiang et al. 2024): Mistral's blocks with a mixture of experts as feed-forward; for each token, a
// router chooses a few of many experts.
class Mixtral : public DecoderModel {
public:
  Mixtral(DecoderConfig config, bool gguf, MixtureConfig mixture)
      : DecoderModel(std::move(config), gguf), mixture_(std::move(mixture)) {}

protected:
  void build(DecoderBuilder& builder) const override {
    builder.decode([&](uint32_t layer, TensorId x) {
      return builder.block(
          x, norms_before, [&](TensorId y) { return builder.self_attention(layer, y, {}); },
          [&](TensorId y) { return mixture(builder, y, mixture_, mixtral_names); });
    });
  }

  std::vector<Hyperparameter> own_hyperparameters() const override {
    return pumice::hyperparameters(mixture_);
  }
  std::string_view gguf_architecture() const override { return "llama"; }
  nlohmann::json gguf_metadata() const override {
    nlohmann::json metadata = {{"expert_count", mixture_.experts},
                               {"expert_used_count", mixture_.routing.used}};
    if (config().windows[0]) metadata["attention.sliding_window"] = config().windows[0];
    return metadata;
  }

private:
  MixtureConfig mixture_;
};

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_mixtral(const ModelFile& file) {
  const Settings settings = Settings::of_text(file);
  DecoderConfigNames names;
  names.default_norm_eps = 1e-5f;
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings, names));
  PUMICE_TRY(uint32_t window,
             settings.u32_or({"sliding_window", "attention.sliding_window"}, 0, limits::context, 0));
  config.windows.assign(config.layers, window);
  config.set_neighbouring_in_gguf(settings.gguf());
  PUMICE_TRY(MixtureConfig mixture, read_mixture(settings, config, {}));
  return std::unique_ptr<ModelDefinition>(
      std::make_unique<Mixtral>(std::move(config), settings.gguf(), std::move(mixture)));
}

} // namespace pumice
