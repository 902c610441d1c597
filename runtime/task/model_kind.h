#pragma once

#include <string>

#include "model/architecture.h"

// Errors for a model that a subcommand cannot use.
namespace pumice {

// "MODEL is an encoder: REASON".
Error wrong_kind(const std::string& model, const ModelShape& shape, const std::string& reason);
// The same, with the subcommand that can use the model as the reason.
Error wrong_subcommand(const std::string& model, const ModelShape& shape);

// Error unless the model has a decoder.
Status check_makes_text(const std::string& model, const ModelShape& shape);
// Error unless the model is a decoder without an encoder.
Status check_continues_text(const std::string& model, const ModelShape& shape);

} // namespace pumice
