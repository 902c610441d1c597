#include <algorithm>

#include <fmt/format.h>

#include "kernel/cells/cells.h"
#include "kernel/elementwise/elementwise.h"
#include "kernel/embedding/embedding.h"
#include "kernel/experts/experts.h"
#include "models/encoder/model.h"
#include "models/registry.h"

namespace pumice {

namespace {

struct NomicForm {
  std::string prefix; // of tensor names: "nomic_bert.", or empty if the file has only the encoder
  std::string_view gguf = "nomic-bert";
  bool gated = true; // the feed-forward, if so by SiLU
  bool attention_bias = false, feed_forward_bias = false;
  bool mixer = false; // what Hugging Face's file calls attention
  bool pooler = false;
  uint32_t experts = 0, used = 0;
  uint32_t period = 0;      // a layer has experts if its number leaves 1 by this; 0: none has
  bool expert_bias = false; // of what all experts give together; never in GGUF

  bool has_experts(uint32_t layer) const { return period > 0 && layer % period == 1; }
};

// Nomic BERT (Nussbaum et al. 2024): BERT with rotary positions, a gated feed-forward and no biases but those
// of norms. Its mixtures (Nussbaum and Duderstadt 2025): BERT's feed-forward, all biases, and experts in
// every other layer. Jina's embeddings, version 3 (Sturua et al. 2024): the same without experts, with BERT's
// pooler.
class NomicBert : public EncoderModel {
public:
  NomicBert(EncoderConfig config, bool gguf, NomicForm form)
      : EncoderModel(std::move(config), gguf), form_(std::move(form)) {}

protected:
  void build(EncoderBuilder& builder) const override {
    builder.prefix(form_.prefix, "");
    TensorId x = builder.embed({"embeddings.word_embeddings", "token_embd"});
    const WeightView table = builder.tensor({"embeddings.token_type_embeddings", "token_types"}, ".weight",
                                            config().token_types, config().hidden, "embedding");
    const TensorId types =
        token_type_embedding(builder.graph(), "token_type_embedding", builder.weight(table, "embedding"));
    x = builder.add(x, types, "with_types");
    x = builder.layer_norm(x, {"emb_ln", "token_embd_norm"});
    LayerNames names = layer_names();
    names.own_feed_forward = [&](uint32_t layer, TensorId y) {
      return form_.has_experts(layer) ? std::optional(mixture(builder, y)) : std::nullopt;
    };
    x = builder.run_layers(x, names);
    builder.finish(x);
    if (!form_.pooler) return;
    builder.prefix(form_.prefix, "");
    const TensorId dense =
        builder.project(builder.first_rows(x), {"pooler.dense", ""}, config().hidden, true, "head");
    builder.pooler_output(activate(builder.graph(), "pooler.dense.activated", dense, Activation::tanh));
  }

  std::vector<Hyperparameter> own_hyperparameters() const override {
    if (form_.period == 0) return {};
    return {{"experts", fmt::format("{}, of which {} for a token, in one of {} layers", form_.experts,
                                    form_.used, form_.period)}};
  }

  // llama.cpp's models of this name have one form each.
  std::string_view gguf_architecture() const override {
    const bool biased = form_.attention_bias && form_.feed_forward_bias;
    if (form_.gguf == "nomic-bert-moe") return biased && !form_.expert_bias ? form_.gguf : "";
    return form_.gguf == "jina-bert-v3" || (form_.gated && !form_.attention_bias && !form_.feed_forward_bias)
               ? form_.gguf
               : "";
  }
  Activation gguf_activation() const override { return form_.gated ? Activation::silu : Activation::gelu; }
  nlohmann::json gguf_metadata() const override {
    if (form_.period == 0) return nlohmann::json::object();
    return {{"moe_every_n_layers", form_.period},
            {"expert_count", form_.experts},
            {"expert_used_count", form_.used}};
  }

private:
  LayerNames layer_names() const {
    LayerNames names;
    names.hugging_face = form_.prefix + "encoder.layers.{}.";
    names.gguf = "blk.{}.";
    names.attention.fused = {form_.mixer ? "mixer.Wqkv" : "attn.Wqkv", "attn_qkv"};
    names.attention.output = {form_.mixer ? "mixer.out_proj" : "attn.out_proj", "attn_output"};
    names.attention.input_bias = names.attention.output_bias = form_.attention_bias;
    names.attention_norm = {"norm1", "attn_output_norm"};
    if (form_.gated) names.gate = {"mlp.fc12", "ffn_gate"};
    names.up = {form_.gated ? "mlp.fc11" : "mlp.fc1", "ffn_up"};
    names.down = {"mlp.fc2", "ffn_down"};
    names.feed_forward_bias = form_.feed_forward_bias;
    names.feed_forward_norm = {"norm2", "layer_output_norm"};
    return names;
  }

