#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "text/bpe.h"
#include "text/vocabulary.h"

namespace pumice::text {

// A parsed tokenizer.json. model.vocab and model.merges make up nearly all of it, so they are stored in
// compact form while the file is parsed; the rest is a JSON tree.
struct JsonDocument {
  nlohmann::json tree; // without model.vocab and model.merges

  enum class Shape { absent, map, list }; // {"token": id, ...} or [["token", score], ...]
  Shape vocabulary_shape = Shape::absent;
  Vocabulary::Builder vocabulary;
  std::vector<double> scores; // for a list, whose ids count from 0
  bool has_merges = false;
  Merges merges;
};

Result<JsonDocument> parse_document(std::string_view json, const std::string& file);

} // namespace pumice::text
