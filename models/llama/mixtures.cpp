#include <cmath>

#include <fmt/format.h>

#include "models/decoder/decoder.h"

// Decoders of LLaMA's form with experts, by others.
namespace pumice {

namespace {

// AFM with experts (Arcee 2025): norms around sublayers, what attention gives is gated, and only the layers
// with a window have rotary positions.
Status describe_afmoe(const Settings& settings, Decoder& d) {
  DecoderConfig& config = d.config;
  PUMICE_CHECK(settings.expect("route_norm", true, true));
  PUMICE_TRY(const bool scaled, settings.boolean_or({"mup_enabled", ""}, settings.gguf()));
  if (scaled) config.embedding_scale = std::sqrt(static_cast<float>(config.hidden));
  if (!scaled) d.refuse_gguf(settings, "mup_enabled", "have true; found false");
  d.norms = {{"input_layernorm", "attn_norm"},
             {"post_attention_layernorm", "post_attention_norm"},
             {"pre_mlp_layernorm", "ffn_norm"},
             {"post_mlp_layernorm", "post_ffw_norm"}};
  d.style.head_norms = true;
  d.attention_gate = {"self_attn.gate_proj", "attn_gate"};
  constexpr uint32_t gguf_period = 4;
  PUMICE_TRY(const uint32_t period,
             settings.u32_or({"global_attn_every_n_layers", ""}, 1, limits::layers, gguf_period));
  PUMICE_CHECK(read_periodic_windows(settings, 1024, period, config));
  d.rotated.assign(config.windows.begin(), config.windows.end());
  for (uint32_t layer = 0; layer < config.layers; ++layer) {
    if (d.rotated[layer] != ((layer + 1) % gguf_period != 0))
      d.refuse_gguf(settings, "layer_types", "have a window in three of four layers");
  }
  d.experts = shared_experts_names;
  d.experts.router.hugging_face = "mlp.router.gate";
  d.experts.routing_bias.hugging_face = "mlp.expert_bias";
  PUMICE_TRY(
      MixtureConfig mixture,
      read_mixture(settings, config,
                   {.score = ExpertScore::sigmoid, .biased = true, .gguf_normalise = false, .dense = 1}));
  PUMICE_TRY(mixture.shared_feed_forward,
             read_shared_experts(settings, mixture.feed_forward, settings.gguf() ? 0 : 2));
  d.gguf_metadata = gguf_windows(config);
  d.set_mixture(settings, std::move(mixture), {.dense_layers = true});
  return {};
}

// DBRX (Databricks 2024): layer norms without biases, one tensor for queries, keys and values, which have a
// limit, and experts in every layer. What transformers 5.13 computes of its experts is something else.
Status describe_dbrx(const Settings& settings, Decoder& d) {
  DecoderConfig& config = d.config;
  const ModelFile& file = settings.file();
  PUMICE_TRY(const Fields attention_fields, settings.fields().object_or_empty("attn_config"));
  PUMICE_TRY(const Fields expert_fields, settings.fields().object_or_empty("ffn_config"));
  const Settings attention(file, attention_fields), experts(file, expert_fields);
  MixtureDefaults defaults;
  if (!settings.gguf()) {
    PUMICE_TRY(config.kv_heads, attention.u32_or({"kv_n_heads", ""}, 1, limits::heads, 1));
    if (config.heads % config.kv_heads) {
      return attention.error({"kv_n_heads", ""}, fmt::format("expected a divisor of the {} heads; found {}",
                                                             config.heads, config.kv_heads));
    }
    PUMICE_TRY(config.rotary.base, attention.f32_or({"rope_theta", ""}, 1.0f, 1e12f, config.rotary.base));
    PUMICE_TRY(config.feed_forward, experts.u32_or({"ffn_hidden_size", ""}, 1, 4 * limits::columns, 3584));
    const SettingName norm = {"moe_normalize_expert_weights", ""};
    PUMICE_TRY(const float power, experts.f32_or(norm, 0.0f, 1e3f, 1.0f));
    if (power != 1) return experts.error(norm, fmt::format("expected 1 or null; found {:g}", power));
    const nlohmann::json::json_pointer place("/ffn_config/moe_normalize_expert_weights");
    defaults.normalise = !file.config().contains(place) || !file.config().at(place).is_null();
    PUMICE_TRY(const Fields activation, expert_fields.object_or_empty("ffn_act_fn"));
    PUMICE_TRY(config.activation, Settings(file, activation).activation_or({"name", ""}, Activation::silu));
  }
  config.norm = {.kind = NormKind::layer, .bias = false};
  PUMICE_CHECK(
      d.read_most_input(settings.gguf() ? settings : attention, {"clip_qkv", "attention.clamp_kqv"}));
  d.gguf_metadata["attention.clamp_kqv"] = d.most_input; // which llama.cpp has to find
  d.names = {.embedding = {"transformer.wte", "token_embd"},
             .layers = "transformer.blocks.{}.",
             .norm = {"transformer.norm_f", "output_norm"}};
  d.norms = {{"norm_attn_norm.norm_1", "attn_norm"}, {}, {"norm_attn_norm.norm_2", "attn_output_norm"}, {}};
  d.fused_inputs = {{"norm_attn_norm.attn.Wqkv", "attn_qkv"}};
  d.style.output = {"norm_attn_norm.attn.out_proj", "attn_output"};
  d.experts = {.stack = ExpertStack::rows,
               .router = {"ffn.router.layer", "ffn_gate_inp"},
               .gate = {"ffn.experts.mlp.w1", "ffn_gate_exps"},
               .up = {"ffn.experts.mlp.v1", "ffn_up_exps"},
               .down = {"ffn.experts.mlp.w2", "ffn_down_exps"},
               .result = {"ffn", "experts"}};
  PUMICE_TRY(MixtureConfig mixture, read_mixture(settings.gguf() ? settings : experts, config, defaults));
  d.set_mixture(settings, std::move(mixture), {.normalise = true});
  return {};
}

// K-EXAONE (LG AI Research 2026): norms before sublayers, norms of each head's query and key, rotary
// positions only in the layers with a window, and experts as DeepSeek V3's.
Status describe_exaone_moe(const Settings& settings, Decoder& d) {
  PUMICE_CHECK(drop_prediction_layers(settings, d.config));
  d.style.head_norms = true;
  const SettingName pattern = {"sliding_window_pattern", ""};
  uint32_t period = 4;
  if (!settings.has({"layer_types", ""})) {
    PUMICE_TRY(period, settings.u32_or(pattern, 1, limits::layers, period));
  }
  PUMICE_CHECK(read_periodic_windows(settings, 4096, period, d.config));
  d.rotated.assign(d.config.windows.begin(), d.config.windows.end());
  d.experts = shared_experts_names;
  if (settings.has_tensor(".mlp.e_score_correction_bias"))
    d.experts.routing_bias.hugging_face = "mlp.e_score_correction_bias";
  PUMICE_TRY(MixtureConfig mixture,
             read_mixture(settings, d.config, {.score = ExpertScore::sigmoid, .biased = true, .dense = 1}));
  PUMICE_TRY(mixture.shared_feed_forward, read_shared_experts(settings, mixture.feed_forward));
  d.gguf_metadata = gguf_windows(d.config);
  d.set_mixture(settings, std::move(mixture), {.dense_layers = true});
  return {};
}

// Phi-3.5-MoE's two magnitudes of the rotation have to be one.
Status read_magnitude(const Settings& settings, RotaryConfig& rotary) {
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    PUMICE_TRY(const Fields scaling, settings.fields().object_or_empty(name));
    if (!scaling.has("short_mscale") || rotary.scaling != RotaryScaling::longrope) continue;
    PUMICE_TRY(const float shorter, scaling.f32("short_mscale", 1e-3f, 1e3f));
    PUMICE_TRY(const float longer, scaling.f32_or("long_mscale", 1e-3f, 1e3f, shorter));
    if (shorter != longer) {
      return scaling.error("long_mscale",
                           fmt::format("expected short_mscale, which is {:g}; found {:g}", shorter, longer));
    }
    rotary.attention_factor = shorter;
  }
  return {};
}

// Phi-3.5-MoE (Abdin et al. 2024): layer norms, and two experts that SparseMixer chooses, also in GGUF, where
// llama.cpp takes softmax.
Status describe_phimoe(const Settings& settings, Decoder& d) {
  constexpr float gguf_jitter = 0.01f; // GGUF has no key for it
  d.config.norm.kind = NormKind::layer;
  PUMICE_CHECK(read_magnitude(settings, d.config.rotary));
  PUMICE_CHECK(d.read_shown_biases(settings, attention_biases));
  PUMICE_TRY(d.names.head_bias, settings.boolean_or({"lm_head_bias", ""}, false));
  if (settings.gguf()) d.names.head_bias = settings.file().find("output.bias");
  if (!d.style.input_bias) d.refuse_gguf(settings, "attention_bias", "have biases");
  if (!d.names.head_bias) d.refuse_gguf(settings, "lm_head_bias", "have a bias of the head");
  PUMICE_CHECK(d.read_window(settings, {"sliding_window", "attention.sliding_window"}));
  d.experts = mixtral_names;
  if (settings.has_tensor(".mlp.router.weight")) { // newer files
    d.experts.router.hugging_face = "mlp.router";
    d.experts.gate.hugging_face = "mlp.experts.{}.w1";
    d.experts.up.hugging_face = "mlp.experts.{}.w3";
    d.experts.down.hugging_face = "mlp.experts.{}.w2";
    d.experts.result.hugging_face = "mlp";
  }
  PUMICE_TRY(MixtureConfig mixture, read_mixture(settings, d.config, {.normalise = false}));
  if (mixture.routing.used != 2) {
    return settings.error({"num_experts_per_tok", "expert_used_count"},
                          fmt::format("expected 2; found {}", mixture.routing.used));
  }
  mixture.routing.score = ExpertScore::sparse_mixer;
  mixture.routing.normalise = false;
  PUMICE_TRY(mixture.routing.jitter, settings.f32_or({"router_jitter_noise", ""}, 0.0f, 1e3f, gguf_jitter));
  if (mixture.routing.jitter != gguf_jitter)
    d.refuse_gguf(settings, "router_jitter_noise", fmt::format("have {:g}", gguf_jitter));
  d.gguf_metadata["attention.layer_norm_rms_epsilon"] = d.config.norm_eps;
  d.gguf_metadata["rope.scaling.original_context_length"] =
      d.config.original_context ? d.config.original_context : d.config.context;
  d.set_mixture(settings, std::move(mixture), {});
  return {};
}

} // namespace

Architectures llama_mixtures() {
  return {
      decoder("afmoe", {"afmoe"}, {"afmoe"}, {.default_head_dim = 128, .default_norm_eps = 1e-5f},
              describe_afmoe),
      decoder("dbrx", {"dbrx"}, {"dbrx"},
              {.context = {"max_seq_len", "context_length"},
               .hidden = {"d_model", "embedding_length"},
               .layers = {"n_layers", "block_count"},
               .heads = {"n_heads", "attention.head_count"},
               .kv_heads = {"", "attention.head_count_kv"},
               .head_dim = {"", "attention.key_length"},
               .feed_forward = {"", "feed_forward_length"},
               .norm_eps = {"", "attention.layer_norm_epsilon"},
               .activation = {},
               .default_norm_eps = 1e-5f},
              describe_dbrx),
      decoder("exaone_moe", {"exaone_moe"}, {"exaone-moe"}, {.default_norm_eps = 1e-5f}, describe_exaone_moe),
      decoder("phimoe", {"phimoe"}, {"phimoe"}, {.default_norm_eps = 1e-5f}, describe_phimoe),
  };
}

} // namespace pumice
