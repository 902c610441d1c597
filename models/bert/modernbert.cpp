#include <algorithm>

#include <fmt/format.h>

#include "kernel/elementwise/elementwise.h"
#include "kernel/pooling/pooling.h"
#include "models/decoder/config.h"
#include "models/decoder/rotary.h"
#include "models/encoder/model.h"
#include "models/registry.h"

namespace pumice {

namespace {

struct ModernBertSettings {
  std::string prefix; // of tensor names: "model.", or empty if the file has only the encoder
  RotaryConfig local_rotary;
  bool attention_bias = false, feed_forward_bias = false, norm_bias = false, classifier_bias = false;
  Activation classifier_activation = Activation::gelu;
  bool mean_pooled = false; // what the classifier reads; otherwise the first token's
};

// ModernBERT (Warner et al. 2024): pre-norm layers with rotary positions and a gated feed-forward; two of
// three layers attend to near tokens only.
class ModernBert : public EncoderModel {
public:
  ModernBert(EncoderConfig config, bool gguf, ModernBertSettings own)
      : EncoderModel(std::move(config), gguf), own_(std::move(own)) {}

protected:
  void build(EncoderBuilder& builder) const override {
    builder.prefix(own_.prefix, "");
    TensorId x = builder.embed({"embeddings.tok_embeddings", "token_embd"});
    x = builder.layer_norm(x, {"embeddings.norm", "token_embd_norm"}, own_.norm_bias);
    AttentionStyle style;
    style.rotary_in_windows = &own_.local_rotary;
    x = builder.run_layers(x, layer_names(), style);
    builder.prefix(own_.prefix, "");
    x = builder.layer_norm(x, {"final_norm", "output_norm"}, own_.norm_bias);
    builder.finish(x, [&](TensorId states) { return head(builder, states); });
    builder.masked_head({"head.dense", "head.norm", "decoder", {"decoder.bias"}}, own_.classifier_activation);
    if (!config().labels.empty()) classify(builder, x);
  }

  std::vector<Hyperparameter> own_hyperparameters() const override {
    return {{"rotary in windows", describe(own_.local_rotary)}};
  }

  std::string_view gguf_architecture() const override { return "modern-bert"; }
  nlohmann::json gguf_metadata() const override {
    nlohmann::json metadata = gguf_rotary_in_windows(own_.local_rotary);
    const std::vector<uint32_t>& windows = config().windows;
    const uint32_t window = *std::ranges::max_element(windows);
    uint32_t period = 1; // the first layer without a window after the first one
    while (period < config().layers && windows[period] > 0) ++period;
    metadata["attention.sliding_window"] = window > 0 ? 2 * (window - 1) : 0;
    metadata["attention.sliding_window_pattern"] = period;
    return metadata;
  }

private:
  LayerNames layer_names() const {
    LayerNames names;
    names.hugging_face = own_.prefix + "layers.{}.";
    names.gguf = "blk.{}.";
    names.norm_first = names.first_is_normed = true;
    names.norm_bias = own_.norm_bias;
    names.attention.fused = {"attn.Wqkv", "attn_qkv"};
    names.attention.output = {"attn.Wo", "attn_output"};
    names.attention.input_bias = names.attention.output_bias = own_.attention_bias;
    names.attention_norm = {"attn_norm", "attn_norm"};
    names.fused_gate = true;
    names.up = {"mlp.Wi", "ffn_up"};
    names.down = {"mlp.Wo", "ffn_down"};
    names.feed_forward_bias = own_.feed_forward_bias;
    names.feed_forward_norm = {"mlp_norm", "ffn_norm"};
    return names;
  }

  void classify(EncoderBuilder& builder, TensorId x) const {
    builder.prefix("", "");
    x = own_.mean_pooled ? mean_rows(builder.graph(), "mean_rows", x) : builder.first_rows(x);
    builder.logits(head(builder, x), {"classifier", "cls.output"});
  }

  TensorId head(EncoderBuilder& builder, TensorId x) const {
    x = builder.project(x, {"head.dense", "cls"}, config().hidden, own_.classifier_bias, "head");
    x = activate(builder.graph(), "head.activated", x, own_.classifier_activation);
    return builder.layer_norm(x, {"head.norm", "cls.norm"}, own_.norm_bias);
  }

