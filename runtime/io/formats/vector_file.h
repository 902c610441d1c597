#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "io/output_file.h"

namespace pumice {

// Writes vectors of one size to a file as they come, so that any number takes constant memory. The end of the
// name says the form: .npy (NumPy's), .jsonl (a JSON list on each line), otherwise safetensors with the
// tensor "embeddings" [vectors, columns].
class VectorFile {
public:
  Status open(const std::filesystem::path& path, uint32_t columns);
  Status write(const std::vector<float>& values);
  // In the place of a vector that there is not: NaN for each number, and `null` in a .jsonl file.
  Status write_missing();
  Status finish();
  // All that finish() writes, into the new file; the older one stays until then.
  Status flush();
  // Where not all came: what did goes to a file of another name, which is returned, so that the older file
  // stays; to the same pipe or device. Empty: nothing did.
  Result<std::filesystem::path> finish_partial();

private:
  enum class Form { safetensors, npy, lines };
  std::string header() const; // always of the same size

  std::filesystem::path path_;
  OutputFile file_;
  Form form_ = Form::safetensors;
  uint32_t columns_ = 0;
  uint64_t count_ = 0;
  std::vector<float> kept_; // where the file cannot be written out of order, such as a pipe
};

} // namespace pumice
