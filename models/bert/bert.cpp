#include <fmt/format.h>

#include "kernel/elementwise/elementwise.h"
#include "kernel/embedding/embedding.h"
#include "models/encoder/model.h"
#include "models/registry.h"

namespace pumice {

namespace {

// How a model that is derived from BERT differs from it.
struct BertFamily {
  std::string_view prefix = "bert."; // of tensor names, if the file has heads
  uint32_t position_offset = 0;      // the position table's row of the first position
  // The classifier has a dense layer of its own and reads the last hidden state, not the pooler's result.
  bool classifier_has_dense = false;
  Activation classifier_activation = Activation::tanh; // of that layer
  MaskedHeadNames masked_head = bert_masked_head();
  std::optional<Activation> masked_activation; // nothing: that of the layers
  bool may_be_linear = false;                  // its file may have no positions but a linear bias of scores
};

// Jina's embeddings, version 2 (Günther et al. 2023): no table of positions but a linear bias of scores by
// distance both ways, and a gated feed-forward.
struct JinaForm {
  bool gated = true;
  // Of its model for code: norms of the whole queries and keys, one norm more after attention, and the gate
  // follows what it opens.
  bool for_code = false;
  bool gate_apart = false; // in a GGUF file
};

struct BertSettings {
  std::string prefix; // of Hugging Face's tensor names
  uint32_t position_offset = 0;
  bool token_types = true;
  bool pooler = false;
  bool classifier_has_dense = false;
  Activation classifier_activation = Activation::tanh;
  MaskedHeadNames masked_head;
  std::optional<Activation> masked_activation;
  std::optional<JinaForm> jina;
};

// BERT (Devlin et al. 2018): post-norm layers with biases everywhere. Their input is the sum of the
// embeddings of tokens, learned positions and token types.
class Bert : public EncoderModel {
public:
  Bert(EncoderConfig config, bool gguf, BertSettings own)
      : EncoderModel(std::move(config), gguf), own_(std::move(own)) {}

protected:
  void build(EncoderBuilder& builder) const override {
    AttentionStyle style;
    style.relative_bias.linear = own_.jina.has_value();
    style.relative_bias.max_distance = config().context;
    TensorId x = builder.run_layers(embed(builder), layer_names(), style);
    builder.finish(x);
    if (own_.pooler || !config().labels.empty()) heads(builder, builder.first_rows(x));
    builder.masked_head(own_.masked_head, own_.masked_activation.value_or(config().activation));
  }

  std::vector<Hyperparameter> own_hyperparameters() const override {
    if (!own_.jina) return {};
    return {{"positions", "linear bias of scores"}};
  }

  std::string_view gguf_architecture() const override {
    if (!own_.jina) return config().embedding ? "" : "bert";
    // llama.cpp knows no other activation, and a classifier without a pooler.
    const bool known = config().activation == Activation::gelu && config().labels.empty();
    return known && !config().embedding ? "jina-bert-v2" : "";
  }

private:
  TensorId embed(EncoderBuilder& builder) const {
    builder.prefix(own_.prefix + "embeddings.", "");
    TensorId x = builder.embed({"word_embeddings", "token_embd"});
    if (own_.token_types) {
      const WeightView table =
          builder.tensor({"token_type_embeddings", "token_types"}, ".weight", config().token_types,
                         config().embedding_columns(), "embedding");
      const TensorId types =
          token_type_embedding(builder.graph(), "token_type_embedding", builder.weight(table, "embedding"));
      x = builder.add(x, types, "with_types");
    }
    if (!own_.jina)
      x = builder.learned_positions(x, {"position_embeddings", "position_embd"}, own_.position_offset);
    x = builder.layer_norm(x, {"LayerNorm", "token_embd_norm"});
    if (!config().embedding) return x;
    builder.prefix(own_.prefix, "");
    return builder.project(x, {"embeddings_project", ""}, config().hidden, true, "embedding");
  }

  LayerNames layer_names() const {
    LayerNames names;
    names.hugging_face = own_.prefix + "encoder.layer.{}.";
    names.gguf = "blk.{}.";
    names.attention.query = {"attention.self.query", "attn_q"};
    names.attention.key = {"attention.self.key", "attn_k"};
    names.attention.value = {"attention.self.value", "attn_v"};
    names.attention.output = {"attention.output.dense", "attn_output"};
    names.attention_norm = {"attention.output.LayerNorm", "attn_output_norm"};
    names.up = {"intermediate.dense", "ffn_up"};
    names.down = {"output.dense", "ffn_down"};
    names.feed_forward_norm = {"output.LayerNorm", "layer_output_norm"};
    if (own_.jina) set_jina_names(names);
    return names;
  }

