#include <functional>

#include <fmt/format.h>

#include "models/bart/trocr.h"
#include "models/encoder_decoder/model.h"
#include "models/gpt/gpt2.h"
#include "models/registry.h"
#include "models/vit/beit.h"
#include "models/vit/deit.h"
#include "models/vit/donut_swin.h"
#include "models/vit/vit.h"

namespace pumice {

namespace {

constexpr const char* encoder_prefix = "encoder."; // of tensor names
constexpr const char* decoder_prefix = "decoder.";

// An encoder of pictures that may stand before a decoder.
struct Eye {
  EncoderConfig config;
  std::function<TensorId(EncoderBuilder&)> build; // to the last hidden state
};

// A decoder of text that looks at an encoder's rows.
struct Writer {
  DecoderConfig config;
  bool reads_any_width = false; // the encoder's rows are read as they are
  std::function<void(DecoderBuilder&)> build;
  std::function<void(EncoderBuilder&, TensorId)> store_memory;
};

class VisionEncoderDecoder : public EncoderDecoderModel {
public:
  VisionEncoderDecoder(Eye eye, Writer writer, bool gguf)
      : EncoderDecoderModel(eye.config, writer.config, gguf), eye_(std::move(eye)),
        writer_(std::move(writer)) {}

protected:
  void build_encoder(EncoderBuilder& builder) const override {
    TensorId x = eye_.build(builder);
    if (encoder().hidden != decoder().hidden && !writer_.reads_any_width) {
      builder.prefix("", "");
      x = builder.project(x, {"enc_to_dec_proj", ""}, decoder().hidden, true, "attention");
    }
    writer_.store_memory(builder, x);
  }

  void build_decoder(DecoderBuilder& builder) const override { writer_.build(builder); }

private:
  Eye eye_;
  Writer writer_;
};

Result<Eye> open_vit_eye(const Settings& settings) {
  PUMICE_TRY(VitConfig config, read_vit_config(settings));
  return Eye{config.encoder, [config](EncoderBuilder& to) { return build_vit(to, config, encoder_prefix); }};
}

Result<Eye> open_deit_eye(const Settings& settings) {
  PUMICE_TRY(VitConfig config, read_deit_config(settings));
  return Eye{config.encoder, [config](EncoderBuilder& to) { return build_vit(to, config, encoder_prefix); }};
}

Result<Eye> open_beit_eye(const Settings& settings) {
  PUMICE_TRY(BeitConfig config, read_beit_config(settings));
  return Eye{config.vit.encoder,
             [config](EncoderBuilder& to) { return build_beit(to, config, encoder_prefix); }};
}

Result<Eye> open_donut_eye(const Settings& settings) {
  PUMICE_TRY(DonutSwinConfig config, read_donut_swin_config(settings));
  return Eye{config.encoder,
             [config](EncoderBuilder& to) { return build_donut_swin(to, config, encoder_prefix); }};
}

Result<Writer> open_gpt2_writer(const Settings& settings, const EncoderConfig&) {
  PUMICE_TRY(Gpt2Config config, read_gpt2_config(settings));
  config.decoder.root = decoder_prefix;
  config.cross_attention = true;
  return Writer{config.decoder, false, [config](DecoderBuilder& to) { build_gpt2(to, config); },
                [config](EncoderBuilder& to, TensorId x) { store_gpt2_memory(to, config, x); }};
}

Result<Writer> trocr_writer(const Settings& settings, const EncoderConfig& encoder, TrOcrConfig config) {
  config.decoder.root = decoder_prefix;
  if (config.memory_columns > 0 && config.memory_columns != encoder.hidden) {
    return settings.error({"cross_attention_hidden_size", ""},
                          fmt::format("expected {}, the encoder's hidden_size; found {}", encoder.hidden,
                                      config.memory_columns));
  }
  return Writer{config.decoder, config.memory_columns > 0,
                [config](DecoderBuilder& to) { build_trocr(to, config); },
                [config](EncoderBuilder& to, TensorId x) { store_trocr_memory(to, config, x); }};
}

Result<Writer> open_trocr_writer(const Settings& settings, const EncoderConfig& encoder) {
  PUMICE_TRY(TrOcrConfig config, read_trocr_config(settings));
  return trocr_writer(settings, encoder, std::move(config));
}

Result<Writer> open_mbart_writer(const Settings& settings, const EncoderConfig& encoder) {
  PUMICE_TRY(TrOcrConfig config, read_mbart_writer_config(settings));
  return trocr_writer(settings, encoder, std::move(config));
}

// What may stand on a side, by model_type.
template <typename Open>
struct Kind {
  std::string_view model_type;
  Open open;
};

constexpr Kind<Result<Eye> (*)(const Settings&)> eyes[] = {
    {"beit", open_beit_eye}, {"deit", open_deit_eye}, {"donut-swin", open_donut_eye}, {"vit", open_vit_eye}};
constexpr Kind<Result<Writer> (*)(const Settings&, const EncoderConfig&)> writers[] = {
    {"gpt2", open_gpt2_writer}, {"mbart", open_mbart_writer}, {"trocr", open_trocr_writer}};

template <typename Open, size_t count>
Result<Open> open_of(const Fields& fields, const Kind<Open> (&kinds)[count]) {
  PUMICE_TRY(const std::string found, fields.string("model_type"));
  std::string known;
  for (const Kind<Open>& kind : kinds) {
    if (kind.model_type == found) return kind.open;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", kind.model_type);
  }
  return fields.error("model_type", fmt::format("expected one of {}; found '{}'", known, found));
}

OpenedDefinition open_vision_encoder_decoder(const ModelFile& file) {
  PUMICE_TRY(const Fields encoder, file.fields().object("encoder"));
  PUMICE_TRY(const Fields decoder, file.fields().object("decoder"));
  PUMICE_TRY(const auto open_eye, open_of(encoder, eyes));
  PUMICE_TRY(const auto open_writer, open_of(decoder, writers));
  PUMICE_TRY(Eye eye, open_eye(Settings(file, encoder)));
  PUMICE_TRY(Writer writer, open_writer(Settings(file, decoder), eye.config));
  return std::unique_ptr<ModelDefinition>(
      std::make_unique<VisionEncoderDecoder>(std::move(eye), std::move(writer), Settings(file).gguf()));
}

} // namespace

Architectures vision_encoder_decoder_models() {
  return {{"vision_encoder_decoder", {"vision-encoder-decoder"}, {}, open_vision_encoder_decoder}};
}

} // namespace pumice
