#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kernel/attention/position_scores.h"
#include "kernel/elementwise/elementwise.h"
#include "kernel/embedding/embedding.h"
#include "models/encoder/model.h"
#include "models/registry.h"

namespace pumice {

namespace {

struct DebertaSettings {
  std::string prefix; // of tensor names: "deberta.", or empty if the file has only the encoder
  bool positions = false, token_types = false;
  uint32_t span = 0; // buckets of relative positions on each side
  bool rounded = false;
  uint32_t farthest = 0;
  bool normed_positions = false;
  std::optional<Activation> pooler;
};

// DeBERTa V2 and V3 (He et al. 2021): BERT with disentangled attention. A score is the sum of three products:
// of query and key, of query and relative position, and of relative position and key.
class DebertaV2 : public EncoderModel {
public:
  DebertaV2(EncoderConfig config, DebertaSettings own)
      : EncoderModel(std::move(config), false), own_(std::move(own)) {}

protected:
  void build(EncoderBuilder& builder) const override {
    AttentionStyle style;
    style.score_scale = score_scale();
    style.relative_bias = {2 * own_.span, own_.farthest, false, false, true, own_.rounded};
    style.relative_scores = [&](uint32_t layer, const AttentionInputs& inputs) {
      return scores(builder, layer, inputs);
    };
    TensorId x = builder.run_layers(embed(builder), layer_names(), style);
    builder.finish(x);
    if (!own_.pooler) return;
    builder.prefix("", "");
    x = builder.project(builder.first_rows(x), {"pooler.dense", ""}, config().hidden, true, "head");
    x = activate(builder.graph(), "pooler.activated", x, *own_.pooler);
    builder.logits(x, {"classifier", ""});
  }

  std::vector<Hyperparameter> own_hyperparameters() const override {
    return {{"relative positions", fmt::format("{} each way{}", own_.span,
                                               own_.rounded ? fmt::format(" for {}", own_.farthest) : "")}};
  }

private:
  float score_scale() const { return 1 / std::sqrt(3 * static_cast<float>(config().head_dim)); }

  TensorId embed(EncoderBuilder& builder) const {
    builder.prefix(own_.prefix + "embeddings.", "");
    TensorId x = builder.embed({"word_embeddings", ""});
    if (own_.positions) x = builder.learned_positions(x, {"position_embeddings", ""});
    if (own_.token_types) {
      const WeightView table = builder.tensor({"token_type_embeddings", ""}, ".weight", config().token_types,
                                              config().embedding_columns(), "embedding");
      const TensorId types =
          token_type_embedding(builder.graph(), "token_type_embedding", builder.weight(table, "embedding"));
      x = builder.add(x, types, "with_types");
    }
    if (config().embedding) x = builder.project(x, {"embed_proj", ""}, config().hidden, false, "embedding");
    return builder.layer_norm(x, {"LayerNorm", ""});
  }

  LayerNames layer_names() const {
    LayerNames names;
    names.hugging_face = own_.prefix + "encoder.layer.{}.";
    names.attention.query = {"attention.self.query_proj", ""};
    names.attention.key = {"attention.self.key_proj", ""};
    names.attention.value = {"attention.self.value_proj", ""};
    names.attention.output = {"attention.output.dense", ""};
    names.attention_norm = {"attention.output.LayerNorm", ""};
    names.up = {"intermediate.dense", ""};
    names.down = {"output.dense", ""};
    names.feed_forward_norm = {"output.LayerNorm", ""};
    return names;
  }

  TensorId scores(EncoderBuilder& builder, uint32_t layer, const AttentionInputs& inputs) const {
    const uint32_t hidden = config().hidden;
    const LayerNames names = layer_names();
    PositionWeights weights;
    weights.query = builder.tensor(names.attention.query, ".weight", hidden, hidden, "attention");
    weights.query_bias = builder.tensor(names.attention.query, ".bias", hidden, 0, "attention");
    weights.key = builder.tensor(names.attention.key, ".weight", hidden, hidden, "attention");
    weights.key_bias = builder.tensor(names.attention.key, ".bias", hidden, 0, "attention");
    builder.prefix(own_.prefix + "encoder.", "");
    weights.positions = builder.tensor({"rel_embeddings", ""}, ".weight", 2 * own_.span, hidden, "attention");
    if (own_.normed_positions) {
      weights.norm_weight = builder.tensor({"LayerNorm", ""}, ".weight", hidden, 0, "norms");
      weights.norm_bias = builder.tensor({"LayerNorm", ""}, ".bias", hidden, 0, "norms");
      weights.norm_eps = config().norm_eps;
    }
    builder.layer(layer, names.hugging_face);
    return position_scores(builder.graph(), builder.prefix() + "position_scores", inputs.query, inputs.key,
                           kept_scores_.of(layer, std::move(weights), config().heads, score_scale()));
  }

