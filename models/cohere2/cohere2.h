#pragma once

#include "model/architecture.h"

namespace pumice {

Result<std::unique_ptr<ModelDefinition>> open_cohere2(const ModelFile& file);

} // namespace pumice
