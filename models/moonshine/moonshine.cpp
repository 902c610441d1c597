#include <fmt/format.h>

#include "models/encoder/sound_convolutions.h"
#include "models/encoder_decoder/model.h"
#include "models/registry.h"

namespace pumice {

namespace {

struct MoonshineConfig {
  // Of an input: 30 seconds, the longest that the published models were trained with.
  static constexpr uint32_t most_samples = 480000;
  static constexpr float rotary_share = 0.9f; // of a head, if the config does not say

  EncoderConfig encoder;
  DecoderConfig decoder;
  bool input_bias = false; // of queries, keys and values
  std::string prefix;      // of tensor names: "model.", or nothing if the file has no head
};

// Moonshine (Jeffries et al. 2024): three convolutions over the samples of a sound, as long as it is, and a
// pre-norm Transformer with rotary positions, whose decoder has a gated feed-forward.
class Moonshine : public EncoderDecoderModel {
public:
  Moonshine(MoonshineConfig config, bool gguf)
      : EncoderDecoderModel(std::move(config.encoder), std::move(config.decoder), gguf),
        prefix_(std::move(config.prefix)), input_bias_(config.input_bias) {}

protected:
  void build_encoder(EncoderBuilder& builder) const override {
    builder.prefix(prefix_ + "encoder.", "");
    const TensorId x = builder.run_layers(convolve_samples(builder), layer_names("encoder"));
    builder.prefix(prefix_ + "encoder.", "");
    const TensorId states = builder.layer_norm(x, {"layer_norm", ""}, false);
    builder.finish(states);
    builder.store_memory(states, layer_names("decoder"));
  }

  void build_decoder(DecoderBuilder& builder) const override {
    builder.prefix(prefix_ + "decoder.", "");
    TensorId x = builder.run_layers(builder.embed({"embed_tokens", ""}), layer_names("decoder"));
    builder.prefix(prefix_ + "decoder.", "");
    x = builder.layer_norm(x, {"norm", ""}, false);
    builder.hidden_state(x);
    builder.finish(x, {"proj_out", ""});
  }

private:
  AttentionNames attention_names(bool cross) const {
    AttentionNames names;
    names.query = {cross ? "encoder_attn.q_proj" : "self_attn.q_proj", ""};
    names.key = {cross ? "encoder_attn.k_proj" : "self_attn.k_proj", ""};
    names.value = {cross ? "encoder_attn.v_proj" : "self_attn.v_proj", ""};
    names.output = {cross ? "encoder_attn.o_proj" : "self_attn.o_proj", ""};
    names.input_bias = input_bias_;
    names.output_bias = false;
    return names;
  }

  LayerNames layer_names(std::string_view side) const {
    LayerNames names;
    names.hugging_face = fmt::format("{}{}.layers.{{}}.", prefix_, side);
    names.norm_first = true;
    names.norm_bias = false;
    names.attention = attention_names(false);
    names.attention_norm = {"input_layernorm", ""};
    names.feed_forward_norm = {"post_attention_layernorm", ""};
    names.up = {"mlp.fc1", ""};
    names.down = {"mlp.fc2", ""};
    if (side == "encoder") return names;
    names.cross_attention = attention_names(true);
    names.cross_attention_norm = {"post_attention_layernorm", ""};
    names.feed_forward_norm = {"final_layernorm", ""};
    names.fused_gate = names.gate_last = true;
    return names;
  }

  TensorId convolve_samples(EncoderBuilder& builder) const {
    const uint32_t hidden = encoder().hidden;
    SoundConvolutions sound(builder);
    sound.convolve({"conv1", ""}, hidden, false, Activation::tanh);
    sound.norm_frames({"groupnorm", ""}, true, Activation::none);
    sound.convolve({"conv2", ""}, 2 * hidden, true, Activation::gelu);
    sound.convolve({"conv3", ""}, hidden, true, Activation::gelu);
    return sound.rows();
  }

  const std::string prefix_;
  const bool input_bias_;
};

OpenedDefinition open_moonshine(const ModelFile& file) {
  const Settings settings(file);
  StackConfigNames names;
  names.norm_eps = {};
  names.default_norm_eps = 1e-5f;
  names.default_context = 512;
  names.default_rotary_share = MoonshineConfig::rotary_share;
  names.tied_by_default = true;
  names.layers = {"decoder_num_hidden_layers", ""};
  names.heads = {"decoder_num_attention_heads", ""};
  names.kv_heads = {"decoder_num_key_value_heads", ""};
  names.activation = {"decoder_hidden_act", ""};
  MoonshineConfig config;
  PUMICE_TRY(config.decoder, read_decoder_config(settings, names));
  config.decoder.rotary.pairs = RotaryPairs::neighbouring;

  names.vocabulary = names.context = {};
  names.layers = {"encoder_num_hidden_layers", ""};
  names.heads = {"encoder_num_attention_heads", ""};
  names.kv_heads = {"encoder_num_key_value_heads", ""};
  names.activation = {"encoder_hidden_act", ""};
  names.default_activation = Activation::gelu;
  EncoderConfig& encoder = config.encoder;
  PUMICE_TRY(static_cast<StackConfig&>(encoder), read_stack_config(settings, names));
  if (encoder.head_dim != config.decoder.head_dim) {
    return settings.error(names.heads,
                          fmt::format("expected heads of {} dimensions, as the decoder's; found {}",
                                      config.decoder.head_dim, encoder.head_dim));
  }
  encoder.rotary = config.decoder.rotary;
  encoder.kind = InputKind::samples;
  encoder.input_shape = {config.most_samples};
  encoder.convolutions = {{127, 64}, {7, 3}, {3, 2}};
  encoder.context = encoder.shape().frames(config.most_samples);
  PUMICE_TRY(config.input_bias, settings.boolean_or({"attention_bias", ""}, false));
  config.prefix = file.find("encoder.conv1.weight") ? "" : "model.";
  return std::unique_ptr<ModelDefinition>(std::make_unique<Moonshine>(std::move(config), settings.gguf()));
}

} // namespace

Architectures moonshine_models() {
  return {{"moonshine", {"moonshine"}, {}, open_moonshine}};
}

} // namespace pumice
