#pragma once

#include <filesystem>
#include <memory>

#include "kernel/device_context.h"
#include "model/model.h"
#include "options.h"
#include "tuning/tune_model.h"

namespace pumice::command {

// A device that a subcommand works on, and the folder that its compiled pipelines are kept in.
struct OpenedDevice {
  DeviceContext context;
  std::filesystem::path cache; // empty for none
  bool cache_was_asked_for = false;
  bool tunes = false; // measures at first use what is not known yet

  const Capabilities& capabilities() const { return context.device->capabilities(); }
  std::string name() const { return capabilities().name; }
  std::string driver() const; // with its version
  // Keeps what was compiled. A folder that was asked for and cannot be written is an error; the default one a
  // note.
  Status save_pipelines() const;
};

Result<std::shared_ptr<Instance>> create_instance(const DeviceOptions& options);
// Says on standard error if only a CPU device was found.
Result<OpenedDevice> open_device(const DeviceOptions& options);

// Uploads a model's weights, with a bar, and measures for about a second what its sessions could choose
// between and nobody has measured yet.
Result<std::shared_ptr<const Model>> load_model(ModelFile file, const OpenedDevice& device,
                                                const LoadOptions& options);

// Keeps what was measured, names what was refused, and gives the profile that follows from it.
DeviceProfile apply_tuning(const Tuning& tuning, const OpenedDevice& device);

// What the validation layers have said so far.
uint64_t validation_messages();

} // namespace pumice::command
