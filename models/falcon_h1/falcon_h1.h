#pragma once

#include "model/architecture.h"

namespace pumice {

Result<std::unique_ptr<ModelDefinition>> open_falcon_h1(const ModelFile& file);

} // namespace pumice
