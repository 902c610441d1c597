#include "models/mamba2/mamba2.h"

#include "model/gguf_model.h"
#include "models/decoder/model.h"
#include "models/recurrence/mamba.h"

namespace pumice {

namespace {

// Mamba 2 (Dao and Gu 2024): no attention at all.
class Mamba2 : public DecoderModel {
public:
  Mamba2(DecoderConfig config, bool gguf, const MambaConfig& mamba)
      : DecoderModel(std::move(config), gguf), mamba_(mamba) {}

  Result<GgufModel> gguf(const ModelFile& file) const override { return ModelDefinition::gguf(file); }

protected:
  void build(DecoderBuilder& builder) const override {
    TensorId x = builder.embed({"backbone.embeddings", ""});
    uint32_t state = 0;
    for (uint32_t layer = 0; layer < config().layers; ++layer) {
      builder.layer(layer, "backbone.layers.{}.");
      const TensorId y = mamba(builder, builder.norm(x, {"norm", ""}), mamba_, "mixer.", state);
      x = builder.add(y, x, "residual");
      builder.hidden_state(x); // the reference counts results of layers, not what they read
    }
    builder.prefix("", "");
    x = builder.norm(x, {"backbone.norm_f", ""});
    builder.hidden_state(x);
    builder.finish(x, {"lm_head", ""});
  }

  std::vector<Hyperparameter> own_hyperparameters() const override { return pumice::hyperparameters(mamba_); }
  std::string_view gguf_architecture() const override { return ""; }

private:
  MambaConfig mamba_;
};

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_mamba2(const ModelFile& file) {
  const Settings settings(file);
  DecoderConfigNames names;
  names.heads = {"num_heads", ""};
  names.norm_eps = {"layer_norm_epsilon", ""};
  names.default_norm_eps = 1e-5f;
  names.default_context = 1 << 20; // its state has no end
  names.rotary = false;
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings, names));
  PUMICE_CHECK(settings.expect("rms_norm", true, true));
  MambaSettingNames own = {"num_heads",   "head_dim", "n_groups", "state_size",
                           "conv_kernel", "use_bias", "use_bias", "use_conv_bias"};
  PUMICE_TRY(const MambaConfig mamba, read_mamba(settings, own));
  config.attends.assign(config.layers, false);
  for (uint32_t layer = 0; layer < config.layers; ++layer) add_states(mamba, config.states);
  return std::unique_ptr<ModelDefinition>(
      std::make_unique<Mamba2>(std::move(config), settings.gguf(), mamba));
}

} // namespace pumice
