#pragma once

#include "model/architecture.h"

namespace pumice {

Result<std::unique_ptr<ModelDefinition>> open_minimax_m2(const ModelFile& file);

} // namespace pumice
