#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "kernel/elementwise/elementwise.h"
#include "kernel/recurrence/recurrence.h"
#include "models/decoder/decoder.h"

namespace pumice {

namespace {

// out(c * convolution(b * x)), where b, c and x are projections of the input.
TensorId short_convolution(DecoderBuilder& builder, TensorId input, uint32_t taps, bool biased) {
  const std::string_view component = "attention";
  const uint32_t hidden = builder.config().hidden;
  const TensorName in = {"conv.in_proj", "shortconv.in_proj"};
  const std::array<uint64_t, 3> counts = {hidden, hidden, hidden};
  const auto matrices = builder.fused_tensor(in, ".weight", counts, hidden, 1, component);
  std::vector<WeightView> biases;
  if (biased) biases = builder.fused_tensor(in, ".bias", counts, 0, 1, component);
  const auto part = [&](size_t index, const char* suffix) {
    return builder.project(input, builder.node_name(in) + suffix, matrices[index],
                           biased ? &biases[index] : nullptr, component);
  };
  const TensorId b = part(0, ".b"), c = part(1, ".c"), x = part(2, ".x");
  const TensorId gated = gate(builder.graph(), builder.prefix() + "gated_input", b, x, Activation::none);

  const TensorName name = {"conv.conv", "shortconv.conv"};
  CausalConvolution operation;
  operation.state = builder.next_state();
  operation.taps = taps;
  const WeightView weights = builder.channel_taps(name, hidden, taps, component);
  std::optional<WeightId> bias;
  if (biased) bias = builder.weight(builder.tensor(name, ".bias", hidden, 0, component), component);
  const TensorId y = causal_convolution(builder.graph(), builder.node_name(name), gated,
                                        builder.weight(weights, component), bias, operation);
  const TensorId result =
      gate_every_row(builder.graph(), builder.prefix() + "gated_convolution", c, y, Activation::none);
  return builder.project(result, {"conv.out_proj", "shortconv.out_proj"}, hidden, biased, component);
}

// Early files give the feed-forward's size before it is adjusted.
Status adjust_feed_forward(const Settings& settings, DecoderConfig& config) {
  if (settings.gguf() || settings.architecture() != "lfm2") return {};
  PUMICE_TRY(const bool adjusted, settings.boolean_or({"block_auto_adjust_ff_dim", ""}, true));
  PUMICE_TRY(config.feed_forward,
             settings.u32_or({settings.has({"block_ff_dim", ""}) ? "block_ff_dim" : "intermediate_size", ""},
                             1, 4 * limits::columns, config.feed_forward));
  if (!adjusted) return {};
  PUMICE_TRY(const float factor, settings.f32_or({"block_ffn_dim_multiplier", ""}, 0.01f, 100.0f, 1.0f));
  PUMICE_TRY(const uint32_t unit, settings.u32_or({"block_multiple_of", ""}, 1, limits::columns, 256));
  const auto size = static_cast<uint32_t>(factor * static_cast<float>(uint64_t{2} * config.feed_forward / 3));
  config.feed_forward = (size + unit - 1) / unit * unit;
  return {};
}

// LFM2 (Liquid AI 2025): short convolutions between two gates in most layers, attention in the others.
Status describe_lfm2(const Settings& settings, Decoder& d) {
  DecoderConfig& config = d.config;
  PUMICE_CHECK(adjust_feed_forward(settings, config));
  std::vector<uint32_t> attention;
  if (!settings.gguf()) {
    PUMICE_TRY(attention, settings.fields().u32_array_or_empty("full_attn_idxs", 0, limits::layers));
  }
  PUMICE_CHECK(read_attention_layers(
      settings, "full_attention", "conv",
      [&](uint32_t layer) {
        return attention.empty() || std::ranges::find(attention, layer) != attention.end();
      },
      config));
  PUMICE_TRY(const uint32_t taps,
             settings.u32_or({"conv_L_cache", "shortconv.l_cache"}, 2, CausalConvolution::most_taps, 3));
  PUMICE_TRY(bool bias, settings.boolean_or({"conv_bias", ""}, false));
  if (settings.gguf()) bias = false;
  nlohmann::json heads = nlohmann::json::array();
  for (uint32_t layer = 0; layer < config.layers; ++layer) {
    heads.push_back(config.attends[layer] ? config.kv_heads : 0);
    if (!config.attends[layer]) config.states.push_back(CausalConvolution::state_floats(config.hidden, taps));
  }
  d.names.norm = {"model.embedding_norm", "token_embd_norm"};
  d.norms = {{"operator_norm", "attn_norm"}, {}, {"ffn_norm", "ffn_norm"}, {}};
  d.style.head_norms = true;
  d.style.query_norm = {"self_attn.q_layernorm", "attn_q_norm"};
  d.style.key_norm = {"self_attn.k_layernorm", "attn_k_norm"};
  d.style.output = {"self_attn.out_proj", "attn_output"};
  d.feed_forward = {
      {"feed_forward.w1", "ffn_gate"}, {"feed_forward.w3", "ffn_up"}, {"feed_forward.w2", "ffn_down"}};
  d.mixer = [taps, bias](DecoderBuilder& builder, uint32_t, TensorId x) {
    return short_convolution(builder, x, taps, bias);
  };
  d.shown = {{"convolutions",
              fmt::format("of {} positions in {} of {} layers", taps, config.states.size(), config.layers)}};
  d.gguf_metadata = {{"shortconv.l_cache", taps}, {"attention.head_count_kv", heads}};
  return {};
}

// The same with experts (Liquid AI 2025), after some dense layers.
Status describe_lfm2_moe(const Settings& settings, Decoder& d) {
  PUMICE_CHECK(describe_lfm2(settings, d));
  d.experts.router.hugging_face = "feed_forward.gate";
  d.experts.routing_bias.hugging_face = "feed_forward.expert_bias";
  d.experts.gate.hugging_face = "feed_forward.experts.{}.w1";
  d.experts.up.hugging_face = "feed_forward.experts.{}.w3";
  d.experts.down.hugging_face = "feed_forward.experts.{}.w2";
  d.experts.result.hugging_face = "feed_forward";
  PUMICE_TRY(const bool biased, settings.boolean_or({"use_expert_bias", ""}, true));
  PUMICE_TRY(MixtureConfig mixture,
             read_mixture(settings, d.config, {.score = ExpertScore::sigmoid, .biased = biased}));
  if (mixture.routing.scale != 1)
    d.refuse_gguf(settings, "routed_scaling_factor", "have experts of the scale 1");
  d.set_mixture(settings, std::move(mixture), {.normalise = true, .dense_layers = true});
  return {};
}

constexpr StackConfigNames lfm2_names = {.kv_heads = {"num_key_value_heads", ""}, // GGUF has a list
                                         .norm_eps = {"norm_eps", "attention.layer_norm_rms_epsilon"},
                                         .default_norm_eps = 1e-5f,
                                         .tied_by_default = true};

} // namespace

Architectures lfm2_models() {
  return {decoder("lfm2", {"lfm2"}, {"lfm2"}, lfm2_names, describe_lfm2),
          decoder("lfm2_moe", {"lfm2_moe"}, {"lfm2moe"}, lfm2_names, describe_lfm2_moe)};
}

} // namespace pumice
