#include "text/formats/huggingface_parts.h"

namespace pumice::text {

namespace {

using Read = Result<PreTokenizerPtr> (*)(const JsonField&);

Result<SplitBehavior> read_behavior(const JsonField& field) {
  constexpr std::pair<std::string_view, SplitBehavior> kBehaviors[] = {
      {"Removed", SplitBehavior::removed},
      {"Isolated", SplitBehavior::isolated},
      {"MergedWithPrevious", SplitBehavior::merged_with_previous},
      {"MergedWithNext", SplitBehavior::merged_with_next},
      {"Contiguous", SplitBehavior::contiguous},
  };
  PUMICE_TRY(std::string name, field.string());
  for (auto [known, behavior] : kBehaviors) {
    if (name == known) return behavior;
  }
  return field.unsupported("one of Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous");
}

Result<PreTokenizerPtr> read_byte_level(const JsonField& field) {
  PUMICE_TRY(bool add_prefix_space, field.boolean_or("add_prefix_space", true));
  PUMICE_TRY(bool use_regex, field.boolean_or("use_regex", true));
  std::optional<Regex> split;
  if (use_regex) {
    PUMICE_TRY(split, Regex::compile(kGpt2Pattern));
  }
  return make_byte_level(add_prefix_space, std::move(split));
}

Result<PreTokenizerPtr> read_split(const JsonField& field) {
  PUMICE_TRY(Pattern pattern, read_pattern(field.at("pattern")));
  PUMICE_TRY(SplitBehavior behavior, read_behavior(field.at("behavior")));
  PUMICE_TRY(bool invert, field.boolean_or("invert", false));
  if (pattern.regex) return make_split(*std::move(pattern.regex), behavior, invert);
  return make_split(std::move(pattern.string), behavior, invert);
}

Result<PreTokenizerPtr> read_delimiter_split(const JsonField& field) {
  PUMICE_TRY(std::string delimiter, read_character(field.at("delimiter"), ""));
  if (delimiter.empty()) return field.at("delimiter").expected("one character");
  return make_split(std::move(delimiter), SplitBehavior::removed, false);
}

Result<PreTokenizerPtr> read_metaspace(const JsonField& field) {
  PUMICE_TRY(std::string replacement, read_character(field.at("replacement"), "▁"));
  PUMICE_TRY(PrependScheme scheme, read_prepend_scheme(field));
  PUMICE_TRY(bool split, field.boolean_or("split", true));
  return make_metaspace(std::move(replacement), scheme, split);
}

Result<PreTokenizerPtr> read_digits(const JsonField& field) {
  PUMICE_TRY(bool individual, field.boolean_or("individual_digits", false));
  return make_digits(individual);
}

Result<PreTokenizerPtr> read_punctuation(const JsonField& field) {
  if (!field.has("behavior")) return make_punctuation(SplitBehavior::isolated);
  PUMICE_TRY(SplitBehavior behavior, read_behavior(field.at("behavior")));
  return make_punctuation(behavior);
}

Result<PreTokenizerPtr> read_sequence(const JsonField& field) {
  PUMICE_TRY(std::vector<JsonField> elements, field.at("pretokenizers").elements());
  std::vector<PreTokenizerPtr> steps;
  for (const JsonField& element : elements) {
    PUMICE_TRY(PreTokenizerPtr step, read_pre_tokenizer(element));
    if (step) steps.push_back(std::move(step));
  }
  return make_sequence(std::move(steps));
}

constexpr TypeRow<Read> kTypes[] = {
    {"ByteLevel", read_byte_level},
    {"Split", read_split},
    {"CharDelimiterSplit", read_delimiter_split},
    {"Metaspace", read_metaspace},
    {"Digits", read_digits},
    {"Punctuation", read_punctuation},
    {"Whitespace", [](const JsonField&) -> Result<PreTokenizerPtr> { return make_whitespace(); }},
    {"WhitespaceSplit", [](const JsonField&) -> Result<PreTokenizerPtr> { return make_whitespace_split(); }},
    {"BertPreTokenizer", [](const JsonField&) -> Result<PreTokenizerPtr> { return make_bert_split(); }},
    {"Sequence", read_sequence},
};

} // namespace

Result<PreTokenizerPtr> read_pre_tokenizer(const JsonField& field) {
  if (field.is_null()) return PreTokenizerPtr();
  PUMICE_TRY(Read read, find_type<Read>(field, kTypes));
  PUMICE_TRY(PreTokenizerPtr pre_tokenizer, read(field));
  PUMICE_CHECK(check_growth(field, pre_tokenizer->growth()));
  return pre_tokenizer;
}

} // namespace pumice::text
