#pragma once

#include "model/architecture.h"

namespace pumice {

Result<std::unique_ptr<ModelDefinition>> open_siglip(const ModelFile& file);
Result<std::unique_ptr<ModelDefinition>> open_siglip_pictures(const ModelFile& file);

} // namespace pumice
