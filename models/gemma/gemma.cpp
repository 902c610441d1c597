#include <cmath>

#include <fmt/format.h>

#include "models/decoder/decoder.h"
#include "models/decoder/rotary.h"

namespace pumice {

namespace {

constexpr float most_cap = 1e6f;

// Gemma (Gemma Team 2024): 1 is added to the norms' weights, embeddings are multiplied by the square root of
// their size, and the feed-forward is gated by GELU.
Status describe_gemma(const Settings& settings, Decoder& d) {
  d.config.norm.weight_offset = 1;
  d.config.embedding_scale = std::sqrt(static_cast<float>(d.config.hidden));
  return d.read_bias(settings, "attention_bias");
}

// Gemma 2 and 3: further norms after the sublayers, and a divisor of scores. GGUF has no key for it: it is
// the square root of the head's size, except in the largest model.
Status describe_later_gemma(const Settings& settings, Decoder& d, uint32_t layers_of_largest) {
  PUMICE_CHECK(describe_gemma(settings, d));
  d.norms = norms_around;
  DecoderConfig& config = d.config;
  const uint32_t size = config.layers == layers_of_largest ? config.hidden / config.heads : config.head_dim;
  const auto gguf_scalar = static_cast<float>(size);
  const float fallback = settings.gguf() ? gguf_scalar : 256;
  PUMICE_TRY(const float scalar, settings.f32_or({"query_pre_attn_scalar", ""}, 1e-3f, 1e6f, fallback));
  d.style.score_scale = 1 / std::sqrt(scalar);
  config.gguf_query_scale = std::sqrt(gguf_scalar / scalar);
  return {};
}

// Gemma 2 (Gemma Team 2024): soft caps of scores and logits, and a window in every second layer.
Status describe_gemma2(const Settings& settings, Decoder& d) {
  PUMICE_CHECK(describe_later_gemma(settings, d, 46));
  PUMICE_TRY(d.style.soft_cap, settings.f32_or({"attn_logit_softcapping", "attn_logit_softcapping"}, 0.0f,
                                               most_cap, settings.gguf() ? 50.0f : 0.0f));
  PUMICE_TRY(d.config.logit_soft_cap, settings.f32_or({"final_logit_softcapping", "final_logit_softcapping"},
                                                      0.0f, most_cap, settings.gguf() ? 30.0f : 0.0f));
  PUMICE_TRY(const uint32_t window,
             settings.u32_or({"sliding_window", "attention.sliding_window"}, 0, limits::context, 4096));
  PUMICE_CHECK(read_layer_types(settings, window, d.config, [](uint32_t layer) { return layer % 2 == 0; }));
  d.shown = {{"soft caps", fmt::format("scores {}, logits {}", d.style.soft_cap, d.config.logit_soft_cap)}};
  d.gguf_metadata = {{"attn_logit_softcapping", d.style.soft_cap},
                     {"final_logit_softcapping", d.config.logit_soft_cap},
                     {"attention.sliding_window", d.config.windows[0]}};
  return {};
}

// EmbeddingGemma's setting counts both sides of a window. transformers writes the size of one side with the
// token itself, size / 2 + 1, in its place, which is odd for all published sizes.
void halve_windows(const Settings& settings, DecoderConfig& config) {
  for (uint32_t& window : config.windows)
    if (window > 0 && (settings.gguf() || window % 2 == 0)) window = window / 2 + 1;
}

Status check_gemma3_pictures(const Settings& settings, const DecoderConfig& config) {
  if (!config.pictures) return {};
  if (config.pictures->token >= config.vocabulary) {
    return settings.file().fields().error(
        "image_token_index",
        fmt::format("expected one of the {} tokens; found {}", config.vocabulary, config.pictures->token));
  }
  for (const uint32_t window : config.windows) {
    if (window == 0 || window >= config.pictures->rows) continue;
    return settings.error(
        {"sliding_window", ""},
        fmt::format("expected at least a picture's {} rows; found {}", config.pictures->rows, window));
  }
  return {};
}

// The text model of Gemma 3 (Gemma Team 2025): norms of each head's query and key, and another rotary base in
// the layers that have a window. EmbeddingGemma is the same, but it looks both ways.
Status describe_gemma3(const Settings& settings, Decoder& d) {
  DecoderConfig& config = d.config;
  RotaryConfig& local = d.rotary_in_windows.emplace();
  local.pairs = config.rotary.pairs = RotaryPairs::half_split;
  local.dim = config.rotary.dim = config.head_dim;
  local.base = 10000;
  config.rotary.base = 1e6f;
  PUMICE_CHECK(read_rotary_in_windows(settings, config, local));
  PUMICE_TRY(config.both_ways, settings.boolean_or({"use_bidirectional_attention", ""}, false));
  if (settings.gguf()) config.both_ways = settings.file().architecture() == "gemma-embedding";
  uint32_t period = 6; // one of this many layers has no window
  for (std::string_view name : {"_sliding_window_pattern", "sliding_window_pattern"}) {
    PUMICE_TRY(period, settings.u32_or({name, ""}, 1, limits::layers, period));
  }
  PUMICE_CHECK(read_periodic_windows(settings, settings.gguf() ? 0 : 4096, period, config));
  if (config.both_ways) halve_windows(settings, config);
  PUMICE_CHECK(check_gemma3_pictures(settings, config));
  PUMICE_CHECK(describe_later_gemma(settings, d, 62));
  PUMICE_TRY(config.logit_soft_cap,
             settings.f32_or({"final_logit_softcapping", "final_logit_softcapping"}, 0.0f, most_cap, 0.0f));
  d.style.head_norms = true;
  d.style.head_norm_offset = config.norm.weight_offset;
  d.style.whole_pictures = config.pictures && config.pictures->bidirectional;
  d.shown = {{"rotary in windows", describe(local)}};
  d.gguf_metadata = gguf_rotary_in_windows(local);
  d.gguf_metadata.update(gguf_windows(config));
  if (config.logit_soft_cap > 0) d.gguf_metadata["final_logit_softcapping"] = config.logit_soft_cap;
  if (!config.both_ways) return {};
  d.gguf_name = "gemma-embedding";
  d.gguf_metadata["attention.sliding_window"] = 2 * (largest_window(config) - 1);
  return {};
}

} // namespace

Architectures gemma_models() {
  // Older configs have "gelu" in hidden_act but mean GELU with tanh, so hidden_act is not read.
  StackConfigNames names = {.activation = {"hidden_activation", ""},
                            .default_context = 8192,
                            .default_head_dim = 256,
                            .default_activation = Activation::gelu_tanh,
                            .tied_by_default = true};
  StackConfigNames names3 = names;
  names3.default_context = 131072;
  names3.rotary = false;
  return {
      decoder("gemma", {"gemma"}, {"gemma"}, names, describe_gemma),
      decoder("gemma2", {"gemma2"}, {"gemma2"}, names, describe_gemma2),
      decoder("gemma3", {"gemma3_text"}, {"gemma3", "gemma-embedding"}, names3, describe_gemma3),
  };
}

} // namespace pumice
