#include "models/hunyuan_dense/hunyuan_dense.h"

#include "models/decoder/model.h"

namespace pumice {

namespace {

// Hunyuan, dense (Tencent 2025): LLaMA with norms of each head's query and key after their rotation.
class HunyuanDense : public DecoderModel {
public:
  HunyuanDense(DecoderConfig config, bool gguf, const Biases& biases)
      : DecoderModel(std::move(config), gguf), biases_(biases) {}

protected:
  void build(DecoderBuilder& builder) const override {
    AttentionStyle style;
    style.head_norms = style.head_norms_after = true;
    style.query_norm.hugging_face = "self_attn.query_layernorm";
    style.key_norm.hugging_face = "self_attn.key_layernorm";
    builder.decode([&](uint32_t layer, TensorId x) { return builder.llama_block(layer, x, biases_, style); });
  }

  std::vector<Hyperparameter> own_hyperparameters() const override {
    return pumice::hyperparameters(biases_);
  }
  std::string_view gguf_architecture() const override { return "hunyuan-dense"; }

private:
  Biases biases_;
};

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_hunyuan_dense(const ModelFile& file) {
  const Settings settings = Settings::of_text(file);
  PUMICE_CHECK(settings.expect("use_qk_norm", true, true));
  PUMICE_CHECK(settings.expect("use_cla", false, false));
  DecoderConfigNames names;
  names.default_norm_eps = 1e-5f;
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings, names));
  PUMICE_TRY(Biases biases, read_biases(settings));
  return std::unique_ptr<ModelDefinition>(
      std::make_unique<HunyuanDense>(std::move(config), settings.gguf(), biases));
}

} // namespace pumice
