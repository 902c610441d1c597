#include "models/lfm2/lfm2.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "kernel/elementwise/elementwise.h"
#include "kernel/recurrence/recurrence.h"
#include "models/decoder/model.h"

namespace pumice {

namespace {

constexpr BlockNorms norms = {{"operator_norm", "attn_norm"}, {}, {"ffn_norm", "ffn_norm"}, {}};

// LFM2 (Liquid AI 2025): short convolutions between two gates in most layers, attention in the others.
class Lfm2 : public DecoderModel {
public:
  Lfm2(DecoderConfig config, bool gguf, uint32_t taps, bool bias)
      : DecoderModel(std::move(config), gguf), taps_(taps), bias_(bias) {}

protected:
  void build(DecoderBuilder& builder) const override {
    AttentionStyle style;
    style.head_norms = true;
    style.query_norm = {"self_attn.q_layernorm", "attn_q_norm"};
    style.key_norm = {"self_attn.k_layernorm", "attn_k_norm"};
    style.output = {"self_attn.out_proj", "attn_output"};
    GatedNames feed_forward;
    feed_forward.gate = {"feed_forward.w1", "ffn_gate"};
    feed_forward.up = {"feed_forward.w3", "ffn_up"};
    feed_forward.down = {"feed_forward.w2", "ffn_down"};
    DecoderNames names;
    names.norm = {"model.embedding_norm", "token_embd_norm"};
    uint32_t state = 0;
    const auto block = [&](uint32_t layer, TensorId x) {
      return builder.block(
          x, norms,
          [&](TensorId y) {
            if (config().attends_in(layer)) return builder.self_attention(layer, y, style);
            return short_convolution(builder, state++, y);
          },
          [&](TensorId y) { return builder.gated_feed_forward(y, feed_forward, config().feed_forward); });
    };
    builder.decode(block, names);
  }

  std::vector<Hyperparameter> own_hyperparameters() const override {
    return {{"convolutions", fmt::format("of {} positions in {} of {} layers", taps_, config().states.size(),
                                         config().layers)}};
  }
  std::string_view gguf_architecture() const override { return "lfm2"; }
  nlohmann::json gguf_metadata() const override {
    nlohmann::json heads = nlohmann::json::array();
    for (bool attends : config().attends) heads.push_back(attends ? config().kv_heads : 0);
    return {{"shortconv.l_cache", taps_}, {"attention.head_count_kv", heads}};
  }

private:
  // out(c * convolution(b * x)), where b, c and x are projections of the input.
  TensorId short_convolution(DecoderBuilder& builder, uint32_t state, TensorId input) const {
    const std::string_view component = "attention";
    const uint32_t hidden = config().hidden;
    const TensorName in = {"conv.in_proj", "shortconv.in_proj"};
    const std::array<uint64_t, 3> counts = {hidden, hidden, hidden};
    const auto matrices = builder.fused_tensor(in, ".weight", counts, hidden, 1, component);
    std::vector<WeightView> biases;
    if (bias_) biases = builder.fused_tensor(in, ".bias", counts, 0, 1, component);
    const auto part = [&](size_t index, const char* suffix) {
      return builder.project(input, builder.node_name(in) + suffix, matrices[index],
                             bias_ ? &biases[index] : nullptr, component);
    };
    const TensorId b = part(0, ".b"), c = part(1, ".c"), x = part(2, ".x");
    const TensorId gated = gate(builder.graph(), builder.prefix() + "gated_input", b, x, Activation::none);

    const TensorName name = {"conv.conv", "shortconv.conv"};
    CausalConvolution operation;
    operation.state = state;
    operation.taps = taps_;
    const WeightView weights = builder.channel_taps(name, hidden, taps_, component);
    std::optional<WeightId> bias;
    if (bias_) bias = builder.weight(builder.tensor(name, ".bias", hidden, 0, component), component);
    const TensorId y = causal_convolution(builder.graph(), builder.node_name(name), gated,
                                          builder.weight(weights, component), bias, operation);
    const TensorId result =
        gate_every_row(builder.graph(), builder.prefix() + "gated_convolution", c, y, Activation::none);
    return builder.project(result, {"conv.out_proj", "shortconv.out_proj"}, hidden, bias_, component);
  }

  uint32_t taps_;
  bool bias_;
};

// Early files give the feed-forward's size before it is adjusted.
Status adjust_feed_forward(const Settings& settings, DecoderConfig& config) {
  if (settings.gguf()) return {};
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

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_lfm2(const ModelFile& file) {
  const Settings settings = Settings::of_text(file);
  DecoderConfigNames names;
  names.norm_eps = {"norm_eps", "attention.layer_norm_rms_epsilon"};
  names.default_norm_eps = 1e-5f;
  names.kv_heads.gguf = {}; // a list
  names.tied_by_default = true;
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings, names));
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
  for (uint32_t layer = 0; layer < config.layers; ++layer) {
    if (!config.attends[layer]) config.states.push_back(CausalConvolution::state_floats(config.hidden, taps));
  }
  return std::unique_ptr<ModelDefinition>(
      std::make_unique<Lfm2>(std::move(config), settings.gguf(), taps, bias));
}

} // namespace pumice
