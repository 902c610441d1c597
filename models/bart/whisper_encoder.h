#pragma once

#include "models/encoder/builder.h"

// The encoder of Whisper, which decoders that hear have too.
namespace pumice {

// What an input of so many positions is: a log-mel spectrum of twice as many frames. An error if the config
// has too many positions.
Status set_whisper_input(const Settings& settings, const SettingName& positions, EncoderConfig& config);

// All of it but its last norm. `prefix`: of Hugging Face's tensor names, which stays the builder's.
TensorId run_whisper_encoder(EncoderBuilder& builder, const std::string& prefix);
// The last norm, of these rows or of what was made of them.
TensorId whisper_encoder_norm(EncoderBuilder& builder, TensorId x);

} // namespace pumice
