#include "kernel/elementwise/elementwise.h"
#include "models/encoder/model.h"
#include "models/registry.h"

namespace pumice {

namespace {

// DistilBERT (Sanh et al. 2019): BERT with half of its layers, without token types and pooler, and with
// tensor names of its own.
class DistilBert : public EncoderModel {
public:
  DistilBert(EncoderConfig config, bool gguf, std::string prefix)
      : EncoderModel(std::move(config), gguf), prefix_(std::move(prefix)) {}

protected:
  void build(EncoderBuilder& builder) const override {
    builder.prefix(prefix_ + "embeddings.", "");
    TensorId x = builder.embed({"word_embeddings", ""});
    x = builder.learned_positions(x, {"position_embeddings", ""});
    x = builder.layer_norm(x, {"LayerNorm", ""});
    x = builder.run_layers(x, layer_names());
    builder.finish(x);
    builder.masked_head({"vocab_transform", "vocab_layer_norm", "vocab_projector", {"vocab_projector.bias"}},
                        config().activation);
    if (config().labels.empty()) return;
    builder.prefix("", "");
    const TensorName dense = {"pre_classifier", ""};
    x = builder.project(builder.first_rows(x), dense, config().hidden, true, "head");
    x = activate(builder.graph(), "pre_classifier.activated", x, Activation::relu);
    builder.logits(x, {"classifier", ""});
  }

private:
  LayerNames layer_names() const {
    LayerNames names;
    names.hugging_face = prefix_ + "transformer.layer.{}.";
    names.attention.query = {"attention.q_lin", ""};
    names.attention.key = {"attention.k_lin", ""};
    names.attention.value = {"attention.v_lin", ""};
    names.attention.output = {"attention.out_lin", ""};
    names.attention_norm = {"sa_layer_norm", ""};
    names.up = {"ffn.lin1", ""};
    names.down = {"ffn.lin2", ""};
    names.feed_forward_norm = {"output_layer_norm", ""};
    return names;
  }

  std::string prefix_; // of tensor names: "distilbert.", or empty if the file has only the encoder
};

OpenedDefinition open_distilbert(const ModelFile& file) {
  const Settings settings(file);
  StackConfigNames names;
  names.hidden = {"dim", ""};
  names.layers = {"n_layers", ""};
  names.heads = {"n_heads", ""};
  names.set_heads_share_columns();
  names.feed_forward = {"hidden_dim", ""};
  names.norm_eps = {};
  names.default_norm_eps = 1e-12f;
  names.activation = {"activation", ""};
  names.default_activation = Activation::gelu;
  names.default_context = 512;
  EncoderConfig config;
  PUMICE_TRY(static_cast<StackConfig&>(config), read_stack_config(settings, names));
  std::string prefix = file.find("distilbert.embeddings.word_embeddings.weight") ? "distilbert." : "";
  const bool classifies = file.find("pre_classifier.weight");
  PUMICE_TRY(const bool of_tokens, read_token_head(settings, config, classifies));
  if (classifies && !of_tokens) {
    PUMICE_TRY(config.labels, read_labels(settings, file.find("classifier.weight")));
  }
  return std::unique_ptr<ModelDefinition>(
      std::make_unique<DistilBert>(std::move(config), settings.gguf(), std::move(prefix)));
}

} // namespace

Architectures distilbert_models() {
  return {{"distilbert", {"distilbert"}, {}, open_distilbert}};
}

} // namespace pumice
