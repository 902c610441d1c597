#pragma once

#include <string>
#include <vector>

#include "model/architecture.h"

// Which subcommands can use a model, and errors for those that cannot.
namespace pumice {

// "MODEL is an encoder: REASON".
Error wrong_kind(const std::string& model, const ModelShape& shape, const std::string& reason);
// The same, with the subcommand that can use the model as the reason.
Error wrong_subcommand(const std::string& model, const ModelShape& shape);

// Error unless the model has a decoder.
Status check_makes_text(const std::string& model, const ModelShape& shape);
// Error unless the model is a decoder without an encoder.
Status check_continues_text(const std::string& model, const ModelShape& shape);

// The subcommands that can use the model: what their plans say of it, without a device. Of a decoder's, those
// that it was made for: every decoder has vectors and can be asked yes or no. Empty without weights.
std::vector<std::string> subcommands_for(const ModelFile& file, const ModelDefinition& definition);

} // namespace pumice
