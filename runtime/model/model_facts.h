#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/model_file.h"

namespace pumice {

struct TokenizerFacts {
  std::string kind; // "byte-level BPE"
  uint32_t tokens = 0;
};

// What a model's files say of themselves.
struct ModelFacts {
  std::string quantisation; // "Q8_0 with F32, 8.52 bits per weight"; empty without weights
  std::string no_weights;   // why there are none
  std::optional<TokenizerFacts> tokenizer;
  std::string no_tokenizer; // why it is missing
  bool chat_template = false;
  // What the metadata says: "name", "licence", "source", "author"; without those that it does not name.
  std::vector<std::pair<std::string, std::string>> metadata;
};

bool has_chat_template(const ModelFile& file);
ModelFacts read_model_facts(const ModelFile& file);

} // namespace pumice
