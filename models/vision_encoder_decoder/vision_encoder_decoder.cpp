#include "models/vision_encoder_decoder/vision_encoder_decoder.h"

#include <fmt/format.h>

#include "models/encoder_decoder/model.h"
#include "models/gpt2/gpt2.h"
#include "models/vit/vit.h"

namespace pumice {

namespace {

// An encoder of pictures (ViT) and a decoder of text (GPT-2), joined by cross-attention.
class VisionEncoderDecoder : public EncoderDecoderModel {
public:
  VisionEncoderDecoder(VitConfig vit, Gpt2Config gpt2, bool gguf)
      : EncoderDecoderModel(vit.encoder, gpt2.decoder, gguf), vit_(std::move(vit)), gpt2_(std::move(gpt2)) {}

protected:
  void build_encoder(EncoderBuilder& builder) const override {
    TensorId x = build_vit(builder, vit_, "encoder.");
    if (encoder().hidden != decoder().hidden) {
      builder.prefix("", "");
      x = builder.project(x, {"enc_to_dec_proj", ""}, decoder().hidden, true, "attention");
    }
    store_gpt2_memory(builder, gpt2_, x);
  }

  void build_decoder(DecoderBuilder& builder) const override { build_gpt2(builder, gpt2_); }

private:
  VitConfig vit_;
  Gpt2Config gpt2_;
};

// The settings of one side, an object of config.json. Its model_type must be the supported one.
Result<Settings> side(const ModelFile& file, std::string_view name, std::string_view model_type) {
  PUMICE_TRY(Fields fields, file.fields().object(name));
  PUMICE_TRY(std::string found, fields.string("model_type"));
  if (found != model_type) {
    return fields.error("model_type", fmt::format("expected {}; found '{}'", model_type, found));
  }
  return Settings(file, std::move(fields));
}

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_vision_encoder_decoder(const ModelFile& file) {
  PUMICE_TRY(const Settings encoder, side(file, "encoder", "vit"));
  PUMICE_TRY(const Settings decoder, side(file, "decoder", "gpt2"));
  PUMICE_TRY(VitConfig vit, read_vit_config(encoder));
  PUMICE_TRY(Gpt2Config gpt2, read_gpt2_config(decoder));
  gpt2.decoder.root = "decoder.";
  gpt2.cross_attention = true;
  return std::unique_ptr<ModelDefinition>(
      std::make_unique<VisionEncoderDecoder>(std::move(vit), std::move(gpt2), encoder.gguf()));
}

} // namespace pumice
