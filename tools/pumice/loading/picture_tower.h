#pragma once

#include <string>

#include "loading/open_device.h"
#include "model/mmproj.h"
#include "step/picture_rows.h"

namespace pumice::command {

void add_mmproj_option(CLI::App& sub, std::string& mmproj, const std::string& group);

// As pumice::open_with_mmproj(), with a note about a file that nobody has named.
Result<ModelFile> open_with_mmproj(const std::string& model, const std::string& mmproj);

// Loads a decoder's tower of pictures, or of sounds, from this file or folder, see tower_path().
Result<std::shared_ptr<const Model>> load_tower(const std::string& path, const OpenedDevice& device,
                                                LoadOptions load);
Result<PictureRows> load_picture_tower(const std::string& path, const PictureTokens& shape,
                                       const OpenedDevice& device, const LoadOptions& load);

} // namespace pumice::command
