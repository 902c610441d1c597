#pragma once

#include "model/architecture.h"

namespace pumice {

Result<std::unique_ptr<ModelDefinition>> open_pegasus(const ModelFile& file);

} // namespace pumice
