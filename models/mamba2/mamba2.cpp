#include "models/mamba2/mamba2.h"

#include "model/gguf_model.h"
#include "models/decoder/model.h"
#include "models/recurrence/mamba.h"

namespace pumice {

namespace {

constexpr MambaSettingNames mamba2_settings = {"num_heads",   "head_dim", "n_groups", "state_size",
                                               "conv_kernel", "use_bias", "use_bias", "use_conv_bias"};

// Mamba 2 (Dao and Gu 2024): no attention at all.
class Mamba2 : public DecoderModel {
public:
  Mamba2(DecoderConfig config, bool gguf, const MambaConfig& mamba)
      : DecoderModel(std::move(config), gguf), mamba_(mamba) {}

  Result<GgufModel> gguf(const ModelFile& file) const override {
    PUMICE_CHECK(check_gguf_mamba(mamba_, file, mamba2_settings));
    return DecoderModel::gguf(file);
  }

protected:
  void build(DecoderBuilder& builder) const override {
    TensorId x = builder.embed({"backbone.embeddings", "token_embd"});
    uint32_t state = 0;
    for (uint32_t layer = 0; layer < config().layers; ++layer) {
      builder.layer_input(x);
      builder.layer(layer, "backbone.layers.{}.");
      const TensorId y = mamba(builder, builder.norm(x, {"norm", "attn_norm"}), mamba_, "mixer.", state);
      x = builder.add(y, x, "residual");
      builder.hidden_state(x); // the reference counts results of layers, not what they read
    }
    builder.prefix("", "");
    x = builder.norm(x, {"backbone.norm_f", "output_norm"});
    builder.hidden_state(x);
    builder.finish(x, {"lm_head", "output"});
  }

  std::vector<Hyperparameter> own_hyperparameters() const override { return pumice::hyperparameters(mamba_); }
  std::string_view gguf_architecture() const override { return "mamba2"; }
  nlohmann::json gguf_metadata() const override {
    nlohmann::json metadata = gguf_mamba(mamba_);
    // llama.cpp wants the first two, and there is no attention.
    metadata.update({{"feed_forward_length", 0u},
                     {"attention.head_count", 0u},
                     {"attention.head_count_kv", nullptr},
                     {"attention.key_length", nullptr},
                     {"attention.value_length", nullptr}});
    return metadata;
  }

private:
  MambaConfig mamba_;
};

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_mamba2(const ModelFile& file) {
  const Settings settings(file);
  DecoderConfigNames names;
  names.heads = {"num_heads", "ssm.time_step_rank"};
  names.kv_heads = names.feed_forward = {};
  names.head_dim = {"head_dim", ""};
  names.norm_eps.hugging_face = "layer_norm_epsilon";
  names.default_norm_eps = 1e-5f;
  names.default_context = 1 << 20; // its state has no end
  names.rotary = false;
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings, names));
  PUMICE_CHECK(settings.expect("rms_norm", true, true));
  PUMICE_TRY(const MambaConfig mamba, read_mamba(settings, mamba2_settings));
  config.attends.assign(config.layers, false);
  for (uint32_t layer = 0; layer < config.layers; ++layer) add_states(mamba, config.states);
  return std::unique_ptr<ModelDefinition>(
      std::make_unique<Mamba2>(std::move(config), settings.gguf(), mamba));
}

} // namespace pumice
