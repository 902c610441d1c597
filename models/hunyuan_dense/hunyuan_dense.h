#pragma once

#include "model/architecture.h"

namespace pumice {

Result<std::unique_ptr<ModelDefinition>> open_hunyuan_dense(const ModelFile& file);

} // namespace pumice