  void set_jina_names(LayerNames& names) const {
    const JinaForm& form = *own_.jina;
    if (!form.gated && !form.for_code) return;
    names.up_bias = false;
    names.up = {form.for_code ? "mlp.up_layer" : "mlp.gated_layers", "ffn_up"};
    names.down = {form.for_code ? "mlp.down_layer" : "mlp.wo", "ffn_down"};
    names.feed_forward_norm = {form.for_code ? "layer_norm_2" : "mlp.layernorm", "layer_output_norm"};
    names.fused_gate = form.gated && !form.gate_apart;
    if (form.gate_apart) names.gate = {"", "ffn_gate"};
    if (!form.for_code) return;
    names.attention.query_norm = {"attention.self.layer_norm_q", "attn_q_norm"};
    names.attention.key_norm = {"attention.self.layer_norm_k", "attn_k_norm"};
    names.attention_norm_again = {"layer_norm_1", "attn_norm_2"};
    names.gate_last = true;
    if (!form.gated || reads_gguf()) return;
    names.up.hugging_face = "mlp.up_gated_layer";
    names.gate = {names.up.hugging_face, "ffn_gate"}; // llama.cpp opens what stands first in one tensor
  }

  TensorId dense(EncoderBuilder& builder, TensorId x, const TensorName& name, Activation activation) const {
    x = builder.project(x, name, config().hidden, true, "head");
    return activate(builder.graph(), builder.node_name(name) + ".activated", x, activation);
  }

  // GGUF has a pooler only with a classifier, whose own dense layer has the same name.
  void heads(EncoderBuilder& builder, TensorId first) const {
    const bool classifies = !config().labels.empty();
    const std::string_view dense_in_gguf = classifies ? "cls" : "";
    TensorId pooled = first;
    if (own_.pooler) {
      builder.prefix(own_.prefix, "");
      const TensorName name = {"pooler.dense", own_.classifier_has_dense ? "" : dense_in_gguf};
      pooled = dense(builder, first, name, Activation::tanh);
      builder.pooler_output(pooled);
    }
    if (!classifies) return;
    builder.prefix("", "");
    if (own_.classifier_has_dense) {
      builder.logits(dense(builder, first, {"classifier.dense", "cls"}, own_.classifier_activation),
                     {"classifier.out_proj", "cls.output"});
    } else {
      builder.logits(pooled, {"classifier", "cls.output"});
    }
  }

