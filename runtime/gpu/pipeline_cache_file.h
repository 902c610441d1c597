#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

#include "gpu/capabilities.h"

namespace pumice {

// The driver's pipeline cache on disk. One file per device and driver build; its header repeats both and a
// hash of the contents, so that a stale, foreign or damaged file is ignored instead of being handed to the
// driver.

std::filesystem::path pipeline_cache_path(const std::filesystem::path& folder, const Capabilities& device);

// The contents, or nothing if there is no file or it does not fit this device and driver.
std::vector<std::byte> read_pipeline_cache(const std::filesystem::path& file, const Capabilities& device);

// Replaces the file in one step, so that a reader never sees half of it.
Status write_pipeline_cache(const std::filesystem::path& file, const Capabilities& device,
                            const std::vector<std::byte>& contents);

} // namespace pumice
