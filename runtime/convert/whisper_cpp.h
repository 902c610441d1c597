#pragma once

#include "convert/conversion.h"

namespace pumice {

// Writes a Whisper model as a file of whisper.cpp (ggml-*.bin), which has all matrices in one type. Its
// vocabulary is spelled in bytes, and its settings are those that all of Whisper's models have: what a folder
// says of suppressed tokens and of alignment heads is left out. Errors: unsupported, for other models, for
// vocabularies that are not Whisper's, and for rows that the type's blocks do not fill.
Result<Conversion> convert_to_whisper_cpp(const ModelFile& file, const ModelDefinition& definition,
                                          const std::filesystem::path& path, const ConversionOptions& options,
                                          const Progress& progress);

} // namespace pumice
