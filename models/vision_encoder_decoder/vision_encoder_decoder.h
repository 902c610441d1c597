#pragma once

#include "model/architecture.h"

namespace pumice {

Result<std::unique_ptr<ModelDefinition>> open_vision_encoder_decoder(const ModelFile& file);

} // namespace pumice
