#pragma once

#include "model/architecture.h"

namespace pumice {

Result<std::unique_ptr<ModelDefinition>> open_smolvlm(const ModelFile& file);
Result<std::unique_ptr<ModelDefinition>> open_smolvlm_pictures(const ModelFile& file);

} // namespace pumice
