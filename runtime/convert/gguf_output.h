#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "convert/conversion.h"
#include "convert/tensor_rows.h"
#include "io/formats/gguf_writer.h"
#include "model/gguf_tensor.h"

namespace pumice {

// A tensor that is written to a GGUF file.
struct OutputTensor {
  GgufTensor tensor;
  TensorType from = TensorType::f32; // in the file that is converted
  TensorType type = TensorType::f32;
  bool as_it_is = false; // its bytes are those of its one part, which has the same type
};

// Writes the settings that `add_settings` adds, and the tensors of `source`, in one file or in several
// (ConversionOptions::split_bytes), or only lists them (dry_run). `long_names`: for files that ggml does not
// read. Adds to `conversion` what was written. Error: invalid_argument if a part would replace one of the
// source's files.
Status write_gguf(const ModelFile& source, const std::filesystem::path& path,
                  const ConversionOptions& options, bool long_names,
                  const std::function<Status(GgufWriter&)>& add_settings,
                  const std::vector<OutputTensor>& tensors, const Progress& progress, Conversion& conversion);

} // namespace pumice
