#include "models/smollm3/smollm3.h"

#include <algorithm>

#include <fmt/format.h>

#include "model/gguf_model.h"
#include "models/decoder/model.h"

namespace pumice {

namespace {

// SmolLM3 (Bakouch et al. 2025): LLaMA, where some layers have no rotary positions.
class SmolLm3 : public DecoderModel {
public:
  static constexpr uint32_t every = 4; // such layer is not rotated, where a file has no setting for it

  SmolLm3(DecoderConfig config, bool gguf, const Biases& biases, std::vector<bool> rotated)
      : DecoderModel(std::move(config), gguf), biases_(biases), rotated_(std::move(rotated)) {}

  Result<GgufModel> gguf(const ModelFile& file) const override {
    for (uint32_t layer = 0; layer < config().layers; ++layer) {
      if (rotated_[layer] == ((layer + 1) % every != 0)) continue;
      return Error{
          Code::unsupported,
          fmt::format("{}: field 'no_rope_layers': GGUF's smollm3 models have no rotary positions in "
                      "every {}th layer; layer {} differs",
                      file.path(), every, layer)};
    }
    return DecoderModel::gguf(file);
  }

protected:
  void build(DecoderBuilder& builder) const override {
    builder.decode([&](uint32_t layer, TensorId x) {
      AttentionStyle style;
      if (!rotated_[layer]) style.rotary = &no_rotary;
      return builder.llama_block(layer, x, biases_, style);
    });
  }

  std::vector<Hyperparameter> own_hyperparameters() const override {
    const auto count = std::count(rotated_.begin(), rotated_.end(), true);
    return {{"rotated", fmt::format("{} of {} layers", count, config().layers)}};
  }
  std::string_view gguf_architecture() const override { return "smollm3"; }

private:
  Biases biases_;
  std::vector<bool> rotated_; // by layer
};

Result<std::vector<bool>> read_rotated(const Settings& settings, uint32_t layers) {
  const Fields& fields = settings.fields();
  std::vector<bool> rotated(layers);
  if (!settings.gguf() && fields.has("no_rope_layers")) {
    PUMICE_TRY(std::vector<uint32_t> list, fields.u32_array("no_rope_layers", 0, 1));
    if (list.size() != layers) {
      return fields.error("no_rope_layers", fmt::format("expected one for each of the {} layers; found {}",
                                                        layers, list.size()));
    }
    rotated.assign(list.begin(), list.end());
    return rotated;
  }
  PUMICE_TRY(uint32_t period,
             settings.u32_or({"no_rope_layer_interval", ""}, 1, limits::layers, SmolLm3::every));
  for (uint32_t layer = 0; layer < layers; ++layer) rotated[layer] = (layer + 1) % period != 0;
  return rotated;
}

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_smollm3(const ModelFile& file) {
  const Settings settings = Settings::of_text(file);
  DecoderConfigNames names;
  names.tied_by_default = true;
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings, names));
  config.set_neighbouring_in_gguf(settings.gguf());
  PUMICE_TRY(std::vector<bool> rotated, read_rotated(settings, config.layers));
  PUMICE_TRY(bool windows, settings.boolean_or({"use_sliding_window", ""}, false));
  if (windows) {
    PUMICE_TRY(uint32_t window, settings.u32_or({"sliding_window", ""}, 0, limits::context, 0));
    PUMICE_CHECK(read_layer_types(settings, window, config, [&](uint32_t layer) { return !rotated[layer]; }));
  }
  PUMICE_TRY(Biases biases, read_biases(settings));
  return std::unique_ptr<ModelDefinition>(
      std::make_unique<SmolLm3>(std::move(config), settings.gguf(), biases, std::move(rotated)));
}

} // namespace pumice
