#include "models/exaone4/exaone4.h"

#include <nlohmann/json.hpp>

#include "models/decoder/model.h"

namespace pumice {

namespace {

// EXAONE 4 (LG AI Research 2025): LLaMA's sublayers with norms after them, norms of each head's query and
// key, and rotary positions only in the layers with a window, if there are such.
class Exaone4 : public DecoderModel {
public:
  using DecoderModel::DecoderModel;

protected:
  void build(DecoderBuilder& builder) const override {
    const bool windows = largest_window(config()) > 0;
    builder.decode([&](uint32_t layer, TensorId x) {
      AttentionStyle style;
      style.head_norms = true;
      if (windows && config().windows[layer] == 0) style.rotary = &no_rotary;
      return builder.llama_block(layer, x, {}, style, norms_after);
    });
  }

  std::string_view gguf_architecture() const override { return "exaone4"; }
  nlohmann::json gguf_metadata() const override {
    return largest_window(config()) ? gguf_windows(config()) : nlohmann::json::object();
  }
};

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_exaone4(const ModelFile& file) {
  const Settings settings = Settings::of_text(file);
  DecoderConfigNames names;
  names.default_norm_eps = 1e-5f;
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings, names));
  PUMICE_CHECK(read_periodic_windows(settings, 0, 4, config));
  return std::unique_ptr<ModelDefinition>(std::make_unique<Exaone4>(std::move(config), settings.gguf()));
}

} // namespace pumice
