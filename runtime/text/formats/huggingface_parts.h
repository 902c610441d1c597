#pragma once

#include <span>

#include <fmt/format.h>

#include "text/formats/json_document.h"
#include "text/formats/json_field.h"
#include "text/formats/read_tokenizer.h"

// Each section of a tokenizer.json has a reader, and each of those a table: the "type" the file gives → the
// function that reads the rest. To support one more type is to write its file and add its line.
namespace pumice::text {

template <class Function>
struct TypeRow {
  std::string_view type;
  Function read;
};

// Finds the row for field.type, or says which types there are.
template <class Function>
Result<Function> find_type(const JsonField& field, std::span<const TypeRow<Function>> table) {
  PUMICE_CHECK(field.object());
  PUMICE_TRY(std::string type, field.at("type").string());
  std::string known;
  for (const TypeRow<Function>& row : table) {
    if (row.type == type) return row.read;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", row.type);
  }
  return field.at("type").unsupported("one of " + known);
}

// A "pattern": {"String": ...} or {"Regex": ...}.
struct Pattern {
  std::string string;
  std::optional<Regex> regex;
};
Result<Pattern> read_pattern(const JsonField& field);

// A field that gives one character; `fallback` where it is absent.
Result<std::string> read_character(const JsonField& field, std::string fallback);
Result<PrependScheme> read_prepend_scheme(const JsonField& metaspace);

// An error if a row of steps could make a text very much longer.
Status check_growth(const JsonField& field, double growth);

Result<NormalizerPtr> read_normalizer(const JsonField& field);         // a null field gives a null pointer
Result<PreTokenizerPtr> read_pre_tokenizer(const JsonField& field);    // likewise
Result<std::vector<DecoderPtr>> read_decoders(const JsonField& field); // a null field: a space between tokens
Result<PostProcessor> read_post_processor(const JsonField& field, const Vocabulary& vocabulary);

// Fills parts.vocabulary and parts.model.
Status read_model(JsonDocument& document, const JsonField& field, TokenizerParts& parts);
Result<ModelPtr> read_bpe(const JsonDocument& document, const JsonField& field, const Vocabulary& vocabulary);
Result<ModelPtr> read_wordpiece(const JsonDocument& document, const JsonField& field,
                                const Vocabulary& vocabulary);
Result<ModelPtr> read_unigram(const JsonDocument& document, const JsonField& field,
                              const Vocabulary& vocabulary);

// A whole tokenizer.json, or what stands for one.
Result<std::unique_ptr<TokenizerParts>> read_document(JsonDocument document, const std::string& file);

} // namespace pumice::text
