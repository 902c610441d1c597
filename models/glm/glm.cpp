#include <tuple>

#include "models/vision_language/picture_places.h"

namespace pumice {

namespace {

// Where queries and keys turn with places in pictures, GGUF has the rotary pairs of each head as halves,
// unlike Hugging Face.
struct HalvedInputs {
  DecoderBuilder& builder;
  TensorId x;
  bool bias;

  TensorId project(const TensorName& name, uint32_t heads) const {
    const WeightView matrix = tensor(name, ".weight", heads, builder.graph().tensor(x).columns);
    if (!bias) return builder.project(x, builder.node_name(name), matrix, nullptr, "attention");
    const WeightView added = tensor(name, ".bias", heads, 0);
    return builder.project(x, builder.node_name(name), matrix, &added, "attention");
  }

private:
  WeightView tensor(TensorName name, std::string_view suffix, uint64_t heads, uint64_t columns) const {
    const uint64_t head = builder.config().head_dim, rotated = builder.config().rotary.dim;
    const TensorName converted = {"", name.gguf};
    if (!builder.gguf()) name.gguf = {};
    const WeightView all = builder.tensor(name, suffix, heads * head, columns, "attention");
    std::vector<WeightView> parts;
    for (uint64_t first = 0; first < heads * head; first += head) {
      for (const uint64_t half : {0, 1}) parts.push_back(all.slice(first + half, rotated / 2, 1, 2));
      if (head > rotated) parts.push_back(all.slice(first + rotated, head - rotated));
    }
    std::vector<uint64_t> shape = {heads * head};
    if (columns > 0) shape.push_back(columns);
    builder.add_gguf_tensor(converted, suffix, std::move(shape), std::move(parts));
    return all;
  }
};

// GLM-4V's decoder (GLM-V Team 2025), whose positions are places in pictures too.
Status read_places(const Settings& settings, Decoder& d) {
  if (settings.gguf() && settings.has({"", place_sections_key}))
    d.config.rotary.pairs = RotaryPairs::half_split; // also where it runs without its pictures
  if (!d.config.pictures) return {};
  PUMICE_TRY(const std::vector<uint32_t> sections, read_place_sections(settings, {8, 12, 12}));
  PUMICE_CHECK(set_picture_places(settings, sections, PlaceKind::text, d));
  d.own_attention = [style = d.style](DecoderBuilder& builder, uint32_t layer, TensorId x) {
    const HalvedInputs halved{builder, x, style.input_bias};
    const DecoderConfig& config = builder.config();
    const AttentionInputs inputs = {halved.project({"self_attn.q_proj", "attn_q"}, config.heads),
                                    halved.project({"self_attn.k_proj", "attn_k"}, config.kv_heads),
                                    builder.project(x, {"self_attn.v_proj", "attn_v"},
                                                    config.kv_heads * config.head_dim, style.input_bias,
                                                    "attention")};
    return builder.attend_and_project(layer, inputs, style);
  };
  return {};
}

// GLM-4 of 2025 (GLM Team): norms around both sublayers, one tensor for gate and up, and neighbouring
// dimensions of half of each head rotated in pairs.
Status describe_glm4(const Settings& settings, Decoder& d) {
  d.norms = {{"input_layernorm", "attn_norm"},
             {"post_self_attn_layernorm", "post_attention_norm"},
             {"post_attention_layernorm", "ffn_norm"},
             {"post_mlp_layernorm", "post_ffw_norm"}};
  PUMICE_CHECK(drop_prediction_layers(settings, d.config)); // of GLM-OCR
  d.fused_gate = {"mlp.gate_up_proj", "ffn_up"};
  d.config.rotary.pairs = RotaryPairs::neighbouring;
  PUMICE_CHECK(d.read_biases(settings, attention_biases));
  if (settings.architecture() == "glm4v_text") d.style.input_bias = true;
  d.style.output_bias = false;
  d.gguf_name = "glm4";
  return read_places(settings, d);
}

// GLM-4 of 2024 and ChatGLM (GLM Team): the same without norms of results. Converted from ChatGLM's own
// files, queries, keys and values are one tensor.
Status describe_glm(const Settings& settings, Decoder& d) {
  d.fused_gate = {"mlp.gate_up_proj", "ffn_up"};
  d.config.rotary.pairs = RotaryPairs::neighbouring;
  PUMICE_CHECK(d.read_biases(settings, {.feed_forward = {}, .attention_by_default = true}));
  const ModelFile& file = settings.file();
  if (settings.gguf() && file.find("blk.0.attn_qkv.weight")) {
    d.fused_inputs = {{"", "attn_qkv"}};
    d.style.input_bias = file.find("blk.0.attn_qkv.bias");
  }
  d.style.output_bias = false;
  return {};
}

// ChatGLM 2 and 3 and the first files of GLM-4 9B (GLM Team 2024): the same under older names, with queries,
// keys and values in one tensor.
Status describe_chatglm(const Settings& settings, Decoder& d) {
  d.names = {.embedding = {"transformer.embedding.word_embeddings", "token_embd"},
             .layers = "transformer.encoder.layers.{}.",
             .norm = {"transformer.encoder.final_layernorm", "output_norm"},
             .head = {"transformer.output_layer", "output"}};
  d.fused_inputs = {{"self_attention.query_key_value", "attn_qkv"}};
  d.style.output = {"self_attention.dense", "attn_output"};
  d.fused_gate = {"mlp.dense_h_to_4h", "ffn_up"};
  d.feed_forward.down.hugging_face = "mlp.dense_4h_to_h";
  d.config.rotary.pairs = RotaryPairs::neighbouring;
  PUMICE_TRY(const float ratio, settings.f32_or({"rope_ratio", ""}, 1e-3f, 1e6f, 1));
  d.config.rotary.base *= ratio;
  PUMICE_TRY(d.style.input_bias, settings.boolean_or({"add_qkv_bias", ""}, false));
  d.style.output_bias = false;
  d.gguf_name = "chatglm";
  const std::tuple<const char*, bool, bool> fixed[] = {
      {"add_bias_linear", false, false},
      {"multi_query_attention", true, true},
      {"rmsnorm", true, true},
      {"post_layer_norm", true, true},
      {"apply_residual_connection_post_layernorm", false, false}};
  for (const auto& [name, fallback, supported] : fixed) {
    PUMICE_CHECK(settings.expect(name, fallback, supported));
  }
  return {};
}

// GLM-4.5 and later (GLM Team 2025): experts chosen by the sigmoid of their logits plus a bias, beside shared
// ones, after some dense layers.
Status describe_glm4_moe(const Settings& settings, Decoder& d) {
  d.norms = norms_before_renamed;
  PUMICE_CHECK(drop_prediction_layers(settings, d.config));
  PUMICE_TRY(MixtureConfig mixture,
             read_mixture(settings, d.config, {.score = ExpertScore::sigmoid, .biased = true}));
  PUMICE_TRY(mixture.shared_feed_forward, read_shared_experts(settings, mixture.feed_forward));
  d.experts = shared_experts_names;
  PUMICE_CHECK(d.read_biases(settings, attention_biases));
  d.style.output_bias = false;
  PUMICE_TRY(d.style.head_norms, settings.boolean_or({"use_qk_norm", ""}, false));
  if (settings.gguf()) d.style.head_norms = settings.file().find("blk.0.attn_q_norm.weight");
  d.set_mixture(settings, std::move(mixture), {.dense_layers = true});
  d.gguf_predicts = true;
  return {};
}

} // namespace

Architectures glm_models() {
  return {
      decoder("glm", {"glm"}, {"chatglm"},
              {.default_head_dim = 128, .default_norm_eps = 1.5625e-7f, .default_rotary_share = 0.5f},
              describe_glm),
      decoder("chatglm", {"chatglm"}, {},
              {.vocabulary = {"padded_vocab_size", "vocab_size"},
               .context = {"seq_length", "context_length"},
               .layers = {"num_layers", "block_count"},
               .kv_heads = {"multi_query_group_num", "attention.head_count_kv"},
               .head_dim = {"kv_channels", "attention.key_length"},
               .feed_forward = {"ffn_hidden_size", "feed_forward_length"},
               .norm_eps = {"layernorm_epsilon", "attention.layer_norm_rms_epsilon"},
               .activation = {},
               .default_norm_eps = 1e-5f,
               .default_rotary_share = 0.5f},
              describe_chatglm),
      decoder("glm4", {"glm4"}, {"glm4"},
              {.default_head_dim = 128, .default_norm_eps = 1e-5f, .default_rotary_share = 0.5f},
              describe_glm4),
      decoder("glm4v_text", {"glm4v_text"}, {}, {.default_norm_eps = 1e-5f, .default_rotary_share = 0.5f},
              describe_glm4),
      decoder("glm_ocr_text", {"glm_ocr_text"}, {}, {.default_norm_eps = 1e-5f}, describe_glm4),
      decoder("glm4_moe", {"glm4_moe", "glm4v_moe_text"}, {"glm4moe"},
              {.default_norm_eps = 1e-5f, .default_rotary_share = 0.5f}, describe_glm4_moe),
  };
}

} // namespace pumice
