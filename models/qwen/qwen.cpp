#include <fmt/format.h>
#include <fmt/ranges.h>

#include "models/decoder/decoder.h"

namespace pumice {

namespace {

// Rotary positions of three parts, for pictures: how many pairs of a head turn with the place in the text,
// down and across.
constexpr const char* sections_key = "rope.dimension_sections";

Status set_places(const Fields& fields, std::string_view name, const std::vector<uint32_t>& sections,
                  RotaryConfig& rotary) {
  if (sections.size() != 3 || sections[0] + sections[1] + sections[2] != rotary.dim / 2) {
    return fields.error(name, fmt::format("expected three numbers that add up to the {} pairs of a head; "
                                          "found [{}]",
                                          rotary.dim / 2, fmt::join(sections, ", ")));
  }
  rotary.places = PlaceKind::text;
  rotary.text_pairs = sections[0];
  rotary.down_pairs = sections[1];
  return {};
}

// GGUF's list has four numbers, the last of which is for models that divide places further.
Status read_gguf_places(const Settings& settings, RotaryConfig& rotary) {
  const std::string name = settings.name({"", sections_key});
  PUMICE_TRY(std::vector<uint32_t> sections, settings.fields().u32_array(name, 0, rotary.dim));
  if (sections.size() == 4 && sections[3] == 0) sections.pop_back();
  return set_places(settings.fields(), name, sections, rotary);
}

Status read_places(const Settings& settings, RotaryConfig& rotary) {
  if (settings.gguf()) return read_gguf_places(settings, rotary);
  std::vector<uint32_t> sections = {16, 24, 24};
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    PUMICE_TRY(const Fields fields, settings.fields().object_or_empty(name));
    if (fields.has("mrope_section")) {
      PUMICE_TRY(sections, fields.u32_array("mrope_section", 0, rotary.dim));
    } else if (!settings.fields().has(name)) {
      continue;
    }
    PUMICE_CHECK(set_places(fields, "mrope_section", sections, rotary));
  }
  return set_places(settings.fields(), "mrope_section", sections, rotary);
}

Status read_pictures(const Settings& settings, Decoder& d) {
  RotaryConfig& rotary = d.config.rotary;
  PUMICE_CHECK(read_places(settings, rotary));
  if (d.config.pictures->token >= d.config.vocabulary) {
    return settings.file().fields().error("image_token_id",
                                          fmt::format("expected one of the {} tokens; found {}",
                                                      d.config.vocabulary, d.config.pictures->token));
  }
  d.gguf_name = "qwen2vl";
  const uint32_t across = rotary.dim / 2 - rotary.text_pairs - rotary.down_pairs;
  d.gguf_metadata[sections_key] = {rotary.text_pairs, rotary.down_pairs, across, 0u};
  return {};
}

// Qwen 2 (Yang et al. 2024): biases only for queries, keys and values.
Status describe_qwen2(const Settings& settings, Decoder& d) {
  d.style.input_bias = true;
  PUMICE_CHECK(read_upper_windows(settings, d.config));
  return d.config.pictures ? read_pictures(settings, d) : Status();
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
  return read_upper_windows(settings, d.config);
}

// The same with mixtures of experts.
Status describe_qwen3_moe(const Settings& settings, Decoder& d) {
  PUMICE_CHECK(describe_qwen3(settings, d));
  PUMICE_TRY(MixtureConfig mixture, read_mixture(settings, d.config, {.normalise = false}));
  d.set_mixture(settings, std::move(mixture), {.normalise = true});
  return {};
}

} // namespace

Architectures qwen_models() {
  return {
      decoder("qwen2", {"qwen2", "mimo", "qwen2_vl", "qwen2_vl_text", "qwen2_5_vl_text"},
              {"qwen2", "qwen2vl"}, {}, describe_qwen2),
      decoder("qwen2_moe", {"qwen2_moe"}, {"qwen2moe"}, {}, describe_qwen2_moe),
      decoder("qwen3", {"qwen3", "qwen3_vl_text"}, {"qwen3", "qwen3vl"}, {.default_head_dim = 128},
              describe_qwen3),
      decoder("qwen3_moe", {"qwen3_moe", "qwen3_vl_moe_text"}, {"qwen3moe", "qwen3vlmoe"}, {},
              describe_qwen3_moe),
  };
}

} // namespace pumice
