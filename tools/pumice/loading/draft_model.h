#pragma once

#include "loading/open_device.h"

namespace pumice::command {

// Loads the model of --draft-model onto a device that is open; null where none is asked for.
Result<std::shared_ptr<const Model>> load_draft_model(const SizeOptions& size, const OpenedDevice& device);

} // namespace pumice::command
