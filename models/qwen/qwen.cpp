#include "models/vision_language/picture_places.h"

namespace pumice {

namespace {

// Of a model that also sees, and whose pictures have places: M-RoPE (Wang et al., Qwen2-VL, 2024).
Status read_pictures(const Settings& settings, std::vector<uint32_t> sections, PlaceKind kind,
                     std::string_view gguf_name, Decoder& d) {
  if (!d.config.pictures || !d.config.pictures->has_places()) return {};
  d.gguf_name = gguf_name;
  PUMICE_TRY(sections, read_place_sections(settings, std::move(sections)));
  if (d.config.pictures->deep_layers > 0)
    d.gguf_metadata["n_deepstack_layers"] = d.config.pictures->deep_layers;
  return set_picture_places(settings, sections, kind, d);
}

// Qwen 2 (Yang et al. 2024): biases only for queries, keys and values.
Status describe_qwen2(const Settings& settings, Decoder& d) {
  d.style.input_bias = true;
  PUMICE_CHECK(read_upper_windows(settings, d.config));
  return read_pictures(settings, {16, 24, 24}, PlaceKind::text, "qwen2vl", d);
}

// Qwen 1.5 and 2 with mixtures of experts (Yang et al. 2024): an expert behind a gate that every token uses
// beside those it chooses.
Status describe_qwen2_moe(const Settings& settings, Decoder& d) {
  PUMICE_CHECK(read_upper_windows(settings, d.config));
  PUMICE_TRY(MixtureConfig mixture,
             read_mixture(settings, d.config, {.normalise = false, .gguf_normalise = false}));
  PUMICE_TRY(mixture.shared_feed_forward,
             settings.u32_or({"shared_expert_intermediate_size", "expert_shared_feed_forward_length"}, 1,
                             4 * limits::columns, d.config.feed_forward));
  mixture.shared_gate = true;
  PUMICE_CHECK(
      d.read_biases(settings, {.attention = "qkv_bias", .feed_forward = {}, .attention_by_default = true}));
  d.style.output_bias = false;
  d.set_mixture(settings, std::move(mixture), {.normalise = false});
  return {};
}

// Qwen 3 (Yang et al. 2025): a norm on each head's query and key.
Status describe_qwen3(const Settings& settings, Decoder& d) {
  d.style.head_norms = true;
  PUMICE_CHECK(d.read_biases(settings, attention_biases));
  PUMICE_CHECK(read_pictures(settings, {24, 20, 20}, PlaceKind::interleaved, "qwen3vl", d));
  return read_upper_windows(settings, d.config);
}

// The same with mixtures of experts.
Status describe_qwen3_moe(const Settings& settings, Decoder& d) {
  PUMICE_CHECK(describe_qwen3(settings, d));
  if (d.config.pictures && d.config.pictures->has_places()) d.gguf_name = "qwen3vlmoe";
  // Qwen 3 VL's, [experts, columns, rows] as published, the other way round as transformers 5 writes them.
  for (const TensorView& tensor : settings.file().tensors()) {
    if (!tensor.name.ends_with(".mlp.experts.gate_up_proj") || tensor.shape.size() != 3) continue;
    const bool published = tensor.shape[1] == d.config.hidden;
    d.experts.stack = published ? ExpertStack::gate_first : ExpertStack::gate_first_as_is;
    d.experts.gate.hugging_face = d.experts.up.hugging_face = "mlp.experts.gate_up_proj";
    d.experts.down.hugging_face = "mlp.experts.down_proj";
    break;
  }
  PUMICE_TRY(MixtureConfig mixture, read_mixture(settings, d.config, {.normalise = false}));
  d.set_mixture(settings, std::move(mixture), {.normalise = true});
  return {};
}

} // namespace

Architectures qwen_models() {
  return {
      decoder("qwen2", {"qwen2", "mimo", "qwen2_vl_text", "qwen2_5_vl_text"}, {"qwen2", "qwen2vl"}, {},
              describe_qwen2),
      decoder("qwen2_moe", {"qwen2_moe"}, {"qwen2moe"}, {}, describe_qwen2_moe),
      decoder("qwen3", {"qwen3", "qwen3_vl_text"}, {"qwen3", "qwen3vl"}, {.default_head_dim = 128},
              describe_qwen3),
      decoder("qwen3_moe", {"qwen3_moe", "qwen3_vl_moe_text"}, {"qwen3moe", "qwen3vlmoe"}, {},
              describe_qwen3_moe),
  };
}

} // namespace pumice
