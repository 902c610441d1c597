#include "models/decoder/decoder.h"

namespace pumice {

namespace {

// Mixtral (Jiang et al. 2024): Mistral's blocks with a mixture of experts as feed-forward; for each token, a
// router chooses a few of many experts.
Status describe_mixtral(const Settings& settings, Decoder& d) {
  // Here, because GGUF's files of LLaMA come here too.
  if (!settings.has(StackConfigNames().norm_eps)) d.config.norm_eps = 1e-5f;
  PUMICE_CHECK(d.read_window(settings, {"sliding_window", "attention.sliding_window"}));
  d.config.set_neighbouring_in_gguf(settings.gguf());
  PUMICE_TRY(d.mixture, read_mixture(settings, d.config, {}));
  d.mixture->sparse.assign(d.config.layers, true); // whatever else the config says
  d.experts = mixtral_names;
  d.shown = hyperparameters(*d.mixture);
  d.gguf_name = "llama";
  d.gguf_metadata["expert_count"] = d.mixture->experts;
  d.gguf_metadata["expert_used_count"] = d.mixture->routing.used;
  return {};
}

// LLaMA 1 to 3 (Touvron et al. 2023) and models of the same form. GGUF has Mistral and Mixtral under its
// name.
Status describe_llama(const Settings& settings, Decoder& d) {
  if (settings.has({"", "expert_count"})) {
    PUMICE_TRY(const uint32_t experts, settings.fields().u32("llama.expert_count"));
    if (experts > 0) return describe_mixtral(settings, d);
  }
  d.config.set_neighbouring_in_gguf(settings.gguf());
  PUMICE_CHECK(d.read_shown_biases(settings));
  return d.read_window(settings, {"", "attention.sliding_window"});
}

// Mistral (Jiang et al. 2023): each token attends only to a window of the tokens before it.
Status describe_mistral(const Settings& settings, Decoder& d) {
  d.gguf_name = "llama";
  d.config.set_neighbouring_in_gguf(settings.gguf());
  return d.read_window(settings, {"sliding_window", ""}, 1);
}

// The text model of Ministral 3 and Mistral Small 3.1 (Mistral AI 2025): Ministral's queries grow with their
// position.
Status describe_mistral3(const Settings& settings, Decoder& d) {
  const SettingName window = {"sliding_window", ""};
  PUMICE_TRY(const uint32_t positions, settings.u32_or(window, 0, limits::context, 0));
  if (positions) return settings.error(window, "windows of this architecture are not supported");
  d.config.set_neighbouring_in_gguf(settings.gguf());
  // What llama.cpp's converter writes of mscale_all_dim. It takes mscale to be 1.
  const SettingName multiplier = {"", "rope.scaling.yarn_log_multiplier"};
  if (!settings.has(multiplier)) return {};
  d.config.rotary.mscale = 1;
  PUMICE_TRY(d.config.rotary.mscale_all_dim, settings.f32_or(multiplier, 0.0f, 1e6f, 0.0f));
  return {};
}

} // namespace

Architectures llama_models() {
  return {
      decoder("llama", {"llama"}, {"llama"}, {}, describe_llama),
      decoder("mistral", {"mistral"}, {}, {}, describe_mistral),
      decoder("mistral3", {"ministral3"}, {"mistral3"}, {.default_head_dim = 128, .default_norm_eps = 1e-5f},
              describe_mistral3),
      decoder("mixtral", {"mixtral"}, {}, {}, describe_mixtral),
  };
}

} // namespace pumice