  ModernBertSettings own_;
};

// A layer has no window where config.json's layer_types says so, or without that list, every `period` layers
// from the first on.
Result<std::vector<uint32_t>> read_windows(const Settings& settings, uint32_t layers) {
  const SettingName local = {"local_attention", "attention.sliding_window"},
                    period_name = {"global_attn_every_n_layers", "attention.sliding_window_pattern"};
  PUMICE_TRY(uint32_t positions, settings.u32_or(local, 1, limits::context, 128));
  PUMICE_TRY(uint32_t period, settings.u32_or(period_name, 1, limits::layers, 3));
  const uint32_t window = positions / 2 + 1; // the setting counts both sides
  std::vector<uint32_t> windows;
  for (uint32_t layer = 0; layer < layers; ++layer) windows.push_back(layer % period ? window : 0);
  if (settings.gguf() || !settings.fields().has("layer_types")) return windows;
  DecoderConfig listed;
  listed.layers = layers;
  listed.windows.assign(layers, 0);
  PUMICE_CHECK(
      read_layer_types(settings, window, listed, [&](uint32_t layer) { return layer % period != 0; }));
  return listed.windows;
}

// The rotations of layers without a window and of those with one.
Status read_rotations(const Settings& settings, EncoderConfig& config, RotaryConfig& local) {
  DecoderConfig same;
  static_cast<StackConfig&>(same) = config;
  same.rotary.pairs = local.pairs = RotaryPairs::half_split;
  same.rotary.dim = local.dim = config.head_dim;
  PUMICE_TRY(same.rotary.base, settings.f32_or({"global_rope_theta", ""}, 1.0f, 1e12f, 160000.0f));
  PUMICE_TRY(local.base, settings.f32_or({"local_rope_theta", ""}, 1.0f, 1e12f, 10000.0f));
  PUMICE_CHECK(read_rotary_in_windows(settings, same, local));
  config.rotary = same.rotary;
  return {};
}

Status read_classifier(const Settings& settings, EncoderConfig& config, ModernBertSettings& own) {
  PUMICE_TRY(own.classifier_activation,
             settings.activation_or({"classifier_activation", ""}, Activation::gelu));
  if (!settings.file().find("classifier.weight") || !settings.file().find("head.dense.weight")) return {};
  PUMICE_TRY(own.classifier_bias, settings.boolean_or({"classifier_bias", ""}, false));
  PUMICE_TRY(const bool of_tokens, read_token_head(settings, config, true, "classifier"));
  if (of_tokens) return {};
  PUMICE_TRY(config.labels, read_labels(settings, settings.file().find("classifier.weight")));
  const SettingName name = {"classifier_pooling", ""};
  PUMICE_TRY(std::string pooling, settings.fields().string_or("classifier_pooling", "cls"));
  if (pooling != "cls" && pooling != "mean")
    return settings.error(name, fmt::format("expected cls or mean; found '{}'", pooling));
  own.mean_pooled = pooling == "mean";
  return {};
}

OpenedDefinition open_modernbert(const ModelFile& file) {
  const Settings settings(file);
  StackConfigNames names;
  names.set_heads_share_columns();
  names.norm_eps = {"norm_eps", "attention.layer_norm_epsilon"};
  names.default_norm_eps = 1e-5f;
  names.activation = {"hidden_activation", ""};
  names.default_activation = Activation::gelu;
  names.default_context = 8192;
  EncoderConfig config;
  PUMICE_TRY(static_cast<StackConfig&>(config), read_stack_config(settings, names));
  PUMICE_TRY(config.windows, read_windows(settings, config.layers));
  ModernBertSettings own;
  PUMICE_CHECK(read_rotations(settings, config, own.local_rotary));
  PUMICE_TRY(own.attention_bias, settings.boolean_or({"attention_bias", ""}, false));
  PUMICE_TRY(own.feed_forward_bias, settings.boolean_or({"mlp_bias", ""}, false));
  PUMICE_TRY(own.norm_bias, settings.boolean_or({"norm_bias", ""}, false));
  if (file.find("model.embeddings.tok_embeddings.weight")) own.prefix = "model.";
  PUMICE_CHECK(read_classifier(settings, config, own));
  return std::unique_ptr<ModelDefinition>(
      std::make_unique<ModernBert>(std::move(config), settings.gguf(), std::move(own)));
}

} // namespace

Architectures modernbert_models() {
  return {{"modernbert", {"modernbert"}, {"modern-bert"}, open_modernbert}};
}

} // namespace pumice
