#pragma once

#include <string>
#include <vector>

#include "loading/open_device.h"
#include "options/options.h"

// What fits the memory that is free on a device.
namespace pumice::command {

// The longest context with keys and values of a type.
struct FittingContext {
  std::string kv;       // "f16"
  uint32_t context = 0; // tokens; 0: none fits
};

// For each type of keys and values, the widest first. `model` is planned, not loaded.
Result<std::vector<FittingContext>> fitting_contexts(const Model& model, const SizeOptions& options);

// What --fit chooses.
struct FittingSize {
  std::string kv;
  uint32_t chunk = 0;
  uint32_t context = 0; // 0: none fits
};

// The longest chunk, then the widest type of keys and values, that leave room for the context that is wanted,
// or the longest context that fits. What was given as an option stays. `model` is planned, not loaded.
Result<FittingSize> fitting_size(const Model& model, const SizeOptions& options);

// With --fit, `options` with what it chooses. Prints a note where that is not what would be used without
// --fit. Without --fit `options` as they are. Error if not even the weights fit.
Result<SizeOptions> fitting_size(const SizeOptions& options, const std::string& path,
                                 const OpenedDevice& device);

// Adds --fit as a remedy to an error of too little memory, where it was not tried.
Error with_fit_advice(Error error, const SizeOptions& options);

} // namespace pumice::command
