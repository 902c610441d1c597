#include "models/decoder/decoder.h"

namespace pumice {

namespace {

// GLM-4 of 2025 (GLM Team): norms around both sublayers, one tensor for gate and up, and neighbouring
// dimensions of half of each head rotated in pairs.
Status describe_glm4(const Settings& settings, Decoder& d) {
  d.norms = {{"input_layernorm", "attn_norm"},
             {"post_self_attn_layernorm", "post_attention_norm"},
             {"post_attention_layernorm", "ffn_norm"},
             {"post_mlp_layernorm", "post_ffw_norm"}};
  d.fused_gate = true;
  d.config.rotary.pairs = RotaryPairs::neighbouring;
  PUMICE_CHECK(d.read_biases(settings, attention_biases));
  d.style.output_bias = false;
  return {};
}

// GLM-4 of 2024 and ChatGLM (GLM Team): the same without norms of results. Converted from ChatGLM's own
// files, queries, keys and values are one tensor.
Status describe_glm(const Settings& settings, Decoder& d) {
  d.fused_gate = true;
  d.config.rotary.pairs = RotaryPairs::neighbouring;
  PUMICE_CHECK(d.read_biases(settings, {.feed_forward = {}, .attention_by_default = true}));
  const ModelFile& file = settings.file();
  if (settings.gguf() && file.find("blk.0.attn_qkv.weight")) {
    d.fused_inputs = {{"", "attn_qkv"}};
    d.style.input_bias = file.find("blk.0.attn_qkv.bias");
  }
  d.style.output_bias = false;
  return {};
}

// GLM-4.5 and later (GLM Team 2025): experts chosen by the sigmoid of their logits plus a bias, beside shared
// ones, after some dense layers.
Status describe_glm4_moe(const Settings& settings, Decoder& d) {
  d.norms = norms_before_renamed;
  PUMICE_CHECK(drop_prediction_layers(settings, d.config));
  PUMICE_TRY(MixtureConfig mixture,
             read_mixture(settings, d.config, {.score = ExpertScore::sigmoid, .biased = true}));
  PUMICE_TRY(mixture.shared_feed_forward, read_shared_experts(settings, mixture.feed_forward));
  d.experts = shared_experts_names;
  PUMICE_CHECK(d.read_biases(settings, attention_biases));
  d.style.output_bias = false;
  PUMICE_TRY(d.style.head_norms, settings.boolean_or({"use_qk_norm", ""}, false));
  if (settings.gguf()) d.style.head_norms = settings.file().find("blk.0.attn_q_norm.weight");
  d.set_mixture(settings, std::move(mixture), {.dense_layers = true});
  return {};
}

} // namespace

Architectures glm_models() {
  return {
      decoder("glm", {"glm"}, {"chatglm"},
              {.default_head_dim = 128, .default_norm_eps = 1.5625e-7f, .default_rotary_share = 0.5f},
              describe_glm),
      decoder("glm4", {"glm4", "glm4v_text"}, {"glm4"},
              {.default_head_dim = 128, .default_norm_eps = 1e-5f, .default_rotary_share = 0.5f},
              describe_glm4),
      decoder("glm4_moe", {"glm4_moe", "glm4v_moe_text"}, {"glm4moe"},
              {.default_norm_eps = 1e-5f, .default_rotary_share = 0.5f}, describe_glm4_moe),
  };
}

} // namespace pumice
