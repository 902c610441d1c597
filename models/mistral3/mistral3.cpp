#include "models/mistral3/mistral3.h"

#include "models/decoder/model.h"

namespace pumice {

namespace {

// The text model of Ministral 3 and Mistral Small 3.1 (Mistral AI 2025): LLaMA; Ministral's queries grow with
// their position.
class Mistral3 : public DecoderModel {
public:
  using DecoderModel::DecoderModel;

protected:
  void build(DecoderBuilder& builder) const override {
    builder.decode([&](uint32_t layer, TensorId x) { return builder.llama_block(layer, x, {}); });
  }

  std::string_view gguf_architecture() const override { return "mistral3"; }
};

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_mistral3(const ModelFile& file) {
  const Settings settings = Settings::of_text(file);
  const SettingName window = {"sliding_window", ""};
  PUMICE_TRY(uint32_t positions, settings.u32_or(window, 0, limits::context, 0));
  if (positions) return settings.error(window, "windows of this architecture are not supported");
  DecoderConfigNames names;
  names.default_head_dim = 128;
  names.default_norm_eps = 1e-5f;
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings, names));
  config.set_neighbouring_in_gguf(settings.gguf());
  // What llama.cpp's converter writes of mscale_all_dim. It takes mscale to be 1.
  const SettingName multiplier = {"", "rope.scaling.yarn_log_multiplier"};
  if (settings.has(multiplier)) {
    config.rotary.mscale = 1;
    PUMICE_TRY(config.rotary.mscale_all_dim, settings.f32_or(multiplier, 0.0f, 1e6f, 0.0f));
  }
  return std::unique_ptr<ModelDefinition>(std::make_unique<Mistral3>(std::move(config), settings.gguf()));
}

} // namespace pumice
