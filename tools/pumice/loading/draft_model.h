#pragma once

#include "loading/open_device.h"

namespace pumice::command {

// Loads the model of --draft-model onto a device that is open, or with `own` the prediction layer of the
// model whose tokens are guessed at; null where none is asked for.
Result<std::shared_ptr<const Model>> load_draft_model(const SizeOptions& size, const OpenedDevice& device,
                                                      const Model& model);

} // namespace pumice::command
