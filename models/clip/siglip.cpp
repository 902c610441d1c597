#include <array>
#include <cmath>

#include "kernel/elementwise/elementwise.h"
#include "kernel/embedding/embedding.h"
#include "kernel/pooling/pooling.h"
#include "models/clip/clip_vision.h"
#include "models/encoder/model.h"
#include "models/registry.h"

namespace pumice {

namespace {

// SigLIP (Zhai et al., Sigmoid Loss for Language Image Pre-Training, 2023): CLIP with texts of full length
// that are read both ways, and with pictures pooled by an attention of their own.
class SiglipText : public EncoderModel {
public:
  SiglipText(EncoderConfig config, const SharedSpace& space, uint32_t size)
      : EncoderModel(std::move(config), false), space_(space), size_(size) {}

  ModelShape shape() const override {
    ModelShape shape = EncoderModel::shape();
    shape.shared_space = space_;
    return shape;
  }

protected:
  void build(EncoderBuilder& builder) const override {
    const TensorId x = build_clip_text(builder, "text_model.");
    builder.finish(x);
    builder.prefix("text_model.", "");
    const TensorId pooled = builder.project(builder.picked_rows(x, {}), {"head", ""}, size_, true, "head");
    builder.pooler_output(pooled);
    builder.readable().add(SharedSpace::text, unit_length(builder.graph(), SharedSpace::text, pooled));
  }

private:
  SharedSpace space_;
  uint32_t size_;
};

class SiglipPictures : public EncoderModel {
public:
  explicit SiglipPictures(ClipVisionConfig config)
      : EncoderModel(config.encoder, false), vision_(std::move(config)) {}

protected:
  void build(EncoderBuilder& builder) const override {
    TensorId x = build_clip_vision(builder, vision_, "vision_model.");
    builder.prefix("vision_model.", "");
    x = builder.layer_norm(x, {"post_layernorm", ""});
    builder.finish(x);
    const TensorId pooled = pool(builder, x);
    builder.pooler_output(pooled);
    builder.readable().add(SharedSpace::picture, unit_length(builder.graph(), SharedSpace::picture, pooled));
  }

private:
  // A learned query attends to the picture. Each of its rows asks, and the first one's answer is taken.
  TensorId pool(EncoderBuilder& builder, TensorId x) const {
    Graph& graph = builder.graph();
    const uint32_t hidden = config().hidden;
    builder.prefix("vision_model.head.", "");
    const WeightView probe = builder.shaped_tensor({"probe", ""}, "", {1, 1, hidden}, "head");
    const TensorId rows = token_type_embedding(graph, "probes", builder.weight(probe, "head"));
    AttentionNames names;
    names.fused = {"attention.in_proj", ""};
    names.fused_weight = "_weight";
    names.fused_bias = "_bias";
    names.output = {"attention.out_proj", ""};
    AttentionInputs inputs;
    inputs.query = builder.project_input(rows, names, StackBuilder::Projection::query, hidden);
    inputs.key = builder.project_input(x, names, StackBuilder::Projection::key, hidden);
    inputs.value = builder.project_input(x, names, StackBuilder::Projection::value, hidden);
    const TensorId attended = builder.first_rows(builder.attend_apart(inputs));
    const TensorId y = builder.project(attended, names.output, hidden, true, "head");
    TensorId z = builder.layer_norm(y, {"layernorm", ""});
    z = builder.project(z, {"mlp.fc1", ""}, config().feed_forward, true, "head");
    z = activate(graph, "vision_model.head.activated", z, config().activation);
    z = builder.project(z, {"mlp.fc2", ""}, hidden, true, "head");
    return builder.add(z, y, "residual");
  }

  ClipVisionConfig vision_;
};

const nlohmann::json defaults = {{"hidden_size", 768},
                                 {"intermediate_size", 3072},
                                 {"num_hidden_layers", 12},
                                 {"num_attention_heads", 12}};

OpenedDefinition open_siglip(const ModelFile& file) {
  nlohmann::json all = defaults;
  all["vocab_size"] = 32000;
  PUMICE_TRY(const Settings settings, tower_settings(file, "text_config", all));
  PUMICE_TRY(EncoderConfig config, read_clip_text_config(settings, 1e-6f));
  if (!settings.has({"hidden_act", ""})) config.activation = Activation::gelu_tanh;
  if (!settings.has({"max_position_embeddings", ""})) config.context = 64;
  PUMICE_TRY(config.padding, settings.u32_or({"pad_token_id", ""}, 0, config.vocabulary - 1, 1));
  PUMICE_TRY(const uint32_t size,
             settings.u32_or({"projection_size", ""}, 1, limits::columns, config.hidden));
  SharedSpace space;
  space.each_by_itself = true;
  PUMICE_TRY(const float logit_scale, read_number(file, "logit_scale", 0));
  PUMICE_TRY(space.bias, read_number(file, "logit_bias", 0));
  space.scale = std::exp(logit_scale);
  return std::unique_ptr<ModelDefinition>(std::make_unique<SiglipText>(std::move(config), space, size));
}

OpenedDefinition open_siglip_pictures(const ModelFile& file) {
  nlohmann::json all = defaults;
  PUMICE_TRY(const Settings settings, tower_settings(file, "vision_config", all));
  PUMICE_TRY(ClipVisionConfig config, read_clip_vision_config(settings, {.siglip = true}));
  if (!settings.has({"hidden_act", ""})) config.encoder.activation = Activation::gelu_tanh;
  return std::unique_ptr<ModelDefinition>(std::make_unique<SiglipPictures>(std::move(config)));
}

} // namespace

Architectures siglip_models() {
  return {{"siglip", {"siglip"}, {}, open_siglip, open_siglip_pictures}};
}

} // namespace pumice
