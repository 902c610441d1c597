#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpu/cache_folder/device_file.h"

namespace pumice {

// Tuning results of any number of devices, in a file that an application ships: packed device files without
// pipelines, one after the other.
class TuningFile {
public:
  TuningFile() = default; // of no device
  // Errors: invalid_file, with `name`.
  static Result<TuningFile> parse(std::span<const std::byte> bytes, const std::string& name);
  // Errors: not_found, io, invalid_file.
  static Result<TuningFile> read(const std::filesystem::path& path);
  // For a file that will be written: what is in it; nothing if it is not there, is empty or is a device.
  // Error invalid_file if it holds something else.
  static Result<TuningFile> read_before_writing(const std::filesystem::path& path);

  size_t devices() const { return entries_.size(); }
  // Those of a device with its driver and the kernels of this build; nothing if there are none.
  std::optional<TuningResults> find(const Capabilities& device,
                                    std::span<const KernelBinary> kernels = kernel_binaries()) const;
  // Replaces those of the device and driver.
  void set(const Capabilities& device, const TuningResults& results,
           std::span<const KernelBinary> kernels = kernel_binaries());

  std::vector<std::byte> bytes() const;

private:
  std::vector<std::vector<std::byte>> entries_;
};

// Writes a device's results to a file, beside those of other devices that are in it. Errors: as
// TuningFile::read_before_writing() and OutputFile.
Status add_to_tuning_file(const std::filesystem::path& path, const Capabilities& device,
                          const TuningResults& results);

} // namespace pumice
