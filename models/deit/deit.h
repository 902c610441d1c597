#pragma once

#include "models/vit/vit.h"

namespace pumice {

Result<VitConfig> read_deit_config(const Settings& settings);

Result<std::unique_ptr<ModelDefinition>> open_deit(const ModelFile& file);

} // namespace pumice
