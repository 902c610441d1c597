#pragma once

#include "base/result.h"

namespace pumice {

class ModelFile;

// The error for what needs weights, of a model without any. Code: not_found.
Error no_weights(const ModelFile& file);

} // namespace pumice
