#pragma once

#include "model/architecture.h"

namespace pumice {

Result<std::unique_ptr<ModelDefinition>> open_dinov2(const ModelFile& file);

} // namespace pumice
