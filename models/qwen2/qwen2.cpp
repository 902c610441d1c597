#include "models/qwen2/qwen2.h"

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

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_qwen2(const ModelFile& file) {
  const Settings settings = Settings::of_text(file);
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings));
  PUMICE_CHECK(read_upper_windows(settings, config));
  return std::unique_ptr<ModelDefinition>(std::make_unique<Qwen2>(std::move(config), settings.gguf()));
}

} // namespace pumice
