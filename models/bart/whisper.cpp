#include <cmath>

#include "models/bart/bart.h"
#include "models/bart/whisper_encoder.h"
#include "models/encoder_decoder/model.h"
#include "models/registry.h"

namespace pumice {

namespace {

// Whisper (Radford et al. 2022): a pre-norm Transformer. Two convolutions turn the log-mel spectrum into the
// encoder's input and halve the number of frames.
class Whisper : public EncoderDecoderModel {
public:
  Whisper(BartConfig config, bool gguf, std::string prefix, bool scaled_embedding)
      : EncoderDecoderModel(std::move(config.encoder), std::move(config.decoder), gguf),
        prefix_(std::move(prefix)), scaled_embedding_(scaled_embedding) {}

protected:
  void build_encoder(EncoderBuilder& builder) const override {
    const TensorId x = whisper_encoder_norm(builder, run_whisper_encoder(builder, prefix_ + "encoder."));
    builder.finish(x);
    builder.store_memory(x, decoder_layers());
  }

  void build_decoder(DecoderBuilder& builder) const override {
    const std::string side = prefix_ + "decoder.";
    const float scale = scaled_embedding_ ? std::sqrt(static_cast<float>(decoder().hidden)) : 1.0f;
    builder.prefix(side, "");
    TensorId x = builder.embed({"embed_tokens", ""}, scale);
    x = builder.learned_positions(x, {"embed_positions", ""});
    x = builder.run_layers(x, decoder_layers());
    builder.prefix(side, "");
    x = builder.layer_norm(x, {"layer_norm", ""});
    builder.hidden_state(x);
    builder.finish(x, {"proj_out", ""});
  }

private:
  LayerNames decoder_layers() const {
    LayerNames names = bart_layer_names(prefix_, "decoder");
    names.norm_first = true;
    names.attention.key_bias = names.cross_attention->key_bias = false;
    return names;
  }

  std::string prefix_; // of Hugging Face's tensor names
  bool scaled_embedding_;
};

OpenedDefinition open_whisper(const ModelFile& file) {
  const Settings settings(file);
  BartConfigNames names;
  names.encoder_vocabulary = {};
  names.encoder_context = {"max_source_positions", ""};
  names.decoder_context = {"max_target_positions", ""};
  PUMICE_TRY(BartConfig config, read_bart_config(settings, names));
  if (!settings.has(names.encoder_context)) config.encoder.context = 1500;
  if (!settings.has(names.decoder_context)) config.decoder.context = 448;
  PUMICE_CHECK(set_whisper_input(settings, names.encoder_context, config.encoder));
  PUMICE_TRY(bool scaled, settings.boolean_or({"scale_embedding", ""}, false));
  return std::unique_ptr<ModelDefinition>(
      std::make_unique<Whisper>(std::move(config), settings.gguf(), bart_prefix(file), scaled));
}

} // namespace

Architectures whisper_models() {
  return {{"whisper", {"whisper"}, {}, open_whisper}};
}

} // namespace pumice
