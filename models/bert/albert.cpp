#include <fmt/format.h>

#include "kernel/elementwise/elementwise.h"
#include "kernel/embedding/embedding.h"
#include "models/encoder/model.h"
#include "models/registry.h"

namespace pumice {

namespace {

// ALBERT (Lan et al. 2019): BERT whose layers share their weights, in groups of equal size, and whose
// embeddings have fewer columns than its layers.
class Albert : public EncoderModel {
public:
  Albert(EncoderConfig config, std::string prefix, uint32_t groups, bool pooler)
      : EncoderModel(std::move(config), false), prefix_(std::move(prefix)), groups_(groups), pooler_(pooler) {
  }

protected:
  void build(EncoderBuilder& builder) const override {
    TensorId x = builder.run_layers(embed(builder), layer_names());
    builder.finish(x);
    builder.masked_head({"predictions.dense",
                         "predictions.LayerNorm",
                         "predictions.decoder",
                         {"predictions.decoder.bias", "predictions.bias"}},
                        config().activation);
    if (!pooler_) return;
    builder.prefix(prefix_, "");
    x = builder.project(builder.first_rows(x), {"pooler", ""}, config().hidden, true, "head");
    x = activate(builder.graph(), "pooler_output", x, Activation::tanh);
    builder.pooler_output(x);
    builder.prefix("", "");
    if (!config().labels.empty()) builder.logits(x, {"classifier", ""});
  }

  std::vector<Hyperparameter> own_hyperparameters() const override {
    return {{"groups of layers", fmt::format("{}", groups_)}};
  }

private:
  TensorId embed(EncoderBuilder& builder) const {
    builder.prefix(prefix_ + "embeddings.", "");
    TensorId x = builder.embed({"word_embeddings", ""});
    const WeightView table = builder.tensor({"token_type_embeddings", ""}, ".weight", config().token_types,
                                            config().embedding_columns(), "embedding");
    const TensorId types =
        token_type_embedding(builder.graph(), "token_type_embedding", builder.weight(table, "embedding"));
    x = builder.add(x, types, "with_types");
    x = builder.learned_positions(x, {"position_embeddings", ""});
    x = builder.layer_norm(x, {"LayerNorm", ""});
    builder.prefix(prefix_ + "encoder.", "");
    return builder.project(x, {"embedding_hidden_mapping_in", ""}, config().hidden, true, "embedding");
  }

  LayerNames layer_names() const {
    LayerNames names;
    names.hugging_face = prefix_ + "encoder.albert_layer_groups.{}.albert_layers.0.";
    names.layers_sharing = config().layers / groups_;
    names.attention.query = {"attention.query", ""};
    names.attention.key = {"attention.key", ""};
    names.attention.value = {"attention.value", ""};
    names.attention.output = {"attention.dense", ""};
    names.attention_norm = {"attention.LayerNorm", ""};
    names.up = {"ffn", ""};
    names.down = {"ffn_output", ""};
    names.feed_forward_norm = {"full_layer_layer_norm", ""};
    return names;
  }

  std::string prefix_; // of tensor names: "albert.", or empty if the file has only the encoder
  uint32_t groups_;
  bool pooler_;
};

OpenedDefinition open_albert(const ModelFile& file) {
  const Settings settings(file);
  PUMICE_CHECK(refuse_decoder(settings));
  StackConfigNames names;
  names.set_heads_share_columns();
  names.norm_eps = {"layer_norm_eps", ""};
  names.default_norm_eps = 1e-12f;
  names.default_activation = Activation::gelu_tanh;
  names.default_context = 512;
  EncoderConfig config;
  PUMICE_TRY(static_cast<StackConfig&>(config), read_stack_config(settings, names));
  PUMICE_TRY(config.embedding, settings.u32_or({"embedding_size", ""}, 1, limits::columns, 128));
  PUMICE_TRY(config.token_types, settings.u32_or({"type_vocab_size", ""}, 1, limits::tokens, 2));
  const SettingName group_count = {"num_hidden_groups", ""};
  PUMICE_TRY(uint32_t groups, settings.u32_or(group_count, 1, config.layers, 1));
  if (config.layers % groups) {
    return settings.error(
        group_count, fmt::format("expected a divisor of the {} layers; found {}", config.layers, groups));
  }
  PUMICE_TRY(uint32_t inner, settings.u32_or({"inner_group_num", ""}, 1, limits::layers, 1));
  if (inner != 1)
    return settings.error({"inner_group_num", ""}, fmt::format("only 1 is supported; found {}", inner));
  const std::string prefix = file.find("albert.embeddings.word_embeddings.weight") ? "albert." : "";
  const bool pooler = file.find(prefix + "pooler.weight");
  PUMICE_TRY(const bool of_tokens, read_token_head(settings, config, pooler));
  if (pooler && file.find("classifier.weight") && !of_tokens) {
    PUMICE_TRY(config.labels, read_labels(settings, file.find("classifier.weight")));
  }
  return std::unique_ptr<ModelDefinition>(
      std::make_unique<Albert>(std::move(config), prefix, groups, pooler));
}

} // namespace

Architectures albert_models() {
  return {{"albert", {"albert"}, {}, open_albert}};
}

} // namespace pumice
