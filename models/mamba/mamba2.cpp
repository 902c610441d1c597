#include "models/mamba/mamba.h"

namespace pumice {

namespace {

constexpr MambaSettingNames mamba2_settings = {"num_heads",   "head_dim", "n_groups", "state_size",
                                               "conv_kernel", "use_bias", "use_bias", "use_conv_bias"};

} // namespace

void build_attentionless(DecoderBuilder& builder,
                         const std::function<TensorId(DecoderBuilder& builder, TensorId x)>& mixer) {
  TensorId x = builder.embed({"backbone.embeddings", "token_embd"});
  for (uint32_t layer = 0; layer < builder.config().layers; ++layer) {
    builder.layer_input(x);
    builder.layer(layer, "backbone.layers.{}.");
    const TensorId y = mixer(builder, builder.norm(x, {"norm", "attn_norm"}));
    x = builder.add(y, x, "residual");
    builder.hidden_state(x); // the reference counts results of layers, not what they read
  }
  builder.prefix("", "");
  x = builder.norm(x, {"backbone.norm_f", "output_norm"});
  builder.hidden_state(x);
  builder.finish(x, {"lm_head", "output"});
}

// llama.cpp wants the first two.
nlohmann::json attentionless_metadata() {
  return {{"feed_forward_length", 0u},
          {"attention.head_count", 0u},
          {"attention.head_count_kv", nullptr},
          {"attention.key_length", nullptr},
          {"attention.value_length", nullptr}};
}

namespace {

// Mamba 2 (Dao and Gu 2024): no attention at all.
Status describe_mamba2(const Settings& settings, Decoder& d) {
  PUMICE_CHECK(settings.expect("rms_norm", true, true));
  PUMICE_TRY(const MambaConfig mamba, read_mamba(settings, mamba2_settings));
  d.config.attends.assign(d.config.layers, false);
  d.own_build = [config = mamba](const Decoder&, DecoderBuilder& builder) {
    build_attentionless(
        builder, [&](DecoderBuilder& own, TensorId x) { return pumice::mamba(own, x, config, "mixer."); });
  };
  add_mamba(settings, mamba, mamba2_settings, d);
  d.gguf_metadata.update(attentionless_metadata());
  return {};
}

} // namespace

Architectures mamba_models() {
  return {decoder("mamba2", {"mamba2"}, {"mamba2"},
                  {.heads = {"num_heads", "ssm.time_step_rank"},
                   .kv_heads = {},
                   .head_dim = {"head_dim", ""},
                   .feed_forward = {},
                   .norm_eps = {"layer_norm_epsilon", "attention.layer_norm_rms_epsilon"},
                   .default_context = 1 << 20, // its state has no end
                   .default_norm_eps = 1e-5f,
                   .rotary = false},
                  describe_mamba2)};
}

} // namespace pumice
