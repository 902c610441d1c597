#include <algorithm>

#include <fmt/format.h>

#include "models/mamba/mamba1.h"

namespace pumice {

namespace {

constexpr Mamba1SettingNames jamba_mamba = {"mamba_d_state",   "mamba_dt_rank",   "mamba_d_conv",
                                            "mamba_proj_bias", "mamba_conv_bias", "mamba_expand"};

// One of `period` layers, from `offset` on.
Result<std::vector<bool>> read_every(const Settings& settings, const SettingName& period_name,
                                     const SettingName& offset_name, uint32_t period, uint32_t offset,
                                     uint32_t layers) {
  PUMICE_TRY(period, settings.u32_or(period_name, 1, limits::layers, period));
  PUMICE_TRY(offset, settings.u32_or(offset_name, 0, period - 1, std::min(offset, period - 1)));
  std::vector<bool> found(layers);
  for (uint32_t layer = 0; layer < layers; ++layer) found[layer] = layer % period == offset;
  return found;
}

// Experts in some layers. In GGUF those with a router.
Status read_jamba_mixture(const Settings& settings, Decoder& d) {
  PUMICE_TRY(const uint32_t experts,
             settings.u32_or({"num_experts", "expert_count"}, 0, limits::layers, settings.gguf() ? 0 : 16));
  if (experts <= 1) return {};
  PUMICE_TRY(MixtureConfig mixture,
             read_mixture(settings, d.config, {.normalise = false, .gguf_normalise = false}));
  PUMICE_TRY(mixture.sparse, read_every(settings, {"expert_layer_period", ""}, {"expert_layer_offset", ""}, 2,
                                        1, d.config.layers));
  for (uint32_t layer = 0; settings.gguf() && layer < d.config.layers; ++layer)
    mixture.sparse[layer] = settings.file().find(fmt::format("blk.{}.ffn_gate_inp.weight", layer));
  d.set_mixture(settings, std::move(mixture), {.normalise = false, .any_layers = true});
  return {};
}

// Jamba (AI21 Labs 2024): Mamba in most layers, attention without positions in the others, and experts in
// every other layer.
Status describe_jamba(const Settings& settings, Decoder& d) {
  DecoderConfig& config = d.config;
  PUMICE_TRY(const std::vector<bool> attends,
             read_every(settings, {"attn_layer_period", ""}, {"attn_layer_offset", ""}, 8, 4, config.layers));
  PUMICE_CHECK(read_attention_layers(
      settings, "attention", "mamba", [&](uint32_t layer) { return attends[layer]; }, config));
  PUMICE_TRY(Mamba1Config mamba, read_mamba1(settings, config, jamba_mamba));
  mamba.norms = true;
  d.names.norm = {"model.final_layernorm", "output_norm"};
  d.norms = {{"input_layernorm", "attn_norm"}, {}, {"pre_ff_layernorm", "ffn_norm"}, {}};
  d.feed_forward = {{"feed_forward.gate_proj", "ffn_gate"},
                    {"feed_forward.up_proj", "ffn_up"},
                    {"feed_forward.down_proj", "ffn_down"}};
  d.experts.router.hugging_face = "feed_forward.router";
  d.experts.gate.hugging_face = "feed_forward.experts.{}.gate_proj";
  d.experts.up.hugging_face = "feed_forward.experts.{}.up_proj";
  d.experts.down.hugging_face = "feed_forward.experts.{}.down_proj";
  d.experts.result.hugging_face = "feed_forward";
  d.mixer = [mamba](DecoderBuilder& builder, uint32_t, TensorId x) {
    return mamba1(builder, x, mamba, "mamba.");
  };
  add_mamba1(settings, mamba, jamba_mamba, d);
  PUMICE_CHECK(read_jamba_mixture(settings, d));
  nlohmann::json heads = nlohmann::json::array();
  for (bool attended : config.attends) heads.push_back(attended ? config.kv_heads : 0);
  d.gguf_metadata["attention.head_count_kv"] = heads;
  return {};
}

} // namespace

Architectures jamba_models() {
  return {decoder("jamba", {"jamba"}, {"jamba"},
                  {.kv_heads = {"num_key_value_heads", ""}, .rotary = false}, // GGUF has a list
                  describe_jamba)};
}

} // namespace pumice
