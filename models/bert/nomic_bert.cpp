#include <fmt/format.h>

#include "kernel/elementwise/elementwise.h"
#include "kernel/embedding/embedding.h"
#include "models/encoder/model.h"
#include "models/registry.h"

namespace pumice {

namespace {

// Nomic BERT (Nussbaum et al. 2024): BERT with rotary positions, a gated feed-forward and no biases but those
// of norms. Jina's embeddings, version 3 (Sturua et al. 2024): the same with BERT's feed-forward, all biases
// and its pooler.
class NomicBert : public EncoderModel {
public:
  NomicBert(EncoderConfig config, bool gguf, std::string prefix, bool jina = false, bool pooler = false)
      : EncoderModel(std::move(config), gguf), prefix_(std::move(prefix)), jina_(jina), pooler_(pooler) {}

protected:
  void build(EncoderBuilder& builder) const override {
    builder.prefix(prefix_, "");
    TensorId x = builder.embed({"embeddings.word_embeddings", "token_embd"});
    const WeightView table = builder.tensor({"embeddings.token_type_embeddings", "token_types"}, ".weight",
                                            config().token_types, config().hidden, "embedding");
    const TensorId types =
        token_type_embedding(builder.graph(), "token_type_embedding", builder.weight(table, "embedding"));
    x = builder.add(x, types, "with_types");
    x = builder.layer_norm(x, {"emb_ln", "token_embd_norm"});
    x = builder.run_layers(x, layer_names());
    builder.finish(x);
    if (!pooler_) return;
    builder.prefix(prefix_, "");
    const TensorId dense =
        builder.project(builder.first_rows(x), {"pooler.dense", ""}, config().hidden, true, "head");
    builder.pooler_output(activate(builder.graph(), "pooler.dense.activated", dense, Activation::tanh));
  }

  std::string_view gguf_architecture() const override { return jina_ ? "jina-bert-v3" : "nomic-bert"; }
  Activation gguf_activation() const override { return jina_ ? Activation::gelu : Activation::silu; }

private:
  LayerNames layer_names() const {
    LayerNames names;
    names.hugging_face = prefix_ + "encoder.layers.{}.";
    names.gguf = "blk.{}.";
    names.attention.fused = {"attn.Wqkv", "attn_qkv"};
    names.attention.output = {"attn.out_proj", "attn_output"};
    names.attention.input_bias = names.attention.output_bias = false;
    names.attention_norm = {"norm1", "attn_output_norm"};
    names.gate = {"mlp.fc12", "ffn_gate"};
    names.up = {"mlp.fc11", "ffn_up"};
    names.down = {"mlp.fc2", "ffn_down"};
    names.feed_forward_bias = false;
    names.feed_forward_norm = {"norm2", "layer_output_norm"};
    if (!jina_) return names;
    names.attention.fused = {"mixer.Wqkv", "attn_qkv"};
    names.attention.output = {"mixer.out_proj", "attn_output"};
    names.attention.input_bias = names.attention.output_bias = names.feed_forward_bias = true;
    names.gate.reset();
    names.up = {"mlp.fc1", "ffn_up"};
    return names;
  }

  std::string prefix_; // of tensor names: "nomic_bert.", or empty if the file has only the encoder
  bool jina_, pooler_;
};

// Before transformers 5, Nomic's own code named the settings as GPT-2 has them.
StackConfigNames config_names(const Settings& settings) {
  StackConfigNames names;
  names.set_heads_share_columns();
  names.norm_eps = {"layer_norm_eps", "attention.layer_norm_epsilon"};
  names.default_norm_eps = 1e-12f;
  names.default_context = 2048;
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
  for (const char* bias : {"qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias"})
    if (settings.has({"n_embd", ""})) PUMICE_CHECK(settings.expect(bias, true, false));
  for (const char* other : {"prenorm", "use_rms_norm", "parallel_block", "scale_attn_by_inverse_layer_idx",
                            "rotary_emb_interleaved", "causal"})
    PUMICE_CHECK(settings.expect(other, false, false));
  const SettingName activation = {"activation_function", ""}, experts = {"num_experts", ""},
                    share = {"rotary_emb_fraction", ""};
  if (settings.has(activation)) {
    PUMICE_TRY(std::string name, settings.fields().string("activation_function"));
    if (name != "swiglu") {
      return settings.error(activation, fmt::format("expected swiglu; found '{}'", name));
    }
  }
  PUMICE_TRY(float rotated, settings.f32_or(share, 0.0f, 1.0f, 1.0f));
  if (rotated != 1) return settings.error(share, fmt::format("expected 1; found {:g}", rotated));
  PUMICE_TRY(uint32_t mixture, settings.u32_or(experts, 0, 1 << 16, 0));
  if (mixture > 0) return settings.error(experts, "a mixture of experts is not supported: expected 0");
  return {};
}

OpenedDefinition open_nomic_bert(const ModelFile& file) {
  const Settings settings(file);
  PUMICE_CHECK(check_variant(settings));
  EncoderConfig config;
  PUMICE_TRY(static_cast<StackConfig&>(config), read_stack_config(settings, config_names(settings)));
  config.activation = Activation::silu;
  PUMICE_TRY(config.rotary, read_rotary(settings, config));
  PUMICE_TRY(config.token_types, settings.u32_or({"type_vocab_size", ""}, 1, limits::tokens, 2));
  if (const TensorView* table = settings.gguf() ? file.find("token_types.weight") : nullptr)
    config.token_types = table->shape.empty() ? 1 : static_cast<uint32_t>(table->shape[0]);
  const std::string prefix = file.find("nomic_bert.embeddings.word_embeddings.weight") ? "nomic_bert." : "";
  return std::unique_ptr<ModelDefinition>(
      std::make_unique<NomicBert>(std::move(config), settings.gguf(), prefix));
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
  const std::string prefix = file.find("roberta.embeddings.word_embeddings.weight") ? "roberta." : "";
  const bool pooler = file.find(prefix + "pooler.dense.weight");
  return std::unique_ptr<ModelDefinition>(
      std::make_unique<NomicBert>(std::move(config), settings.gguf(), prefix, true, pooler));
}

} // namespace

Architectures nomic_bert_models() {
  return {{"jina_embeddings_v3", {"jina_embeddings_v3"}, {"jina-bert-v3"}, open_jina_v3},
          {"nomic_bert", {"nomic_bert"}, {"nomic-bert"}, open_nomic_bert}};
}

} // namespace pumice
