#pragma once

#include <span>
#include <string>

#include "model/model.h"

namespace pumice {

// An error that names the model's file if a token is not below `vocabulary`.
Status check_tokens(const Model& model, std::span<const uint32_t> tokens, uint32_t vocabulary);

// Errors that name the source of the ids. check_ids() checks that there is at least one and that all are in
// the vocabulary; check_ids_below() checks only the vocabulary.
Status check_ids(std::span<const uint32_t> ids, uint32_t vocabulary, const std::string& source);
Status check_ids_below(std::span<const uint32_t> ids, uint32_t vocabulary, const std::string& source);

} // namespace pumice
