#include "models/mistral/mistral.h"

#include "models/decoder/model.h"

namespace pumice {

namespace {

// Mistral (Jiang et al. 2023): LLaMA's blocks; each token attends only to a window of the tokens before it.
class Mistral : public DecoderModel {
public:
  using DecoderModel::DecoderModel;

protected:
  void build(DecoderBuilder& builder) const override {
    builder.decode([&](uint32_t layer, TensorId x) { return builder.llama_block(layer, x, {}); });
  }

  std::string_view gguf_architecture() const override { return "llama"; }
  nlohmann::json gguf_metadata() const override {
    if (config().windows[0] == 0) return nlohmann::json::object();
    return {{"attention.sliding_window", config().windows[0]}};
  }
};

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_mistral(const ModelFile& file) {
  const Settings settings = Settings::of_text(file);
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings));
  PUMICE_TRY(uint32_t window, settings.u32_or({"sliding_window", ""}, 1, limits::context, 0));
  config.windows.assign(config.layers, window);
  config.set_neighbouring_in_gguf(settings.gguf());
  return std::unique_ptr<ModelDefinition>(std::make_unique<Mistral>(std::move(config), settings.gguf()));
}

} // namespace pumice
