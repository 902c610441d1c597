#include "models/vit/beit.h"

#include <fmt/format.h>

#include "kernel/elementwise/elementwise.h"
#include "kernel/pooling/pooling.h"
#include "models/encoder/model.h"
#include "models/registry.h"

namespace pumice {

namespace {

constexpr std::string_view bias_table = "relative_position_bias.relative_position_bias_table";

RelativeBias bias_by_place(const VitConfig& vit) {
  RelativeBias bias;
  bias.patch_rows = vit.grid_height;
  bias.patch_columns = vit.grid_width;
  bias.buckets = bias.place_buckets();
  return bias;
}

LayerNames layer_names(const BeitConfig& config, const std::string& prefix) {
  LayerNames names = vit_layer_names(config.vit, prefix);
  names.attention.key_bias = false;
  if (config.scaled) {
    names.attention_scale = {"lambda_1", ""};
    names.feed_forward_scale = {"lambda_2", ""};
    names.scale_suffix = "";
  }
  if (config.bias == BeitBias::each_layer) {
    names.relative_bias = {"attention.attention.relative_position_bias.relative_position_bias_table", ""};
  }
  return names;
}

// BEiT (Bao et al. 2022): a ViT without biases of keys, whose scores have a bias by the places of the two
// patches, and whose sublayers' results are scaled column by column.
class Beit : public EncoderModel {
public:
  Beit(BeitConfig config, bool gguf, std::string prefix)
      : EncoderModel(config.vit.encoder, gguf), beit_(std::move(config)), prefix_(std::move(prefix)) {}

protected:
  void build(EncoderBuilder& builder) const override {
    const TensorId x = build_beit(builder, beit_, prefix_);
    const TensorId pooled = pool(builder, x);
    builder.pooler_output(pooled);
    builder.prefix("", "");
    if (!config().labels.empty()) builder.logits(pooled, {"classifier", ""});
  }

private:
  // The class token's row, or the normed mean of the patches: the mean of all rows without that one.
  TensorId pool(EncoderBuilder& builder, TensorId x) const {
    const TensorId first = builder.first_rows(x);
    if (!beit_.mean_pooling) return first;
    Graph& graph = builder.graph();
    const float patches = static_cast<float>(beit_.vit.patches.count());
    const TensorId all = scale(graph, "scaled_mean", mean_rows(graph, "mean", x), (patches + 1) / patches);
    const TensorId without = scale(graph, "scaled_first", first, -1 / patches);
    builder.prefix(prefix_ + "pooler.", "");
    return builder.layer_norm(builder.add(all, without, "mean_of_patches"), {"layernorm", ""});
  }

  BeitConfig beit_;
  std::string prefix_; // of tensor names: "beit.", or empty if the file has only the encoder
};

Status read_bias(const Settings& settings, BeitConfig& config) {
  PUMICE_TRY(const bool each, settings.boolean_or({"use_relative_position_bias", ""}, false));
  PUMICE_TRY(const bool shared, settings.boolean_or({"use_shared_relative_position_bias", ""}, false));
  if (!each && !shared) return {};
  if (each && shared) {
    return settings.error({"use_shared_relative_position_bias", ""},
                          "expected false, because use_relative_position_bias is true; found true");
  }
  config.bias = each ? BeitBias::each_layer : BeitBias::shared;
  constexpr uint32_t most = 90; // patches on a side, so that their pairs can be listed
  const VitConfig& vit = config.vit;
  // What the reference makes of its table where a picture is no square is not what it was trained as.
  if (vit.grid_height == vit.grid_width && vit.grid_height <= most) return {};
  return settings.error({"image_size", ""},
                        fmt::format("with a relative position bias, expected a square of up to {} x {} "
                                    "patches; found {} x {}",
                                    most, most, vit.grid_height, vit.grid_width));
}

} // namespace

Result<BeitConfig> read_beit_config(const Settings& settings) {
  BeitConfig config;
  PUMICE_TRY(config.vit, read_vit_config(settings));
  config.vit.input_bias = true; // of queries and values
  PUMICE_TRY(config.vit.positions, settings.boolean_or({"use_absolute_position_embeddings", ""}, false));
  PUMICE_TRY(const float factors, settings.f32_or({"layer_scale_init_value", ""}, 0, 1e6f, 0.1f));
  config.scaled = factors > 0;
  PUMICE_TRY(config.mean_pooling, settings.boolean_or({"use_mean_pooling", ""}, true));
  config.vit.final_norm = !config.mean_pooling;
  PUMICE_CHECK(read_bias(settings, config));
  return config;
}

TensorId build_beit(EncoderBuilder& builder, const BeitConfig& config, const std::string& prefix) {
  AttentionStyle style;
  if (config.bias != BeitBias::none) style.relative_bias = bias_by_place(config.vit);
  if (config.bias == BeitBias::shared) {
    builder.prefix(prefix + "encoder.", "");
    const WeightView table = builder.tensor({bias_table, ""}, "", style.relative_bias.buckets,
                                            config.vit.encoder.heads, "attention");
    style.relative_bias_table = builder.weight(table, "attention");
  }
  return build_vit(builder, config.vit, prefix, layer_names(config, prefix), style);
}

namespace {

OpenedDefinition open_beit(const ModelFile& file) {
  const Settings settings(file);
  PUMICE_TRY(BeitConfig config, read_beit_config(settings));
  std::string prefix = file.find("beit.embeddings.cls_token") ? "beit." : "";
  if (file.find("classifier.weight")) {
    PUMICE_TRY(config.vit.encoder.labels, read_labels(settings));
  }
  return std::unique_ptr<ModelDefinition>(
      std::make_unique<Beit>(std::move(config), settings.gguf(), std::move(prefix)));
}

} // namespace

Architectures beit_models() {
  return {{"beit", {"beit"}, {}, open_beit}};
}

} // namespace pumice
