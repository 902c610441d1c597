#include "models/vision_language/picture_places.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace pumice {

namespace {

constexpr const char* sections_name = "mrope_section";

} // namespace

Result<std::vector<uint32_t>> read_place_sections(const Settings& settings, std::vector<uint32_t> fallback) {
  if (settings.gguf()) {
    // The last of four numbers is for models that divide places further.
    const std::string name = settings.name({"", place_sections_key});
    PUMICE_TRY(std::vector<uint32_t> sections, settings.fields().u32_array(name, 0, limits::head_dim));
    if (sections.size() == 4 && sections[3] == 0) sections.pop_back();
    return sections;
  }
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    PUMICE_TRY(const Fields fields, settings.fields().object_or_empty(name));
    if (fields.has(sections_name)) return fields.u32_array(sections_name, 0, limits::head_dim);
  }
  return fallback;
}

Status set_picture_places(const Settings& settings, const std::vector<uint32_t>& sections, PlaceKind kind,
                          Decoder& d) {
  RotaryConfig& rotary = d.config.rotary;
  if (sections.size() != 3 || sections[0] + sections[1] + sections[2] != rotary.dim / 2) {
    return settings.error({sections_name, place_sections_key},
                          fmt::format("expected three numbers that add up to the {} rotated pairs of a head; "
                                      "found [{}]",
                                      rotary.dim / 2, fmt::join(sections, ", ")));
  }
  rotary.places = kind;
  rotary.text_pairs = sections[0];
  rotary.down_pairs = sections[1];
  if (d.config.pictures->token >= d.config.vocabulary) {
    return settings.file().fields().error("image_token_id",
                                          fmt::format("expected one of the {} tokens; found {}",
                                                      d.config.vocabulary, d.config.pictures->token));
  }
  d.gguf_metadata[place_sections_key] = {sections[0], sections[1], sections[2], 0u};
  return {};
}

} // namespace pumice
