#pragma once

#include "options/options.h"
#include "task/fitting.h"

namespace pumice::command {

// What --fit may choose.
SizeWish size_wish(const SizeOptions& options, const ModelShape& shape);

// The options with what --fit chooses. Prints a note where that is not what would be used without it. Error
// if not even the weights fit.
Result<SizeOptions> fitting_size(const SizeOptions& options, const Model& planned);

// The options with the chunk that the device has by default, where none was chosen and there is room for it.
Result<SizeOptions> default_size(const SizeOptions& options, const Model& planned);

// Adds --fit as a remedy to an error of too little memory, where it was not tried.
Error with_fit_advice(Error error, const SizeOptions& options);

} // namespace pumice::command
