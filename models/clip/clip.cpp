#include <cmath>

#include "kernel/pooling/pooling.h"
#include "models/clip/clip_vision.h"
#include "models/encoder/model.h"
#include "models/registry.h"

namespace pumice {

namespace {

// CLIP (Radford et al., Learning Transferable Visual Models From Natural Language Supervision, 2021): an
// encoder of texts and one of pictures, whose results are projected into one space.

// x, projected into the space.
void embed_into_space(EncoderBuilder& builder, TensorId x, const char* projection, const char* name,
                      uint32_t size) {
  builder.prefix("", "");
  const TensorId projected = builder.project(x, {projection, ""}, size, false, "head");
  builder.readable().add(name, unit_length(builder.graph(), name, projected));
}

class ClipText : public EncoderModel {
public:
  ClipText(EncoderConfig config, const SharedSpace& space, uint32_t size, const PickRows& end)
      : EncoderModel(std::move(config), false), space_(space), size_(size), end_(end) {}

  ModelShape shape() const override {
    ModelShape shape = EncoderModel::shape();
    shape.shared_space = space_;
    return shape;
  }

protected:
  void build(EncoderBuilder& builder) const override {
    const TensorId x = build_clip_text(builder, "text_model.");
    builder.finish(x);
    const TensorId pooled = builder.picked_rows(x, end_);
    builder.pooler_output(pooled);
    embed_into_space(builder, pooled, "text_projection", SharedSpace::text, size_);
  }

private:
  SharedSpace space_;
  uint32_t size_;
  PickRows end_; // the row that stands for a text
};

class ClipPictures : public EncoderModel {
public:
  ClipPictures(ClipVisionConfig config, uint32_t size)
      : EncoderModel(config.encoder, false), vision_(std::move(config)), size_(size) {}

protected:
  void build(EncoderBuilder& builder) const override {
    const TensorId x = build_clip_vision(builder, vision_, "vision_model.");
    builder.finish(x);
    builder.prefix("vision_model.", "");
    const TensorId pooled = builder.layer_norm(builder.first_rows(x), {"post_layernorm", ""});
    builder.pooler_output(pooled);
    embed_into_space(builder, pooled, "visual_projection", SharedSpace::picture, size_);
  }

private:
  ClipVisionConfig vision_;
  uint32_t size_;
};

Result<uint32_t> projected_size(const ModelFile& file) {
  return Settings(file).u32_or({"projection_dim", ""}, 1, limits::columns, 512);
}

OpenedDefinition open_clip(const ModelFile& file) {
  nlohmann::json all = {{"vocab_size", 49408},       {"hidden_size", 512},
                        {"intermediate_size", 2048}, {"num_hidden_layers", 12},
                        {"num_attention_heads", 8},  {"max_position_embeddings", 77}};
  PUMICE_TRY(const Settings settings, tower_settings(file, "text_config", all));
  PUMICE_TRY(EncoderConfig config, read_clip_text_config(settings, 1e-5f));
  config.causal = true;
  // In the first models' configs the end token was wrong; it is the largest of the vocabulary there.
  PUMICE_TRY(const uint32_t end, settings.u32_or({"eos_token_id", ""}, 0, limits::tokens, 49407));
  PickRows rule;
  rule.rule = end == 2 ? PickRows::Rule::largest : PickRows::Rule::first_of;
  rule.token = end;
  SharedSpace space;
  PUMICE_TRY(const float logit_scale, read_number(file, "logit_scale", 0));
  space.scale = std::exp(logit_scale);
  PUMICE_TRY(const uint32_t size, projected_size(file));
  return std::unique_ptr<ModelDefinition>(std::make_unique<ClipText>(std::move(config), space, size, rule));
}

OpenedDefinition open_clip_pictures(const ModelFile& file) {
  nlohmann::json all = {{"hidden_size", 768},
                        {"intermediate_size", 3072},
                        {"num_hidden_layers", 12},
                        {"num_attention_heads", 12}};
  PUMICE_TRY(const Settings settings, tower_settings(file, "vision_config", all));
  PUMICE_TRY(ClipVisionConfig config, read_clip_vision_config(settings, {}));
  PUMICE_TRY(const uint32_t size, projected_size(file));
  return std::unique_ptr<ModelDefinition>(std::make_unique<ClipPictures>(std::move(config), size));
}

} // namespace

Architectures clip_models() {
  return {{"clip", {"clip"}, {}, open_clip, open_clip_pictures}};
}

} // namespace pumice
