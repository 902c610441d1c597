#pragma once

#include <string>
#include <vector>

#include "model/architecture.h"

// Which subcommands can use a model, and errors for those that cannot.
namespace pumice {

// "MODEL is an encoder: REASON; use pumice embed": the subcommands that it was made for.
Error wrong_kind(const ModelFile& file, const std::string& reason);
// The same, with what the model does as the reason.
Error wrong_subcommand(const ModelFile& file);
// "MODEL is an encoder: REASON", of an option that does not fit such a model.
Error wrong_kind(const std::string& model, const ModelShape& shape, const std::string& reason);

// Error unless the model has a decoder.
Status check_makes_text(const ModelFile& file, const ModelShape& shape);
// Error unless the model is a decoder without an encoder.
Status check_continues_text(const ModelFile& file, const ModelShape& shape);

// The subcommands that can use the model: what their plans say of it, without a device. Of a decoder's, those
// that it was made for: every decoder has vectors and can be asked yes or no. Empty without weights.
std::vector<std::string> subcommands_for(const ModelFile& file, const ModelDefinition& definition);

} // namespace pumice
