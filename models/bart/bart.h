#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "kernel/position/sinusoid.h"
#include "models/decoder/config.h"
#include "models/encoder/config.h"
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

// The tensor names of a side's layers. `side` is "encoder" or "decoder".
LayerNames bart_layer_names(const std::string& prefix, std::string_view side);

} // namespace pumice
