#pragma once

#include <span>

#include <fmt/format.h>

#include "text/formats/json_document.h"
#include "text/formats/json_field.h"
#include "text/formats/read_tokenizer.h"

// Each section of a tokenizer.json has a reader with a table that maps the section's "type" to the function
// that reads the rest. To support another type, write its function and add it to the table.
namespace pumice::text {

template <class Function>
struct TypeRow {
  std::string_view type;
  Function read;
};

// Finds the row for field.type. The error lists the supported types.
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

// A field that holds one character; `fallback` if it is absent.
Result<std::string> read_character(const JsonField& field, std::string fallback);
Result<PrependScheme> read_prepend_scheme(const JsonField& metaspace);

// An error if a sequence of steps could make a text more than kMaxGrowth times longer.
Status check_growth(const JsonField& field, double growth);

Result<NormalizerPtr> read_normalizer(const JsonField& field);         // null field: null pointer
Result<PreTokenizerPtr> read_pre_tokenizer(const JsonField& field);    // null field: null pointer
Result<std::vector<DecoderPtr>> read_decoders(const JsonField& field); // null field: a space between tokens
Result<PostProcessor> read_post_processor(const JsonField& field, const Vocabulary& vocabulary);

// Fills parts.vocabulary and parts.model.
Status read_model(JsonDocument& document, const JsonField& field, TokenizerParts& parts);
Result<ModelPtr> read_bpe(const JsonDocument& document, const JsonField& field, const Vocabulary& vocabulary);
Result<ModelPtr> read_wordpiece(const JsonDocument& document, const JsonField& field,
                                const Vocabulary& vocabulary);
Result<ModelPtr> read_unigram(const JsonDocument& document, const JsonField& field,
                              const Vocabulary& vocabulary);

// A whole tokenizer.json, or a document that was made from other files.
Result<std::unique_ptr<TokenizerParts>> read_document(JsonDocument document, const std::string& file);

} // namespace pumice::text