  // Hugging Face's file has the rows of one expert's matrix after those of another's.
  TensorId mixture(EncoderBuilder& builder, TensorId x) const {
    constexpr std::string_view component = "feed-forward";
    const uint32_t hidden = config().hidden, inner = config().feed_forward;
    const TensorId router =
        builder.project(x, {"mlp.router.layer", "ffn_gate_inp"}, form_.experts, false, component);
    ExpertWeights weights;
    for (const WeightView& view : builder.head_tensors({"mlp.experts.mlp.w1", "ffn_up_exps"}, form_.experts,
                                                       inner, hidden, {.all = inner}, component, ""))
      weights.up.push_back(builder.weight(view, component));
    for (const WeightView& view :
         builder.head_tensors({"mlp.experts.mlp.w2", "ffn_down_exps"}, form_.experts, hidden, inner,
                              {.all = inner, .transposed = true}, component, ""))
      weights.down.push_back(builder.weight(view, component));
    Experts operation;
    operation.count = form_.experts;
    operation.routing.used = form_.used;
    operation.routing.normalise = false;
    operation.activation.kind = config().activation;
    operation.plain = true;
    const std::string name = builder.prefix() + "experts";
    const TensorId y = experts(builder.graph(), name, x, router, weights, operation);
    if (!form_.expert_bias) return y;
    const WeightView bias = builder.tensor({"mlp.experts.bias", ""}, "", hidden, 0, component);
    CellSums sum; // each row is a picture of one pixel
    sum.cells = CellLayout::of_pictures(1, 1);
    return cell_sums(builder.graph(), name + ".biased", y, {}, sum, builder.weight(bias, component));
  }