  BertSettings own_;
};

// Whether scores have a linear bias in place of learned positions.
Result<bool> read_positions(const Settings& settings, const BertFamily& family) {
  if (settings.gguf()) return settings.architecture() == "jina-bert-v2";
  PUMICE_TRY(std::string kind, settings.fields().string_or("position_embedding_type", "absolute"));
  if (kind == "absolute" || (kind == "alibi" && family.may_be_linear)) return kind == "alibi";
  return settings.error(
      {"position_embedding_type", ""},
      fmt::format("expected absolute{}; found '{}'", family.may_be_linear ? " or alibi" : "", kind));
}

// The form of Jina's layers, and their activation.
Result<JinaForm> read_jina(const Settings& settings, const std::string& prefix, EncoderConfig& config) {
  const ModelFile& file = settings.file();
  JinaForm form;
  if (settings.gguf()) {
    form.for_code = file.find("blk.0.attn_q_norm.weight");
    form.gate_apart = file.find("blk.0.ffn_gate.weight");
    const TensorView* up = file.find("blk.0.ffn_up.weight");
    const bool both = !up || up->shape.empty() || up->shape[0] != config.feed_forward;
    form.gated = form.gate_apart || both;
    return form;
  }
  form.for_code = file.find(prefix + "encoder.layer.0.layer_norm_1.weight");
  constexpr const char* name = "feed_forward_type";
  PUMICE_TRY(const std::string type, settings.fields().string_or(name, "original"));
  if (type != "original" && type != "geglu" && type != "reglu")
    return settings.error({name, ""}, fmt::format("expected original, geglu or reglu; found '{}'", type));
  form.gated = type != "original";
  if (form.gated) config.activation = type == "geglu" ? Activation::gelu : Activation::relu;
  return form;
}

Result<EncoderConfig> read_config(const Settings& settings, const BertFamily& family) {
  StackConfigNames names;
  names.set_heads_share_columns();
  names.norm_eps = {"layer_norm_eps", "attention.layer_norm_epsilon"};
  names.default_context = 512 + family.position_offset;
  names.default_norm_eps = 1e-12f;
  names.default_activation = Activation::gelu;
  PUMICE_CHECK(refuse_decoder(settings));
  EncoderConfig config;
  PUMICE_TRY(static_cast<StackConfig&>(config), read_stack_config(settings, names));
  if (config.context <= family.position_offset) {
    return settings.error(names.context,
                          fmt::format("expected more than the {} positions before the first; found {}",
                                      family.position_offset, config.context));
  }
  config.context -= family.position_offset;
  PUMICE_TRY(uint32_t columns, settings.u32_or({"embedding_size", ""}, 1, limits::columns, config.hidden));
  if (columns != config.hidden) config.embedding = columns;
  return config;
}

// The number of token types. GGUF has no key for it, so it is the number of rows of the table.
Result<uint32_t> read_token_types(const Settings& settings) {
  if (!settings.gguf()) return settings.u32_or({"type_vocab_size", ""}, 0, limits::tokens, 2);
  const TensorView* table = settings.file().find("token_types.weight");
  if (!table) return settings.file().has_weights() ? 0 : 2;
  if (table->shape.empty() || table->shape[0] < 1 || table->shape[0] > limits::tokens) {
    return Error{Code::invalid_file,
                 fmt::format("{}: tensor 'token_types.weight': expected a row for each token type",
                             settings.file().path())};
  }
  return static_cast<uint32_t>(table->shape[0]);
}

OpenedDefinition open_bert_family(const ModelFile& file, const BertFamily& family) {
  const Settings settings(file);
  PUMICE_TRY(EncoderConfig config, read_config(settings, family));
  PUMICE_TRY(uint32_t types, read_token_types(settings));
  BertSettings own;
  own.position_offset = family.position_offset;
  own.token_types = types > 0;
  config.token_types = own.token_types ? types : 1;
  const std::string prefix(family.prefix);
  if (file.find(prefix + "embeddings.word_embeddings.weight")) own.prefix = prefix;
  config.gamma_and_beta = file.find(own.prefix + "embeddings.LayerNorm.gamma");
  own.pooler = file.find(settings.gguf() ? "cls.weight" : own.prefix + "pooler.dense.weight");
  own.classifier_has_dense = family.classifier_has_dense;
  own.classifier_activation = family.classifier_activation;
  own.masked_head = family.masked_head;
  own.masked_activation = family.masked_activation;
  PUMICE_TRY(const bool linear, read_positions(settings, family));
  if (linear) {
    // A number for each distance and head.
    constexpr uint64_t most_biases = 1 << 24;
    const uint64_t most_context = most_biases / config.heads - 1;
    if (config.context > most_context) {
      return settings.error({"max_position_embeddings", "context_length"},
                            fmt::format("expected at most {}, for linear biases of {} heads; found {}",
                                        most_context, config.heads, config.context));
    }
    own.masked_activation = config.activation;
    PUMICE_TRY(own.jina, read_jina(settings, own.prefix, config));
  }
  const char* head = settings.gguf()            ? "cls.output.weight"
                     : own.classifier_has_dense ? "classifier.out_proj.weight"
                                                : "classifier.weight";
  const bool classifies = file.find(head) && (own.classifier_has_dense || own.pooler);
  PUMICE_TRY(const bool of_tokens, read_token_head(settings, config, classifies));
  if (classifies && !of_tokens) {
    PUMICE_TRY(config.labels, read_labels(settings, file.find(head)));
  }
  return std::unique_ptr<ModelDefinition>(
      std::make_unique<Bert>(std::move(config), settings.gguf(), std::move(own)));
}

} // namespace

Architectures bert_models() {
  return {
      {"bert",
       {"bert"},
       {"bert", "jina-bert-v2"},
       [](const ModelFile& file) { return open_bert_family(file, {.may_be_linear = true}); }},
      // ELECTRA (Clark et al. 2020), the discriminator or the generator: BERT without a pooler, whose
      // embeddings may have fewer columns than its layers, and whose classifier has a dense layer with GELU.
      {"electra",
       {"electra"},
       {},
       [](const ModelFile& file) {
         return open_bert_family(file, {.prefix = "electra.",
                                        .classifier_has_dense = true,
                                        .classifier_activation = Activation::gelu,
                                        .masked_head = {"generator_predictions.dense",
                                                        "generator_predictions.LayerNorm",
                                                        "generator_lm_head",
                                                        {"generator_lm_head.bias"}},
                                        .masked_activation = Activation::gelu});
       }},
      // RoBERTa (Liu et al. 2019) and XLM-R: BERT whose first position is the id of the padding token plus 1,
      // and whose classifier has a dense layer of its own.
      {"roberta",
       {"roberta", "xlm-roberta"},
       {},
       [](const ModelFile& file) -> OpenedDefinition {
         PUMICE_TRY(uint32_t padding, Settings(file).u32_or({"pad_token_id", ""}, 0, limits::tokens, 1));
         return open_bert_family(file, {.prefix = "roberta.",
                                        .position_offset = padding + 1,
                                        .classifier_has_dense = true,
                                        .masked_head = roberta_masked_head(),
                                        .masked_activation = Activation::gelu});
       }},
  };
}

} // namespace pumice
