#pragma once

#include <deque>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/formats/safetensors.h"

namespace pumice {

// A file of torch.save() with a dictionary of tensors: pytorch_model.bin, *.pt, *.pth. Of both forms: a zip
// archive, and what versions before 1.6 wrote.
struct TorchFile {
  // In the file's order, with safetensors' names of types.
  std::vector<SafetensorsFile::Entry> entries;
  // Of tensors whose elements do not lie side by side in the file, such as transposed ones.
  std::deque<std::vector<std::byte>> copies;

  static bool begins(std::span<const std::byte> bytes); // whether a file is of this kind
  // The entries are views of `bytes` and of `copies`. Nothing that the file names is run. Errors:
  // invalid_file; unsupported, for anything but tensors.
  static Result<TorchFile> parse(std::span<const std::byte> bytes, const std::string& file);
};

} // namespace pumice
