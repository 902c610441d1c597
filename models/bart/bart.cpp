#include "models/bart/bart.h"

#include <cmath>

#include <fmt/format.h>

#include "models/registry.h"

namespace pumice {

namespace {

// How a model that is derived from BART differs from it.
struct BartFamily {
  std::optional<Sinusoids> sinusoids;       // instead of learned positions, and no embedding norm
  bool separate_vocabularies = false;       // possible: share_encoder_decoder_embeddings
  std::optional<bool> norm_first = {};      // norms before sublayers, and one after the last layer; none: the
                                            // config says both
  bool scaled_embedding = false;            // if the config does not say
  Activation activation = Activation::gelu; // if the config does not say
};

// The first of these names that the file has. The names mean the same table, and a file may have only some of
// them.
std::string first_found(const ModelFile& file, std::initializer_list<std::string> names) {
  for (const std::string& name : names) {
    if (file.find(name + ".weight")) return name;
  }
  return *names.begin();
}

} // namespace

void Bart::build_encoder(EncoderBuilder& builder) const {
  TensorId x = with_positions(builder, encoder_rows(builder, embed(builder, own_.encoder_table)), "encoder");
  x = final_norm(builder, builder.run_layers(x, layer_names("encoder")), "encoder");
  builder.finish(x);
  builder.store_memory(x, layer_names("decoder"));
}

void Bart::build_decoder(DecoderBuilder& builder) const {
  TensorId x = with_positions(builder, embed(builder, own_.decoder_table), "decoder");
  x = final_norm(builder, builder.run_layers(x, layer_names("decoder")), "decoder");
  builder.hidden_state(x);
  builder.prefix("", "");
  std::optional<WeightView> bias;
  if (own_.logits_bias) {
    bias = builder.shaped_tensor({"final_logits_bias", ""}, "", {1, decoder().vocabulary}, "head");
  }
  builder.finish(x, {"lm_head", ""}, bias ? &*bias : nullptr);
}

LayerNames Bart::layer_names(std::string_view side) const {
  LayerNames names = bart_layer_names(own_.prefix, side);
  names.norm_first = own_.norm_first;
  return names;
}

TensorId Bart::embed(StackBuilder& builder, const std::string& table) const {
  builder.prefix("", "");
  const float scale = own_.scaled_embedding ? std::sqrt(static_cast<float>(encoder().hidden)) : 1.0f;
  return builder.embed({table, ""}, scale);
}

TensorId Bart::with_positions(StackBuilder& builder, TensorId x, const std::string& side) const {
  if (own_.sinusoids) return sinusoidal_positions(builder.graph(), "with_positions", x, *own_.sinusoids);
  builder.prefix(own_.prefix + side + ".", "");
  return builder.layer_norm(builder.learned_positions(x, {"embed_positions", ""}, bart_position_offset),
                            {"layernorm_embedding", ""});
}

TensorId Bart::final_norm(StackBuilder& builder, TensorId x, const std::string& side) const {
  if (!own_.final_norm) return x;
  builder.prefix(own_.prefix + side + ".", "");
  return builder.layer_norm(x, {"layer_norm", ""});
}

std::string bart_prefix(const ModelFile& file) {
  return file.find("encoder.layers.0.fc1.weight") ? "" : "model.";
}

Result<BartConfig> read_bart_config(const Settings& settings, const BartConfigNames& own) {
  StackConfigNames names;
  names.vocabulary = own.encoder_vocabulary;
  names.context = own.encoder_context;
  names.hidden = {"d_model", ""};
  names.layers = {"encoder_layers", ""};
  names.heads = {"encoder_attention_heads", ""};
  names.set_heads_share_columns();
  names.feed_forward = {"encoder_ffn_dim", ""};
  names.norm_eps = {};
  names.activation = {"activation_function", ""};
  names.default_context = own.default_context;
  names.default_norm_eps = 1e-5f;
  names.default_activation = own.default_activation;
  BartConfig config;
  PUMICE_TRY(static_cast<StackConfig&>(config.encoder), read_stack_config(settings, names));

  StackConfigNames decoder = names;
  decoder.vocabulary = own.decoder_vocabulary;
  decoder.context = own.decoder_context;
  decoder.layers = {"decoder_layers", ""};
  decoder.heads = {"decoder_attention_heads", ""};
  decoder.feed_forward = {"decoder_ffn_dim", ""};
  decoder.tied_by_default = true;
  decoder.rotary = false;
  PUMICE_TRY(config.decoder, read_decoder_config(settings, decoder));
  return config;
}

LayerNames bart_layer_names(const std::string& prefix, std::string_view side) {
  LayerNames names;
  names.hugging_face = fmt::format("{}{}.layers.{{}}.", prefix, side);
  names.attention.query = {"self_attn.q_proj", ""};
  names.attention.key = {"self_attn.k_proj", ""};
  names.attention.value = {"self_attn.v_proj", ""};
  names.attention.output = {"self_attn.out_proj", ""};
  names.attention_norm = {"self_attn_layer_norm", ""};
  if (side == "decoder") {
    names.cross_attention.emplace();
    names.cross_attention->query = {"encoder_attn.q_proj", ""};
    names.cross_attention->key = {"encoder_attn.k_proj", ""};
    names.cross_attention->value = {"encoder_attn.v_proj", ""};
    names.cross_attention->output = {"encoder_attn.out_proj", ""};
    names.cross_attention_norm = {"encoder_attn_layer_norm", ""};
  }
  names.up = {"fc1", ""};
  names.down = {"fc2", ""};
  names.feed_forward_norm = {"final_layer_norm", ""};
  return names;
}

namespace {

Result<BartModel> read_family(const Settings& settings, const BartFamily& family) {
  const ModelFile& file = settings.file();
  bool shared = true;
  if (family.separate_vocabularies) {
    PUMICE_TRY(shared, settings.boolean_or({"share_encoder_decoder_embeddings", ""}, true));
  }
  BartConfigNames names;
  names.default_activation = family.activation;
  if (!shared && settings.has({"decoder_vocab_size", ""}))
    names.decoder_vocabulary = {"decoder_vocab_size", ""};
  PUMICE_TRY(BartConfig config, read_bart_config(settings, names));
  config.encoder.any_length = family.sinusoids.has_value();

  BartSettings own;
  own.prefix = bart_prefix(file);
  own.sinusoids = family.sinusoids;
  const std::string encoder = own.prefix + "encoder.embed_tokens",
                    decoder = own.prefix + "decoder.embed_tokens";
  if (shared) {
    own.encoder_table = own.decoder_table = first_found(file, {own.prefix + "shared", encoder, decoder});
  } else {
    own.encoder_table = encoder;
    own.decoder_table = decoder;
  }
  PUMICE_TRY(own.scaled_embedding, settings.boolean_or({"scale_embedding", ""}, family.scaled_embedding));
  if (family.norm_first) {
    own.norm_first = own.final_norm = *family.norm_first;
  } else {
    PUMICE_TRY(own.norm_first, settings.boolean_or({"normalize_before", ""}, false));
    PUMICE_TRY(own.final_norm, settings.boolean_or({"add_final_layer_norm", ""}, false));
  }
  own.logits_bias = file.find("final_logits_bias");
  return BartModel{std::move(config), std::move(own)};
}

OpenedDefinition open_bart_family(const ModelFile& file, const BartFamily& family) {
  const Settings settings(file);
  PUMICE_TRY(BartModel model, read_family(settings, family));
  return std::unique_ptr<ModelDefinition>(std::make_unique<Bart>(std::move(model), settings.gguf()));
}

// M2M-100 (Fan et al. 2020) and NLLB-200 (NLLB Team 2022): BART with norms before sublayers and fairseq's
// sinusoidal positions, which are counted from the padding's id on.
OpenedDefinition open_m2m100(const ModelFile& file) {
  const Settings settings(file);
  PUMICE_TRY(const uint32_t width, settings.u32({"d_model", ""}, 1, limits::columns));
  PUMICE_TRY(const uint32_t padding, settings.u32_or({"pad_token_id", ""}, 0, limits::tokens, 1));
  if (width < 4 || width % 2 != 0) {
    return settings.error({"d_model", ""},
                          fmt::format("expected an even number, at least 4; found {}", width));
  }
  return open_bart_family(
      file, {.sinusoids = Sinusoids{SinusoidLayout::halves, SinusoidSpacing::closed, padding + 1},
             .norm_first = true,
             .scaled_embedding = true,
             .activation = Activation::relu});
}

// An entry of a model whose family is always the same.
Architecture bart(std::string_view name, const BartFamily& family) {
  return {name, {name}, {}, [family](const ModelFile& file) { return open_bart_family(file, family); }};
}

} // namespace

Result<BartModel> read_bart_model(const Settings& settings) {
  return read_family(settings, {});
}

Architectures bart_models() {
  const Sinusoids halves = {SinusoidLayout::halves};
  return {
      bart("bart", {}),
      {"m2m100", {"m2m_100"}, {}, open_m2m100},
      // Marian (Junczys-Dowmunt et al. 2018), such as the Opus-MT models: BART with sinusoidal positions, and
      // usually one vocabulary for both languages.
      bart("marian", {.sinusoids = halves, .separate_vocabularies = true}),
      // mBART (Liu et al. 2020) and mBART-50 (Tang et al. 2020): BART with norms before sublayers.
      bart("mbart", {.norm_first = true}),
      // PEGASUS (Zhang et al. 2020): the same with sinusoidal positions.
      bart("pegasus", {.sinusoids = halves, .norm_first = true}),
  };
}

} // namespace pumice
