#include "models/vit/deit.h"

#include "kernel/elementwise/elementwise.h"
#include "models/encoder/model.h"
#include "models/registry.h"

namespace pumice {

namespace {

// What stands after the encoder in a DeiT's file.
struct DeitHeads {
  std::string prefix; // of tensor names: "deit.", or empty if the file has only the encoder
  std::optional<Activation> pooler;
  uint32_t pooler_columns = 0;
  bool teacher = false; // a classifier of the distillation token beside the class token's
};

// DeiT (Touvron et al. 2021): a ViT with a second token before the patches, which learned from a teacher.
class Deit : public EncoderModel {
public:
  Deit(VitConfig config, bool gguf, DeitHeads heads)
      : EncoderModel(config.encoder, gguf), vit_(std::move(config)), heads_(std::move(heads)) {}

protected:
  void build(EncoderBuilder& builder) const override {
    const TensorId x = build_vit(builder, vit_, heads_.prefix);
    if (heads_.pooler) {
      builder.prefix(heads_.prefix, "");
      const TensorId y =
          builder.project(builder.first_rows(x), {"pooler.dense", ""}, heads_.pooler_columns, true, "head");
      builder.pooler_output(activate(builder.graph(), "pooler_output", y, *heads_.pooler));
    }
    builder.prefix("", "");
    if (config().labels.empty()) return;
    if (!heads_.teacher) return builder.logits(builder.first_rows(x), {"classifier", ""});
    builder.logits(mean_of_two(builder, x));
  }

private:
  // The mean of what the two classifiers say, each of its token.
  TensorId mean_of_two(EncoderBuilder& builder, TensorId x) const {
    const uint32_t labels = static_cast<uint32_t>(config().labels.size());
    PickRows second;
    second.rule = PickRows::Rule::numbered;
    second.token = 1;
    const TensorId a = builder.project(builder.first_rows(x), {"cls_classifier", ""}, labels, true, "head");
    const TensorId b = builder.project(builder.picked_rows(x, second), {"distillation_classifier", ""},
                                       labels, true, "head");
    return scale(builder.graph(), "mean_logits", builder.add(a, b, "added_logits"), 0.5f);
  }

  VitConfig vit_;
  DeitHeads heads_;
};

} // namespace

Result<VitConfig> read_deit_config(const Settings& settings) {
  PUMICE_TRY(VitConfig config, read_vit_config(settings));
  set_lead(config, {"cls_token", "distillation_token"});
  return config;
}

namespace {

OpenedDefinition open_deit(const ModelFile& file) {
  const Settings settings(file);
  PUMICE_TRY(VitConfig config, read_deit_config(settings));
  DeitHeads heads;
  heads.prefix = file.find("deit.embeddings.cls_token") ? "deit." : "";
  if (file.find(heads.prefix + "pooler.dense.weight")) {
    PUMICE_TRY(heads.pooler, settings.activation_or({"pooler_act", ""}, Activation::tanh));
    PUMICE_TRY(heads.pooler_columns,
               settings.u32_or({"pooler_output_size", ""}, 1, limits::columns, config.encoder.hidden));
  }
  heads.teacher = file.find("distillation_classifier.weight");
  if (heads.teacher || file.find("classifier.weight")) {
    PUMICE_TRY(config.encoder.labels, read_labels(settings));
  }
  return std::unique_ptr<ModelDefinition>(
      std::make_unique<Deit>(std::move(config), settings.gguf(), std::move(heads)));
}

} // namespace

Architectures deit_models() {
  return {{"deit", {"deit"}, {}, open_deit}};
}

} // namespace pumice
