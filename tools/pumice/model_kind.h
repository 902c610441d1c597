#pragma once

#include <string>

#include "model/architecture.h"

// What to say of a model that a subcommand cannot use.
namespace pumice::command {

// "MODEL is an encoder: REASON".
Error wrong_kind(const std::string& model, const ModelShape& shape, const std::string& reason);
// The same, with the subcommand that can use it.
Error wrong_subcommand(const std::string& model, const ModelShape& shape);

// That a model has a decoder, and that it has nothing else.
Status check_makes_text(const std::string& model, const ModelShape& shape);
Status check_continues_text(const std::string& model, const ModelShape& shape);

} // namespace pumice::command
