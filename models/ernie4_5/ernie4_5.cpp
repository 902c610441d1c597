#include "models/ernie4_5/ernie4_5.h"

#include "models/decoder/model.h"

namespace pumice {

namespace {

// ERNIE 4.5, dense (Baidu 2025): LLaMA, where neighbouring dimensions of a head are rotated in pairs.
class Ernie45 : public DecoderModel {
public:
  Ernie45(DecoderConfig config, bool gguf, const Biases& biases)
      : DecoderModel(std::move(config), gguf), biases_(biases) {}

protected:
  void build(DecoderBuilder& builder) const override {
    builder.decode([&](uint32_t layer, TensorId x) { return builder.llama_block(layer, x, biases_); });
  }

  std::vector<Hyperparameter> own_hyperparameters() const override {
    return pumice::hyperparameters(biases_);
  }
  std::string_view gguf_architecture() const override { return "ernie4_5"; }

private:
  Biases biases_;
};

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_ernie4_5(const ModelFile& file) {
  const Settings settings = Settings::of_text(file);
  DecoderConfigNames names;
  names.default_norm_eps = 1e-5f;
  names.default_head_dim = 128;
  names.tied_by_default = true;
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings, names));
  config.rotary.pairs = RotaryPairs::neighbouring;
  BiasNames bias_names;
  bias_names.attention = bias_names.feed_forward = "use_bias";
  PUMICE_TRY(Biases biases, read_biases(settings, bias_names));
  return std::unique_ptr<ModelDefinition>(
      std::make_unique<Ernie45>(std::move(config), settings.gguf(), biases));
}

} // namespace pumice
