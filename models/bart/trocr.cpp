#include "models/bart/trocr.h"

#include <cmath>

#include <fmt/format.h>

#include "models/bart/bart.h"

namespace pumice {

namespace {

Result<std::optional<Sinusoids>> read_sinusoids(const Settings& settings, uint32_t width) {
  PUMICE_TRY(const bool learned, settings.boolean_or({"use_learned_position_embeddings", ""}, true));
  if (learned) return std::optional<Sinusoids>();
  PUMICE_TRY(const uint32_t padding, settings.u32_or({"pad_token_id", ""}, 0, limits::tokens, 1));
  if (width < 4 || width % 2 != 0) {
    return settings.error({"d_model", ""},
                          fmt::format("expected an even number, at least 4; found {}", width));
  }
  return std::optional(Sinusoids{SinusoidLayout::halves, SinusoidSpacing::closed, padding + 1});
}

LayerNames layer_names(const TrOcrConfig& config, const std::string& prefix) {
  LayerNames names = bart_layer_names(prefix + "model.", "decoder");
  names.norm_first = config.norm_first;
  return names;
}

Result<TrOcrConfig> read_config(const Settings& settings, TrOcrConfig config) {
  StackConfigNames names;
  names.hidden = {"d_model", ""};
  names.layers = {"decoder_layers", ""};
  names.heads = {"decoder_attention_heads", ""};
  names.set_heads_share_columns();
  names.feed_forward = {"decoder_ffn_dim", ""};
  names.norm_eps = {};
  names.activation = {"activation_function", ""};
  names.default_context = 512;
  names.default_norm_eps = 1e-5f;
  names.default_activation = Activation::gelu;
  names.rotary = false;
  PUMICE_TRY(config.decoder, read_decoder_config(settings, names));
  // Of the pair's settings and the decoder's, only the latter speak of the head. A head that the file has is
  // its own, whatever they say.
  PUMICE_TRY(const bool tied, settings.boolean_or({"tie_word_embeddings", ""}, true));
  config.decoder.tied_head = tied && !settings.file().find(fmt::format("decoder.{}.weight", config.head));
  PUMICE_TRY(config.memory_columns,
             settings.u32_or({"cross_attention_hidden_size", ""}, 1, limits::columns, 0));
  PUMICE_TRY(config.sinusoids, read_sinusoids(settings, config.decoder.hidden));
  PUMICE_TRY(config.embedding_norm, settings.boolean_or({"layernorm_embedding", ""}, true));
  PUMICE_TRY(const bool scaled, settings.boolean_or({"scale_embedding", ""}, false));
  if (scaled) config.embedding_scale = std::sqrt(static_cast<float>(config.decoder.hidden));
  return config;
}

} // namespace

// TrOCR's decoder (Li et al. 2021): BART's, whose cross-attention may read rows of another width.
Result<TrOcrConfig> read_trocr_config(const Settings& settings) {
  return read_config(settings, {});
}

Result<TrOcrConfig> read_mbart_writer_config(const Settings& settings) {
  TrOcrConfig config;
  config.norm_first = true;
  config.head = "lm_head";
  return read_config(settings, std::move(config));
}

void build_trocr(DecoderBuilder& builder, const TrOcrConfig& config) {
  builder.prefix("model.decoder.", "");
  TensorId x = builder.embed({"embed_tokens", ""}, config.embedding_scale);
  if (config.sinusoids) {
    x = sinusoidal_positions(builder.graph(), "with_positions", x, *config.sinusoids);
  } else {
    x = builder.learned_positions(x, {"embed_positions", ""}, bart_position_offset);
  }
  if (config.embedding_norm) x = builder.layer_norm(x, {"layernorm_embedding", ""});
  x = builder.run_layers(x, layer_names(config, ""));
  if (config.norm_first) {
    builder.prefix("model.decoder.", "");
    x = builder.layer_norm(x, {"layer_norm", ""});
  }
  builder.hidden_state(x);
  builder.finish(x, {config.head, ""});
}

void store_trocr_memory(EncoderBuilder& builder, const TrOcrConfig& config, TensorId x) {
  builder.store_memory(x, layer_names(config, config.decoder.root));
}

} // namespace pumice
