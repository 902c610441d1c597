#pragma once

#include <string>
#include <vector>

#include "io/gguf_writer.h"
#include "io/model_file.h"

namespace pumice {

// Writes the tokenizer.* keys of a Hugging Face folder: the vocabulary of its tokenizer.json, the chat
// templates and the tokens with a role that the files beside it name. `rows` is the number of tokens the
// model has. Without a tokenizer.json, or where it is not wanted, the file says that it has none. What is
// lost on the way is put into `notes`.
Status add_vocabulary(const ModelFile& file, uint32_t rows, bool wanted, GgufWriter& writer,
                      std::vector<std::string>& notes);

} // namespace pumice
