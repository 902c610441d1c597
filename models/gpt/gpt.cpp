#include <fmt/format.h>

#include "kernel/elementwise/elementwise.h"
#include "models/decoder/decoder.h"

// Decoders of GPT-3's form: layer norms, and a feed-forward without a gate.
namespace pumice {

namespace {

constexpr TensorName fused_by_head = {"self_attention.query_key_value", "attn_qkv"};
constexpr GatedNames dense_4h = {{}, {"mlp.dense_h_to_4h", "ffn_up"}, {"mlp.dense_4h_to_h", "ffn_down"}};

// BLOOM (Le Scao et al. 2022): a norm of the embeddings, one tensor for queries, keys and values, and
// positions only as a linear bias of the scores.
OpenedDefinition open_bloom(const ModelFile& file) {
  const Settings settings = Settings::of_text(file);
  PUMICE_CHECK(settings.expect("apply_residual_connection_post_layernorm", false, false));
  PUMICE_CHECK(settings.expect("tie_word_embeddings", true, true));
  // transformers takes either name.
  const auto either = [&](std::string_view one, std::string_view other) {
    return settings.fields().has(one) ? one : other;
  };
  StackConfigNames names = {.context = {"seq_length", "context_length"},
                            .feed_forward = {"", "feed_forward_length"},
                            .norm_eps = {"layer_norm_epsilon", "attention.layer_norm_epsilon"},
                            .activation = {},
                            .default_norm_eps = 1e-5f,
                            .default_activation = Activation::gelu_tanh,
                            .tied_by_default = true,
                            .rotary = false};
  names.set_heads_share_columns();
  names.hidden.hugging_face = either("n_embed", "hidden_size");
  names.layers.hugging_face = either("n_layer", "num_hidden_layers");
  names.heads.hugging_face = either("n_head", "num_attention_heads");
  Decoder d;
  PUMICE_TRY(d.config, read_decoder_config(settings, names));
  d.config.norm.kind = NormKind::layer;
  if (file.find("transformer.word_embeddings.weight")) d.config.root = "transformer.";
  d.names = {.embedding = {"word_embeddings", "token_embd"},
             .layers = "h.{}.",
             .norm = {"ln_f", "output_norm"},
             .embedding_norm = {"word_embeddings_layernorm", "token_embd_norm"}};
  d.fused_inputs = {fused_by_head, d.config.heads};
  d.style.input_bias = d.style.output_bias = d.feed_forward_bias = true;
  d.style.output = {"self_attention.dense", "attn_output"};
  d.style.relative_bias.linear = true;
  d.style.relative_bias.max_distance = d.config.context;
  d.feed_forward = dense_4h;
  d.shown = {{"positions", "linear bias of scores"}};
  d.gguf_name = "bloom";
  return make_decoder(std::move(d), settings);
}

// What Falcon's config.json has: how many heads of keys there are, and whether each sublayer has its own
// norm.
Status read_falcon_form(const Settings& settings, DecoderConfig& config, bool& two_norms) {
  PUMICE_CHECK(settings.expect("alibi", false, false));
  PUMICE_CHECK(settings.expect("bias", false, false));
  PUMICE_TRY(bool grouped, settings.boolean_or({"new_decoder_architecture", ""}, false));
  if (!grouped) PUMICE_CHECK(settings.expect("parallel_attn", true, true));
  PUMICE_TRY(bool one_key_head, settings.boolean_or({"multi_query", ""}, true));
  const SettingName kv_heads = {"num_kv_heads", ""};
  if (grouped) {
    PUMICE_TRY(config.kv_heads, settings.u32_or(kv_heads, 1, limits::heads, config.heads));
  } else {
    config.kv_heads = one_key_head ? 1 : config.heads;
  }
  if (config.heads % config.kv_heads) {
    return settings.error(
        kv_heads, fmt::format("expected a divisor of the {} heads; found {}", config.heads, config.kv_heads));
  }
  PUMICE_TRY(uint32_t norms, settings.u32_or({"num_ln_in_parallel_attn", ""}, 1, 2, grouped ? 2 : 1));
  two_norms = norms == 2;
  return {};
}

// Falcon (Almazrouei et al. 2023): attention and feed-forward in parallel, and one tensor for queries, keys
// and values, whose heads share few keys.
Status describe_falcon(const Settings& settings, Decoder& d) {
  bool two_norms = settings.gguf() && settings.file().find("blk.0.attn_norm_2.weight");
  if (!settings.gguf()) PUMICE_CHECK(read_falcon_form(settings, d.config, two_norms));
  d.config.norm.kind = NormKind::layer;
  d.names.embedding = {"transformer.word_embeddings", "token_embd"};
  d.names.layers = "transformer.h.{}.";
  d.names.norm = {"transformer.ln_f", "output_norm"};
  d.parallel = true;
  d.norms = one_norm;
  if (two_norms) d.norms = {{"ln_attn", "attn_norm_2"}, {}, {"ln_mlp", "attn_norm"}, {}};
  d.fused_inputs = {fused_by_head, d.config.kv_heads};
  d.style.output = {"self_attention.dense", "attn_output"};
  d.feed_forward = dense_4h;
  return {};
}

// GPT-NeoX (Black et al. 2022) and Pythia: attention and feed-forward read the same input in parallel, and
// only some dimensions of each head are rotated.
Status describe_gpt_neox(const Settings& settings, Decoder& d) {
  DecoderConfig& config = d.config;
  config.norm.kind = NormKind::layer;
  config.gguf_needs_head = true;
  if (config.hidden != config.heads * config.head_dim || config.kv_heads != config.heads) {
    return settings.error(
        StackConfigNames().heads,
        fmt::format("expected a divisor of the {} columns; found {}", config.hidden, config.heads));
  }
  d.names.embedding = {"gpt_neox.embed_in", "token_embd"};
  d.names.layers = "gpt_neox.layers.{}.";
  d.names.norm = {"gpt_neox.final_layer_norm", "output_norm"};
  d.names.head = {"embed_out", "output"};
  d.fused_inputs = {{"attention.query_key_value", "attn_qkv"}, config.heads};
  d.style.output = {"attention.dense", "attn_output"};
  d.feed_forward = dense_4h;
  d.feed_forward_bias = true;
  const SettingName parallel = {"use_parallel_residual", "use_parallel_residual"};
  PUMICE_TRY(d.parallel, settings.boolean_or(parallel, true));
  d.shown = {{"residual", d.parallel ? "parallel" : "sequential"}};
  d.gguf_metadata[std::string(parallel.gguf)] = d.parallel;
  return d.read_bias(settings, "attention_bias", true);
}

// Nemotron and Minitron (Nvidia 2024): norms whose weights lack 1, a feed-forward of squared ReLU, and only
// some dimensions of each head rotated.
Status describe_nemotron(const Settings& settings, Decoder& d) {
  d.config.norm = {.kind = NormKind::layer, .weight_offset = 1};
  d.config.gguf_needs_head = true;
  PUMICE_CHECK(d.read_shown_biases(settings));
  return d.set_squared_relu(settings);
}

// OPT (Zhang et al. 2022): learned positions and ReLU. GGUF has no name for it.
Status describe_opt(const Settings& settings, Decoder& d) {
  PUMICE_CHECK(settings.expect("do_layer_norm_before", true, true));
  PUMICE_CHECK(settings.expect("_remove_final_layer_norm", false, false));
  PUMICE_CHECK(settings.expect("layer_norm_elementwise_affine", true, true));
  PUMICE_CHECK(settings.expect("tie_word_embeddings", true, true));
  const SettingName width = {"word_embed_proj_dim", ""};
  PUMICE_TRY(const uint32_t columns, settings.u32_or(width, 1, limits::columns, d.config.hidden));
  if (columns != d.config.hidden) {
    return settings.error(width,
                          fmt::format("expected {}, the hidden size; found {}", d.config.hidden, columns));
  }
  PUMICE_CHECK(d.read_bias(settings, "enable_bias", true));
  d.feed_forward_bias = d.style.input_bias;
  d.config.norm.kind = NormKind::layer;
  if (!settings.file().find("decoder.embed_tokens.weight")) d.config.root = "model.";
  d.names = {.embedding = {"decoder.embed_tokens", ""},
             .layers = "decoder.layers.{}.",
             .norm = {"decoder.final_layer_norm", ""},
             .positions = {"decoder.embed_positions", ""},
             .first_position = 2};
  d.norms = {{"self_attn_layer_norm", ""}, {}, {"final_layer_norm", ""}, {}};
  d.style.output = {"self_attn.out_proj", ""};
  d.feed_forward = {{}, {"fc1", ""}, {"fc2", ""}};
  d.shown = {{"positions", "learned"}};
  return {};
}

// Phi 1 to 2 (Gunasekar et al. 2023): attention and feed-forward read the same norm in parallel, only some
// dimensions of each head are rotated, and the head has a bias.
Status describe_phi(const Settings& settings, Decoder& d) {
  PUMICE_CHECK(settings.expect("qk_layernorm", false, false));
  d.config.norm.kind = NormKind::layer;
  d.config.gguf_needs_head = true;
  d.names.norm = {"model.final_layernorm", "output_norm"};
  d.names.head_bias = true;
  d.norms = one_norm;
  d.parallel = true;
  d.style.input_bias = d.style.output_bias = d.feed_forward_bias = true;
  d.style.output = {"self_attn.dense", "attn_output"};
  d.feed_forward = {{}, {"mlp.fc1", "ffn_up"}, {"mlp.fc2", "ffn_down"}};
  if (settings.gguf() && settings.file().find("blk.0.attn_qkv.weight")) // in older files
    d.fused_inputs = {{"", "attn_qkv"}};
  return {};
}

// StarCoder 2 (Lozhkov et al. 2024): biases everywhere.
Status describe_starcoder2(const Settings& settings, Decoder& d) {
  d.config.norm.kind = NormKind::layer;
  d.feed_forward = {{}, {"mlp.c_fc", "ffn_up"}, {"mlp.c_proj", "ffn_down"}};
  PUMICE_CHECK(d.read_bias(settings, "use_bias", true));
  d.feed_forward_bias = d.style.input_bias;
  return d.read_window(settings, {"sliding_window", "attention.sliding_window"});
}

} // namespace

Architectures gpt_models() {
  constexpr std::string_view gguf_eps = "attention.layer_norm_epsilon",
                             gguf_kv_heads = "attention.head_count_kv",
                             gguf_head_dim = "attention.key_length";
  return {
      {"bloom", {"bloom"}, {"bloom"}, open_bloom},
      decoder("falcon", {"falcon"}, {"falcon"},
              {.kv_heads = {"", gguf_kv_heads},
               .head_dim = {"", gguf_head_dim},
               .feed_forward = {"ffn_hidden_size", "feed_forward_length"},
               .norm_eps = {"layer_norm_epsilon", gguf_eps},
               .activation = {"activation", ""},
               .default_norm_eps = 1e-5f,
               .default_activation = Activation::gelu,
               .tied_by_default = true},
              describe_falcon),
      decoder("gpt_neox", {"gpt_neox"}, {"gptneox"},
              {.kv_heads = {"", gguf_kv_heads},
               .head_dim = {"", gguf_head_dim},
               .norm_eps = {"layer_norm_eps", gguf_eps},
               .default_norm_eps = 1e-5f,
               .default_activation = Activation::gelu,
               .default_rotary_share = 0.25f},
              describe_gpt_neox),
      decoder("nemotron", {"nemotron"}, {"nemotron"},
              {.norm_eps = {"norm_eps", gguf_eps},
               .activation = {},
               .default_norm_eps = 1e-5f,
               .default_activation = Activation::relu,
               .default_rotary_share = 0.5f},
              describe_nemotron),
      decoder("opt", {"opt"}, {},
              {.kv_heads = {},
               .head_dim = {},
               .feed_forward = {"ffn_dim", ""},
               .norm_eps = {},
               .activation = {"activation_function", ""},
               .default_norm_eps = 1e-5f,
               .default_activation = Activation::relu,
               .tied_by_default = true,
               .rotary = false},
              describe_opt),
      decoder("phi", {"phi"}, {"phi2"},
              {.norm_eps = {"layer_norm_eps", gguf_eps},
               .default_norm_eps = 1e-5f,
               .default_activation = Activation::gelu_tanh,
               .default_rotary_share = 0.5f},
              describe_phi),
      decoder("starcoder2", {"starcoder2"}, {"starcoder2"},
              {.norm_eps = {"norm_epsilon", gguf_eps},
               .default_norm_eps = 1e-5f,
               .default_activation = Activation::gelu_tanh,
               .tied_by_default = true},
              describe_starcoder2),
  };
}

} // namespace pumice
