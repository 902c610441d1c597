#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "kernel/position/sinusoid.h"
#include "models/decoder/config.h"
#include "models/encoder/config.h"
#include "models/encoder_decoder/model.h"
#include "models/settings.h"
#include "models/stack/builder.h"

namespace pumice {

// The settings of BART's encoder and decoder.
struct BartConfig {
  EncoderConfig encoder;
  DecoderConfig decoder;
};

struct BartConfigNames {
  SettingName encoder_vocabulary = {"vocab_size", ""}; // empty: the encoder reads no tokens
  SettingName decoder_vocabulary = {"vocab_size", ""};
  SettingName encoder_context = {"max_position_embeddings", ""};
  SettingName decoder_context = {"max_position_embeddings", ""};
  uint32_t default_context = 1024;
  Activation default_activation = Activation::gelu;
};

Result<BartConfig> read_bart_config(const Settings& settings, const BartConfigNames& names);

// Its tables of positions begin with this many unused rows.
inline constexpr uint32_t bart_position_offset = 2;

// The prefix of tensor names: "model.", or nothing if the file has no heads.
std::string bart_prefix(const ModelFile& file);

struct BartSettings {
  std::string prefix;                       // of Hugging Face's tensor names
  std::string encoder_table, decoder_table; // tables of tokens; usually the same
  std::optional<Sinusoids> sinusoids;       // instead of learned positions
  bool norm_first = false;
  bool final_norm = false;
  bool logits_bias = false;
  bool scaled_embedding = false;
};

struct BartModel {
  BartConfig config;
  BartSettings own;
};

// What BART itself says of its config, which may be a part of the file's.
Result<BartModel> read_bart_model(const Settings& settings);

// BART (Lewis et al. 2019): the Transformer of 2017 with learned positions and a norm of the embeddings.
class Bart : public EncoderDecoderModel {
public:
  Bart(BartModel model, bool gguf)
      : EncoderDecoderModel(std::move(model.config.encoder), std::move(model.config.decoder), gguf),
        own_(std::move(model.own)) {}

protected:
  // The encoder's rows, before positions are added, where they are more than the embeddings of its tokens.
  virtual TensorId encoder_rows(EncoderBuilder&, TensorId embeddings) const { return embeddings; }
  void build_encoder(EncoderBuilder& builder) const override;
  void build_decoder(DecoderBuilder& builder) const override;

private:
  LayerNames layer_names(std::string_view side) const;
  TensorId embed(StackBuilder& builder, const std::string& table) const;
  TensorId with_positions(StackBuilder& builder, TensorId x, const std::string& side) const;
  TensorId final_norm(StackBuilder& builder, TensorId x, const std::string& side) const;

  BartSettings own_;
};

// The tensor names of a side's layers. `side` is "encoder" or "decoder".
LayerNames bart_layer_names(const std::string& prefix, std::string_view side);

} // namespace pumice
