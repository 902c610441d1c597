#pragma once

#include "io/formats/safetensors.h"
#include "io/output_file.h"

namespace pumice {

// As write_safetensors() does, but for the end: all is written, and the file's finish() then puts it in the
// place of the older one.
Status begin_safetensors(OutputFile& file, const std::filesystem::path& path,
                         std::span<const SafetensorsFile::Entry> entries);

} // namespace pumice
