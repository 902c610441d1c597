#pragma once

#include <string>
#include <vector>

#include "io/formats/gguf_writer.h"
#include "io/model_file.h"

namespace pumice {

// Adds the tokenizer.* keys of a Hugging Face folder: the vocabulary of its tokenizer.json, the chat
// templates, and the ids of special tokens that other files of the folder name. `rows` is the number of
// tokens that the model has. Without a tokenizer.json, or if `wanted` is false, the keys say that there is no
// vocabulary. Sentences about what GGUF cannot express are added to `notes`.
Status add_vocabulary(const ModelFile& file, uint32_t rows, bool wanted, GgufWriter& writer,
                      std::vector<std::string>& notes);

} // namespace pumice
