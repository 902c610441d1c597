#include "models/qwen2/qwen2.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "models/decoder/model.h"

namespace pumice {

namespace {

constexpr const char* sections_key = "rope.dimension_sections";

// Qwen 2 (Yang et al. 2024): LLaMA's blocks with biases only for queries, keys and values.
class Qwen2 : public DecoderModel {
public:
  using DecoderModel::DecoderModel;

protected:
  void build(DecoderBuilder& builder) const override {
    Biases biases;
    biases.attention = true;
    builder.decode([&](uint32_t layer, TensorId x) { return builder.llama_block(layer, x, biases); });
  }

  std::string_view gguf_architecture() const override { return config().pictures ? "qwen2vl" : "qwen2"; }
  nlohmann::json gguf_metadata() const override {
    if (!config().pictures) return nlohmann::json::object();
    const RotaryConfig& rotary = config().rotary;
    const uint32_t across = rotary.dim / 2 - rotary.text_pairs - rotary.down_pairs;
    return {{sections_key, {rotary.text_pairs, rotary.down_pairs, across, 0u}}};
  }
};

Result<DecoderConfig> read_config(const Settings& settings) {
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings));
  PUMICE_CHECK(read_upper_windows(settings, config));
  return config;
}

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

// How many pairs of a head turn with the place in the text, down and across: "mrope_section".
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

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_qwen2(const ModelFile& file) {
  const Settings settings = Settings::of_text(file);
  PUMICE_TRY(DecoderConfig config, read_config(settings));
  return std::unique_ptr<ModelDefinition>(std::make_unique<Qwen2>(std::move(config), settings.gguf()));
}

Result<std::unique_ptr<ModelDefinition>> open_qwen2_that_sees(const ModelFile& file, PictureTokens pictures) {
  const Settings settings = Settings::of_text(file);
  PUMICE_TRY(DecoderConfig config, read_config(settings));
  PUMICE_CHECK(read_places(settings, config.rotary));
  if (pictures.token >= config.vocabulary) {
    return file.fields().error("image_token_id", fmt::format("expected one of the {} tokens; found {}",
                                                             config.vocabulary, pictures.token));
  }
  config.pictures = std::move(pictures);
  return std::unique_ptr<ModelDefinition>(std::make_unique<Qwen2>(std::move(config), settings.gguf()));
}

} // namespace pumice
