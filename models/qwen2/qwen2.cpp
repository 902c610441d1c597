#include "models/qwen2/qwen2.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "models/decoder/model.h"

namespace pumice {

namespace {

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

  std::string_view gguf_architecture() const override { return "qwen2"; }
};

Result<DecoderConfig> read_config(const Settings& settings) {
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings));
  PUMICE_CHECK(read_upper_windows(settings, config));
  return config;
}

// How many pairs of a head turn with the place in the text, down and across: "mrope_section".
Status read_places(const Settings& settings, RotaryConfig& rotary) {
  std::vector<uint32_t> sections = {16, 24, 24};
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    PUMICE_TRY(const Fields fields, settings.fields().object_or_empty(name));
    if (fields.has("mrope_section")) {
      PUMICE_TRY(sections, fields.u32_array("mrope_section", 0, rotary.dim));
    } else if (!settings.fields().has(name)) {
      continue;
    }
    if (sections.size() != 3 || sections[0] + sections[1] + sections[2] != rotary.dim / 2) {
      return fields.error(
          "mrope_section",
          fmt::format("expected three numbers that add up to the {} pairs of a head; found [{}]",
                      rotary.dim / 2, fmt::join(sections, ", ")));
    }
  }
  rotary.places = PlaceKind::text;
  rotary.text_pairs = sections[0];
  rotary.down_pairs = sections[1];
  return {};
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
