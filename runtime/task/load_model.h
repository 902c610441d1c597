#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/model.h"
#include "tuning/short_check.h"

namespace pumice {

// What is done with kernels that are new to a device, while a model is loaded that needs them.
struct KernelTrials {
  // Before any weight is on the device, with the planned model: returns a profile to go on with, or nothing.
  // May be empty.
  std::function<Result<std::optional<DeviceProfile>>(const Model& planned)> measure_before;
  // How they are checked, once the weights are there, and who hears of it: see checked_model().
  ShortCheckOptions check;
  std::string how_to_go_on;
  std::function<void(const ShortCheck&)> checked;
  // After that: returns the profile for the model's sessions. May be empty.
  std::function<Result<DeviceProfile>(const std::shared_ptr<const Model>&)> measure;
};

// Puts a planned model on its device. `trials`: null for one whose kernels are used as they are.
Result<std::shared_ptr<const Model>> load_model(std::shared_ptr<const Model> planned,
                                                const Progress& progress, const KernelTrials* trials);

// What to say of settings that a model was loaded with and that it does not have: a sentence for each. Texts'
// settings may be read only later, so that their readers are asked here.
std::vector<std::string> unread_settings(const ModelFile& file);

} // namespace pumice