  NomicForm form_;
};

// Before transformers 5, Nomic's own code named the settings as GPT-2 has them.
StackConfigNames config_names(const Settings& settings) {
  StackConfigNames names;
  names.set_heads_share_columns();
  names.norm_eps = {"layer_norm_eps", "attention.layer_norm_epsilon"};
  names.default_norm_eps = 1e-12f;
  names.default_context = 2048;
  names.default_activation = Activation::silu;
  if (!settings.has({"n_embd", ""})) return names;
  names.hidden = {"n_embd", ""};
  names.layers = {"n_layer", ""};
  names.heads = {"n_head", ""};
  names.feed_forward = {"n_inner", ""};
  names.context = {"n_positions", ""};
  names.norm_eps = {"layer_norm_epsilon", ""};
  names.activation = {};
  return names;
}

// What Nomic's own code can also compute, and this does not.
Status check_variant(const Settings& settings) {
  for (const char* other :
       {"prenorm", "use_rms_norm", "parallel_block", "scale_attn_by_inverse_layer_idx",
        "rotary_emb_interleaved", "causal", "moe_normalize_expert_weights", "expert_choice_router"})
    PUMICE_CHECK(settings.expect(other, false, false));
  const SettingName share = {"rotary_emb_fraction", ""}, shared = {"num_shared_experts", ""};
  PUMICE_TRY(float rotated, settings.f32_or(share, 0.0f, 1.0f, 1.0f));
  if (rotated != 1) return settings.error(share, fmt::format("expected 1; found {:g}", rotated));
  PUMICE_TRY(uint32_t count, settings.u32_or(shared, 0, 1 << 16, 0));
  if (count > 0) return settings.error(shared, "shared experts are not supported: expected 0");
  return {};
}

// What Nomic's own code names of the layers.
Status read_form(const Settings& settings, NomicForm& form) {
  PUMICE_TRY(form.attention_bias, settings.boolean_or({"qkv_proj_bias", ""}, true));
  const SettingName first = {"mlp_fc1_bias", ""}, second = {"mlp_fc2_bias", ""};
  PUMICE_TRY(form.feed_forward_bias, settings.boolean_or(first, true));
  PUMICE_TRY(const bool last, settings.boolean_or(second, true));
  if (last != form.feed_forward_bias)
    return settings.error(second, fmt::format("expected {}, as mlp_fc1_bias is", form.feed_forward_bias));
  PUMICE_TRY(const std::string activation, settings.fields().string_or("activation_function", "swiglu"));
  if (activation != "swiglu" && activation != "gelu") {
    return settings.error({"activation_function", ""},
                          fmt::format("expected swiglu or gelu; found '{}'", activation));
  }
  form.gated = activation == "swiglu";
  return {};
}

Status read_experts(const Settings& settings, const EncoderConfig& config, NomicForm& form) {
  constexpr uint32_t most = 1024;
  PUMICE_TRY(form.period,
             settings.u32_or({"moe_every_n_layers", "moe_every_n_layers"}, 0, limits::layers, 0));
  PUMICE_TRY(form.experts, settings.u32_or({"num_experts", "expert_count"}, 0, most, 0));
  if (form.period < 2 || form.experts == 0 || config.layers < 2) {
    form.period = 0;
    return {};
  }
  const SettingName used = {"moe_top_k", "expert_used_count"};
  if (form.gated) {
    return settings.error({"activation_function", ""}, "experts with gates are not supported: expected gelu");
  }
  PUMICE_TRY(form.used, settings.u32_or(used, 1, most, 1));
  if (form.used > form.experts) {
    return settings.error(used,
                          fmt::format("expected at most the {} experts; found {}", form.experts, form.used));
  }
  for (uint32_t layer = 1; layer < config.layers && !settings.gguf(); layer += form.period) {
    const TensorView* bias =
        settings.file().find(fmt::format("{}encoder.layers.{}.mlp.experts.bias", form.prefix, layer));
    const std::vector<float> values = bias ? decode_vector(WeightView::whole(*bias)) : std::vector<float>();
    if (std::ranges::any_of(values, [](float value) { return value != 0; })) form.expert_bias = true;
  }
  form.gguf = "nomic-bert-moe";
  return {};
}

OpenedDefinition open_nomic_bert(const ModelFile& file) {
  const Settings settings(file);
  PUMICE_CHECK(check_variant(settings));
  NomicForm form;
  EncoderConfig config;
  PUMICE_TRY(static_cast<StackConfig&>(config), read_stack_config(settings, config_names(settings)));
  if (settings.has({"n_embd", ""})) PUMICE_CHECK(read_form(settings, form));
  if (settings.gguf()) {
    form.gated = file.find("blk.0.ffn_gate.weight") || settings.architecture() == "nomic-bert";
    form.attention_bias = file.find("blk.0.attn_qkv.bias");
    form.feed_forward_bias = file.find("blk.0.ffn_up.bias");
  }
  if (file.find("nomic_bert.embeddings.word_embeddings.weight")) form.prefix = "nomic_bert.";
  PUMICE_CHECK(read_experts(settings, config, form));
  // The settings of transformers 5 name the gates' own.
  if (settings.gguf() || settings.has({"n_embd", ""}))
    config.activation = form.gated ? Activation::silu : Activation::gelu;
  PUMICE_TRY(config.rotary, read_rotary(settings, config));
  PUMICE_TRY(config.token_types, settings.u32_or({"type_vocab_size", ""}, 1, limits::tokens, 2));
  if (const TensorView* table = settings.gguf() ? file.find("token_types.weight") : nullptr)
    config.token_types = table->shape.empty() ? 1 : static_cast<uint32_t>(table->shape[0]);
  return std::unique_ptr<ModelDefinition>(
      std::make_unique<NomicBert>(std::move(config), settings.gguf(), std::move(form)));
}

OpenedDefinition open_jina_v3(const ModelFile& file) {
  const Settings settings(file);
  StackConfigNames names;
  names.set_heads_share_columns();
  names.norm_eps = {"layer_norm_eps", "attention.layer_norm_epsilon"};
  names.default_norm_eps = 1e-5f;
  names.default_context = 8194;
  names.default_activation = Activation::gelu;
  EncoderConfig config;
  PUMICE_TRY(static_cast<StackConfig&>(config), read_stack_config(settings, names));
  PUMICE_TRY(config.rotary, read_rotary(settings, config));
  const bool says = settings.has({"rope_parameters", ""}) || settings.has({"rope_theta", ""}) ||
                    settings.has({"rotary_emb_base", ""});
  if (!settings.gguf() && !says) config.rotary.base = 20000;
  PUMICE_TRY(config.token_types, settings.u32_or({"type_vocab_size", ""}, 1, limits::tokens, 1));
  if (const TensorView* table = settings.gguf() ? file.find("token_types.weight") : nullptr)
    config.token_types = table->shape.size() < 2 ? 1 : static_cast<uint32_t>(table->shape[0]);
  NomicForm form = {.gguf = "jina-bert-v3",
                    .gated = false,
                    .attention_bias = true,
                    .feed_forward_bias = true,
                    .mixer = true};
  if (file.find("roberta.embeddings.word_embeddings.weight")) form.prefix = "roberta.";
  form.pooler = file.find(form.prefix + "pooler.dense.weight");
  return std::unique_ptr<ModelDefinition>(
      std::make_unique<NomicBert>(std::move(config), settings.gguf(), std::move(form)));
}

} // namespace

Architectures nomic_bert_models() {
  return {{"jina_embeddings_v3", {"jina_embeddings_v3"}, {"jina-bert-v3"}, open_jina_v3},
          {"nomic_bert", {"nomic_bert"}, {"nomic-bert", "nomic-bert-moe"}, open_nomic_bert}};
}

} // namespace pumice
