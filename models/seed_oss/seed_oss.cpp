#include "models/seed_oss/seed_oss.h"

#include "models/decoder/model.h"

namespace pumice {

namespace {

// Seed-OSS (ByteDance Seed Team 2025): LLaMA with biases of queries, keys and values.
class SeedOss : public DecoderModel {
public:
  SeedOss(DecoderConfig config, bool gguf, const Biases& biases)
      : DecoderModel(std::move(config), gguf), biases_(biases) {}

protected:
  void build(DecoderBuilder& builder) const override {
    const BlockNorms norms = {
        {"input_layernorm", "attn_norm"}, {}, {"post_attention_layernorm", "post_attention_norm"}, {}};
    builder.decode(
        [&](uint32_t layer, TensorId x) { return builder.llama_block(layer, x, biases_, {}, norms); });
  }

  std::vector<Hyperparameter> own_hyperparameters() const override {
    return pumice::hyperparameters(biases_);
  }
  std::string_view gguf_architecture() const override { return "seed_oss"; }

private:
  Biases biases_;
};

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_seed_oss(const ModelFile& file) {
  const Settings settings = Settings::of_text(file);
  DecoderConfigNames names;
  names.default_head_dim = 128;
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings, names));
  BiasNames bias_names;
  bias_names.output = "attention_out_bias";
  bias_names.attention_by_default = true;
  PUMICE_TRY(Biases biases, read_biases(settings, bias_names));
  return std::unique_ptr<ModelDefinition>(
      std::make_unique<SeedOss>(std::move(config), settings.gguf(), biases));
}

} // namespace pumice
