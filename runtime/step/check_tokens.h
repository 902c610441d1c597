#pragma once

#include <span>

#include "model/model.h"

namespace pumice {

// An error that names the model's file if a token is not below `vocabulary`.
Status check_tokens(const Model& model, std::span<const uint32_t> tokens, uint32_t vocabulary);

} // namespace pumice
