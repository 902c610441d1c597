#include <fmt/format.h>

#include "kernel/elementwise/elementwise.h"
#include "models/encoder/model.h"
#include "models/registry.h"

namespace pumice {

namespace {

constexpr uint32_t mpnet_position_offset = 2; // the position table's row of the first position
constexpr uint32_t farthest_bucket = 128;     // from this distance on, keys share a bias

// MPNet (Song et al. 2020): BERT without token types, with T5's bias by distance, which all layers share.
class MpNet : public EncoderModel {
public:
  MpNet(EncoderConfig config, std::string prefix, uint32_t buckets, bool pooler)
      : EncoderModel(std::move(config), false), prefix_(std::move(prefix)), buckets_(buckets),
        pooler_(pooler) {}

protected:
  void build(EncoderBuilder& builder) const override {
    builder.prefix(prefix_ + "embeddings.", "");
    TensorId x = builder.embed({"word_embeddings", ""});
    x = builder.learned_positions(x, {"position_embeddings", ""}, mpnet_position_offset);
    x = builder.layer_norm(x, {"LayerNorm", ""});
    builder.prefix(prefix_ + "encoder.", "");
    const WeightView table =
        builder.tensor({"relative_attention_bias", ""}, ".weight", buckets_, config().heads, "attention");
    AttentionStyle style;
    style.relative_bias = {buckets_, farthest_bucket, true};
    style.relative_bias_table = builder.weight(table, "attention");
    x = builder.run_layers(x, layer_names(), style);
    builder.finish(x);
    builder.masked_head(roberta_masked_head(), Activation::gelu);
    if (pooler_) {
      builder.prefix(prefix_, "");
      builder.pooler_output(dense_tanh(builder, builder.first_rows(x), {"pooler.dense", ""}));
    }
    if (config().labels.empty()) return;
    builder.prefix("", "");
    builder.logits(dense_tanh(builder, builder.first_rows(x), {"classifier.dense", ""}),
                   {"classifier.out_proj", ""});
  }

  std::vector<Hyperparameter> own_hyperparameters() const override {
    return {{"buckets of distances", fmt::format("{}", buckets_)}};
  }

private:
  TensorId dense_tanh(EncoderBuilder& builder, TensorId x, const TensorName& name) const {
    x = builder.project(x, name, config().hidden, true, "head");
    return activate(builder.graph(), builder.node_name(name) + ".activated", x, Activation::tanh);
  }

  LayerNames layer_names() const {
    LayerNames names;
    names.hugging_face = prefix_ + "encoder.layer.{}.";
    names.attention.query = {"attention.attn.q", ""};
    names.attention.key = {"attention.attn.k", ""};
    names.attention.value = {"attention.attn.v", ""};
    names.attention.output = {"attention.attn.o", ""};
    names.attention_norm = {"attention.LayerNorm", ""};
    names.up = {"intermediate.dense", ""};
    names.down = {"output.dense", ""};
    names.feed_forward_norm = {"output.LayerNorm", ""};
    return names;
  }

  std::string prefix_; // of tensor names: "mpnet.", or empty if the file has only the encoder
  uint32_t buckets_;
  bool pooler_;
};

OpenedDefinition open_mpnet(const ModelFile& file) {
  const Settings settings(file);
  StackConfigNames names;
  names.set_heads_share_columns();
  names.norm_eps = {"layer_norm_eps", ""};
  names.default_norm_eps = 1e-12f;
  names.default_activation = Activation::gelu;
  names.default_context = 512;
  EncoderConfig config;
  PUMICE_TRY(static_cast<StackConfig&>(config), read_stack_config(settings, names));
  if (config.context <= mpnet_position_offset) {
    return settings.error(names.context,
                          fmt::format("expected more than the {} positions before the first; found {}",
                                      mpnet_position_offset, config.context));
  }
  config.context -= mpnet_position_offset;
  PUMICE_TRY(uint32_t buckets, settings.u32_or({"relative_attention_num_buckets", ""}, 4, 1 << 16, 32));
  const std::string prefix = file.find("mpnet.embeddings.word_embeddings.weight") ? "mpnet." : "";
  const bool pooler = file.find(prefix + "pooler.dense.weight");
  const bool classifies = file.find("classifier.out_proj.weight");
  PUMICE_TRY(const bool of_tokens, read_token_head(settings, config, classifies));
  if (classifies && !of_tokens) {
    PUMICE_TRY(config.labels, read_labels(settings, file.find("classifier.out_proj.weight")));
  }
  return std::unique_ptr<ModelDefinition>(
      std::make_unique<MpNet>(std::move(config), prefix, buckets, pooler));
}

} // namespace

Architectures mpnet_models() {
  return {{"mpnet", {"mpnet"}, {}, open_mpnet}};
}

} // namespace pumice
