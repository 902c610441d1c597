#include "models/qwen3/qwen3.h"

#include "models/decoder/model.h"

namespace pumice {

namespace {

// Qwen 3 (Yang et al. 2025): LLaMA's blocks with a norm on each head's query and key.
class Qwen3 : public DecoderModel {
public:
  Qwen3(DecoderConfig config, bool gguf, bool bias) : DecoderModel(std::move(config), gguf), bias_(bias) {}

protected:
  void build(DecoderBuilder& builder) const override {
    AttentionStyle style;
    style.head_norms = true;
    const Biases biases = {bias_, bias_, false};
    builder.decode([&](uint32_t layer, TensorId x) { return builder.llama_block(layer, x, biases, style); });
  }

  std::string_view gguf_architecture() const override { return "qwen3"; }

private:
  bool bias_;
};

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_qwen3(const ModelFile& file) {
  const Settings settings = Settings::of_text(file);
  DecoderConfigNames names;
  names.default_head_dim = 128;
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings, names));
  PUMICE_CHECK(read_upper_windows(settings, config));
  PUMICE_TRY(bool bias, settings.boolean_or({"attention_bias", ""}, false));
  if (settings.gguf()) bias = file.find("blk.0.attn_q.bias");
  return std::unique_ptr<ModelDefinition>(std::make_unique<Qwen3>(std::move(config), settings.gguf(), bias));
}

} // namespace pumice
