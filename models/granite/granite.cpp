#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "kernel/elementwise/elementwise.h"
#include "models/mamba/mamba.h"

namespace pumice {

namespace {

// The factors for the embeddings, the scores, what a sublayer adds, and the logits.
Status read_factors(const Settings& settings, Decoder& d) {
  const auto factor = [&](std::string_view hugging_face, std::string_view gguf, float fallback) {
    return settings.f32_or({hugging_face, gguf}, 1e-6f, 1e6f, fallback);
  };
  DecoderConfig& config = d.config;
  PUMICE_TRY(config.embedding_scale, factor("embedding_multiplier", "embedding_scale", 1));
  PUMICE_TRY(config.residual_scale, factor("residual_multiplier", "residual_scale", 1));
  PUMICE_TRY(const float divisor, factor("logits_scaling", "logit_scale", 1));
  config.logit_scale = 1 / divisor;
  // Without the key, Hugging Face's models do not scale scores, and llama.cpp's do as others.
  const float fallback = settings.gguf() ? 1 / std::sqrt(static_cast<float>(config.head_dim)) : 1.0f;
  PUMICE_TRY(d.style.score_scale, factor("attention_multiplier", "attention.scale", fallback));
  d.gguf_metadata = {{"embedding_scale", config.embedding_scale},
                     {"attention.scale", d.style.score_scale},
                     {"residual_scale", config.residual_scale},
                     {"logit_scale", 1 / config.logit_scale}};
  return {};
}

// Granite 3 and 4, dense (Granite Team 2024).
Status describe_granite(const Settings& settings, Decoder& d) {
  d.config.set_neighbouring_in_gguf(settings.gguf());
  PUMICE_CHECK(read_factors(settings, d));
  d.shown = {{"factors", fmt::format("embeddings {:g}, scores {:g}, residuals {:g}, logits {:g}",
                                     d.config.embedding_scale, d.style.score_scale, d.config.residual_scale,
                                     d.config.logit_scale)}};
  return d.read_biases(settings);
}

MixtureNames expert_names() {
  MixtureNames names;
  names.stack = ExpertStack::gate_first_as_is;
  names.router = {"block_sparse_moe.router.layer", "ffn_gate_inp"};
  names.gate = {"block_sparse_moe.input_linear.weight", "ffn_gate_exps"};
  names.up = {"block_sparse_moe.input_linear.weight", "ffn_up_exps"};
  names.down = {"block_sparse_moe.output_linear.weight", "ffn_down_exps"};
  names.result = {"block_sparse_moe", "experts"};
  return names;
}

// A mixture, a feed-forward, or both.
TensorId feed_forward(DecoderBuilder& builder, TensorId x, const MixtureConfig& own) {
  const std::string_view component = "feed-forward";
  const bool sparse = own.experts > 0;
  if (own.shared_feed_forward == 0) return mixture(builder, x, own, expert_names());
  const std::string_view gguf[] = {sparse ? "ffn_gate_shexp" : "ffn_gate",
                                   sparse ? "ffn_up_shexp" : "ffn_up"};
  const TensorName name = {"shared_mlp.input_linear", gguf[0]},
                   down = {"shared_mlp.output_linear", sparse ? "ffn_down_shexp" : "ffn_down"};
  const auto slices = builder.split_tensor(name.hugging_face, gguf, own.shared_feed_forward,
                                           builder.config().hidden, component);
  const std::string node = builder.node_name(name);
  const TensorId gated = builder.project(x, node + ".gate", slices[0], nullptr, component);
  const TensorId up = builder.project(x, node + ".up", slices[1], nullptr, component);
  const TensorId y = gate(builder.graph(), node + ".gated", gated, up, builder.config().activation);
  const TensorId shared = builder.project(y, down, builder.config().hidden, false, component);
  if (!sparse) return shared;
  MixtureConfig routed = own;
  routed.shared_feed_forward = 0;
  return builder.add(mixture(builder, x, routed, expert_names()), shared, "experts_and_shared");
}

Result<MixtureConfig> read_granite_mixture(const Settings& settings, const DecoderConfig& config) {
  MixtureConfig mixture;
  PUMICE_TRY(const uint32_t experts,
             settings.u32_or({"num_local_experts", "expert_count"}, 0, limits::layers, 0));
  if (experts) {
    PUMICE_TRY(mixture, read_mixture(settings, config, {}));
  }
  if (settings.gguf() && !experts) {
    mixture.shared_feed_forward = config.feed_forward;
    return mixture;
  }
  const SettingName shared = {"shared_intermediate_size", "expert_shared_feed_forward_length"};
  PUMICE_TRY(mixture.shared_feed_forward, experts ? settings.u32_or(shared, 0, 4 * limits::columns, 0)
                                                  : settings.u32(shared, 1, 4 * limits::columns));
  return mixture;
}

void set_granite_mixture(const MixtureConfig& mixture, Decoder& d) {
  d.own_feed_forward = [mixture](DecoderBuilder& builder, uint32_t, TensorId x) {
    return feed_forward(builder, x, mixture);
  };
  if (mixture.experts) {
    for (Hyperparameter& each : hyperparameters(mixture)) d.shown.push_back(std::move(each));
    d.gguf_metadata.update(gguf_mixture(mixture));
  } else {
    d.gguf_metadata["feed_forward_length"] = mixture.shared_feed_forward;
  }
}

// Granite 3 and 4 with experts (Granite Team 2024).
Status describe_granite_moe(const Settings& settings, Decoder& d) {
  PUMICE_CHECK(describe_granite(settings, d));
  PUMICE_TRY(const MixtureConfig mixture, read_granite_mixture(settings, d.config));
  set_granite_mixture(mixture, d);
  return {};
}

// Granite 4 (Granite Team 2025): Mamba 2 in most layers, attention in the others, and a mixture of experts
// beside a feed-forward.
Status describe_granite_hybrid(const Settings& settings, Decoder& d) {
  DecoderConfig& config = d.config;
  PUMICE_TRY(const std::string positions, settings.fields().string_or("position_embedding_type", ""));
  PUMICE_TRY(const bool rotates, settings.boolean_or({"", "rope.scaling.finetuned"}, true));
  if (settings.gguf() ? !rotates : positions != "rope") config.rotary = {};
  if (config.rotary.pairs != RotaryPairs::none) config.set_neighbouring_in_gguf(settings.gguf());
  PUMICE_CHECK(read_factors(settings, d));
  PUMICE_CHECK(d.read_bias(settings, "attention_bias"));
  PUMICE_CHECK(read_attention_layers(
      settings, "attention", "mamba", [](uint32_t) { return false; }, config));
  if (settings.gguf()) {
    const auto first = std::ranges::find(config.attends, true) - config.attends.begin();
    d.style.input_bias = d.style.output_bias =
        settings.file().find(fmt::format("blk.{}.attn_q.bias", first)) != nullptr;
  }
  PUMICE_TRY(const MambaConfig mixer, read_mamba(settings, hybrid_mamba_settings));
  d.mixer = [mixer](DecoderBuilder& builder, uint32_t, TensorId x) {
    return mamba(builder, x, mixer, "mamba.");
  };
  add_mamba(settings, mixer, hybrid_mamba_settings, d);
  PUMICE_TRY(const MixtureConfig mixture, read_granite_mixture(settings, config));
  set_granite_mixture(mixture, d);
  nlohmann::json heads = nlohmann::json::array();
  for (bool attends : config.attends) heads.push_back(attends ? config.kv_heads : 0);
  d.gguf_metadata["attention.head_count_kv"] = heads;
  d.gguf_metadata["rope.scaling.finetuned"] = config.rotary.pairs != RotaryPairs::none;
  return {};
}

} // namespace

Architectures granite_models() {
  return {
      decoder("granite", {"granite"}, {"granite"}, {}, describe_granite),
      decoder("granite_moe", {"granitemoe", "granitemoeshared"}, {"granitemoe"}, {}, describe_granite_moe),
      decoder("granite_hybrid", {"granitemoehybrid"}, {"granitehybrid"},
              {.kv_heads = {"num_key_value_heads", ""}}, // GGUF has a list
              describe_granite_hybrid),
  };
}

} // namespace pumice
