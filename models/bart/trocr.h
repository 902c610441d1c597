#pragma once

#include <optional>

#include "kernel/position/sinusoid.h"
#include "models/decoder/builder.h"
#include "models/encoder/builder.h"

namespace pumice {

// The settings of TrOCR's decoder, which stands behind an encoder of pictures.
struct TrOcrConfig {
  DecoderConfig decoder;
  uint32_t memory_columns = 0;        // of the encoder's rows that it attends to; 0: as many as its own
  std::optional<Sinusoids> sinusoids; // instead of learned positions
  bool embedding_norm = true;
  float embedding_scale = 1;
  bool norm_first = false; // norms before sublayers, and one after the last layer
  std::string_view head = "output_projection";
};

Result<TrOcrConfig> read_trocr_config(const Settings& settings);
// Of mBART's decoder alone, which is the same but for its norms and the head's name.
Result<TrOcrConfig> read_mbart_writer_config(const Settings& settings);

void build_trocr(DecoderBuilder& builder, const TrOcrConfig& config);
// Stores the keys and values of its cross-attention, computed from the encoder's result x.
void store_trocr_memory(EncoderBuilder& builder, const TrOcrConfig& config, TensorId x);

} // namespace pumice