  DebertaSettings own_;
  KeptPositionScores kept_scores_;
};

// The setting is a list, or its items with | between them.
Result<std::string> joined(const Fields& fields, std::string_view name) {
  const nlohmann::json* value = fields.find(name);
  if (!value || value->is_null()) return std::string();
  if (value->is_string()) return value->get<std::string>();
  std::string text;
  if (!value->is_array()) return fields.error(name, "expected a list of texts");
  for (const nlohmann::json& item : *value) {
    if (!item.is_string()) return fields.error(name, "expected a list of texts");
    text += (text.empty() ? "" : "|") + item.get<std::string>();
  }
  return text;
}

Status check_attention(const Settings& settings) {
  PUMICE_CHECK(settings.expect("relative_attention", false, true));
  PUMICE_CHECK(settings.expect("share_att_key", false, true));
  PUMICE_TRY(std::string kinds, joined(settings.fields(), "pos_att_type"));
  if (kinds != "p2c|c2p" && kinds != "c2p|p2c") {
    return settings.error({"pos_att_type", ""}, fmt::format("expected p2c and c2p; found '{}'", kinds));
  }
  PUMICE_TRY(uint32_t taps, settings.u32_or({"conv_kernel_size", ""}, 0, 1 << 16, 0));
  if (taps == 0) return {};
  return settings.error({"conv_kernel_size", ""},
                        "a convolution after the first layer is not supported: expected 0");
}

// -1 stands for no limit.
Result<uint32_t> positive_or(const Settings& settings, std::string_view name, uint32_t fallback) {
  const nlohmann::json* value = settings.fields().find(name);
  if (!value || value->is_null() || (value->is_number_integer() && value->get<int64_t>() < 1))
    return fallback;
  return settings.u32({name, ""}, 1, limits::context);
}

Status read_relative_positions(const Settings& settings, const EncoderConfig& config, DebertaSettings& own) {
  PUMICE_TRY(uint32_t positions, positive_or(settings, "max_relative_positions", config.context));
  PUMICE_TRY(uint32_t buckets, positive_or(settings, "position_buckets", 0));
  own.rounded = buckets > 0;
  own.span = own.rounded ? buckets : positions;
  own.farthest = positions;
  PUMICE_TRY(std::string norm, joined(settings.fields(), "norm_rel_ebd"));
  if (!norm.empty() && norm != "none" && norm != "layer_norm") {
    return settings.error({"norm_rel_ebd", ""}, fmt::format("expected layer_norm or none; found '{}'", norm));
  }
  own.normed_positions = norm == "layer_norm";
  return {};
}

OpenedDefinition open_deberta_v2(const ModelFile& file) {
  const Settings settings(file);
  PUMICE_CHECK(check_attention(settings));
  StackConfigNames names;
  names.set_heads_share_columns();
  names.norm_eps = {"layer_norm_eps", ""};
  names.default_norm_eps = 1e-7f;
  names.default_activation = Activation::gelu;
  names.default_context = 512;
  EncoderConfig config;
  PUMICE_TRY(static_cast<StackConfig&>(config), read_stack_config(settings, names));
  DebertaSettings own;
  PUMICE_CHECK(read_relative_positions(settings, config, own));
  PUMICE_TRY(own.positions, settings.boolean_or({"position_biased_input", ""}, true));
  PUMICE_TRY(uint32_t types, settings.u32_or({"type_vocab_size", ""}, 0, limits::tokens, 0));
  own.token_types = types > 0;
  config.token_types = own.token_types ? types : 1;
  PUMICE_TRY(uint32_t columns, settings.u32_or({"embedding_size", ""}, 1, limits::columns, config.hidden));
  if (columns != config.hidden) config.embedding = columns;
  if (file.find("deberta.embeddings.word_embeddings.weight")) own.prefix = "deberta.";
  const bool pooler = file.find("pooler.dense.weight");
  PUMICE_TRY(const bool of_tokens, read_token_head(settings, config, pooler));
  if (pooler && file.find("classifier.weight") && !of_tokens) {
    PUMICE_TRY(config.labels, read_labels(settings, file.find("classifier.weight")));
    PUMICE_TRY(own.pooler, settings.activation_or({"pooler_hidden_act", ""}, Activation::gelu));
  }
  return std::unique_ptr<ModelDefinition>(std::make_unique<DebertaV2>(std::move(config), std::move(own)));
}

} // namespace

Architectures deberta_v2_models() {
  return {{"deberta_v2", {"deberta-v2"}, {}, open_deberta_v2}};
}

} // namespace pumice
