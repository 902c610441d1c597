#include <cmath>

#include "kernel/elementwise/elementwise.h"
#include "media/preprocess.h"
#include "models/encoder/model.h"
#include "models/registry.h"
#include "models/vit/vit.h"

namespace pumice {

namespace {

struct Dinov2Settings {
  std::string prefix; // of tensor names: "dinov2.", or empty if the file has only the encoder
  bool gated = false; // feed-forwards are SwiGLU: gate and up are one tensor
};

// DINOv2 (Oquab et al. 2023): a ViT whose sublayers' results are scaled column by column.
class Dinov2 : public EncoderModel {
public:
  Dinov2(VitConfig config, bool gguf, Dinov2Settings own)
      : EncoderModel(config.encoder, gguf), vit_(std::move(config)), own_(std::move(own)) {}

protected:
  void build(EncoderBuilder& builder) const override {
    const TensorId x = build_vit(builder, vit_, own_.prefix, layer_names());
    builder.pooler_output(builder.first_rows(x));
  }

private:
  LayerNames layer_names() const {
    LayerNames names = vit_layer_names(vit_, own_.prefix);
    names.attention_norm = {"norm1", ""};
    names.feed_forward_norm = {"norm2", ""};
    names.attention_scale = {"layer_scale1", ""};
    names.feed_forward_scale = {"layer_scale2", ""};
    names.up = {"mlp.fc1", ""};
    names.down = {"mlp.fc2", ""};
    if (own_.gated) {
      names.fused_gate = true;
      names.up = {"mlp.weights_in", ""};
      names.down = {"mlp.weights_out", ""};
    }
    return names;
  }

  VitConfig vit_;
  Dinov2Settings own_;
};

OpenedDefinition open_dinov2(const ModelFile& file) {
  const Settings settings(file);
  PUMICE_TRY(VitConfig config, read_vit_config(settings));
  // The published models were trained with larger pictures than they are used with.
  PUMICE_TRY(const std::optional<PictureSize> size, read_picture_size(file.folder()));
  if (size) PUMICE_CHECK(set_picture_size(settings, config, size->height, size->width));
  Dinov2Settings own;
  own.prefix = file.find("dinov2.embeddings.cls_token") ? "dinov2." : "";
  PUMICE_TRY(const uint32_t ratio, settings.u32_or({"mlp_ratio", ""}, 1, 64, 4));
  config.encoder.feed_forward = config.encoder.hidden * ratio;
  PUMICE_TRY(own.gated, settings.boolean_or({"use_swiglu_ffn", ""}, false));
  if (own.gated) {
    config.encoder.feed_forward = (config.encoder.feed_forward * 2 / 3 + 7) / 8 * 8;
    config.encoder.activation = Activation::silu;
  }
  return std::unique_ptr<ModelDefinition>(
      std::make_unique<Dinov2>(std::move(config), settings.gguf(), std::move(own)));
}

} // namespace

Architectures dinov2_models() {
  return {{"dinov2", {"dinov2"}, {}, open_dinov2}};
}

} // namespace pumice
