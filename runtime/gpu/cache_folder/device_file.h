#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpu/capabilities.h"
#include "gpu/kernel_table.h"

namespace pumice {

// What was measured on a device, by name.
using TuningResults = std::map<std::string, std::string>;

// What is kept for a device between runs: one file for each device and driver build. The file names both, and
// has a hash of the kernels of the build that wrote it and a checksum. A stale, foreign or damaged file is
// ignored: its contents only save time.
struct DeviceFile {
  TuningResults tuning_results;
  std::vector<std::byte> pipelines; // the driver's pipeline cache
};

std::filesystem::path device_file_path(const std::filesystem::path& folder, const Capabilities& device);

// The contents, or nothing if there is no file or it does not fit this device, driver and build.
DeviceFile read_device_file(const std::filesystem::path& file, const Capabilities& device);

// Replaces the file in one step, so that a reader never sees half of it.
Status write_device_file(const std::filesystem::path& file, const Capabilities& device,
                         const DeviceFile& contents);

// The file as bytes, and back. `kernels`: all of a build.
std::vector<std::byte> pack_device_file(const Capabilities& device, const DeviceFile& contents,
                                        std::span<const KernelBinary> kernels = kernel_binaries());
std::optional<DeviceFile> parse_device_file(std::span<const std::byte> bytes, const Capabilities& device,
                                            std::span<const KernelBinary> kernels = kernel_binaries());

// Whether packed bytes are of this device and driver, of whatever build of the kernels.
bool is_of_device(std::span<const std::byte> bytes, const Capabilities& device);

} // namespace pumice
