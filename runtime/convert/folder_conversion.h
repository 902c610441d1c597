#pragma once

#include <string>

#include "convert/conversion.h"

namespace pumice {

// A GGUF file of Pumice's own, for models that llama.cpp has no form for, or none for what belongs to them,
// such as their tokenizer: it holds a Hugging Face folder.
// general.architecture is config.json's model_type; pumice.files is the version of this form, 1; and
// pumice.file.NAME has the bytes of the small file NAME, an array of u8. The tensors have Hugging Face's
// names and shapes; a single number is a vector of one. ModelFile reads it as if it were the folder.

// Whether a model that has no form of llama.cpp is written so: encoders, models of an encoder and a decoder,
// and decoders whose architecture llama.cpp does not know.
bool fits_as_folder(const ModelFile& file, const ModelDefinition& definition);

// What llama.cpp's form would leave out of such a model, so that other vectors or no texts would come of it;
// empty if nothing. `vocabulary`: whether that is wanted. A tokenizer.json is not looked into.
std::string needs_folder(const ModelFile& file, bool vocabulary);

// Writes the file. Matrices that kernels read in any type have the type that was asked for; convolutions and
// matrices that are stored transposed are F16 (F32 with F32), and all else, such as norms, biases and
// position tables, is F32. A note says `why` the file has this form.
Result<Conversion> convert_folder(const ModelFile& file, const ModelDefinition& definition,
                                  const std::filesystem::path& path, const ConversionOptions& options,
                                  const Progress& progress, const std::string& why);

} // namespace pumice
