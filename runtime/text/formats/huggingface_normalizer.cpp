#include "text/formats/base64.h"
#include "text/formats/huggingface_parts.h"
#include "text/unicode/character_map.h"

namespace pumice::text {

namespace {

using Read = Result<NormalizerPtr> (*)(const JsonField&);

Result<NormalizerPtr> read_replace(const JsonField& field) {
  PUMICE_TRY(Pattern pattern, read_pattern(field.at("pattern")));
  PUMICE_TRY(std::string content, field.at("content").string());
  if (pattern.regex) return make_replace(*std::move(pattern.regex), std::move(content));
  return make_replace(std::move(pattern.string), std::move(content));
}

Result<NormalizerPtr> read_strip(const JsonField& field) {
  PUMICE_TRY(bool left, field.boolean_or("strip_left", true));
  PUMICE_TRY(bool right, field.boolean_or("strip_right", true));
  return make_strip(left, right);
}

Result<NormalizerPtr> read_prepend(const JsonField& field) {
  PUMICE_TRY(std::string prefix, field.at("prepend").string());
  return make_prepend(std::move(prefix));
}

Result<NormalizerPtr> read_sequence(const JsonField& field) {
  PUMICE_TRY(std::vector<JsonField> elements, field.at("normalizers").elements());
  std::vector<NormalizerPtr> steps;
  for (const JsonField& element : elements) {
    PUMICE_TRY(NormalizerPtr step, read_normalizer(element));
    if (step) steps.push_back(std::move(step));
  }
  return make_sequence(std::move(steps));
}

Result<NormalizerPtr> read_precompiled(const JsonField& field) {
  const JsonField base64 = field.at("precompiled_charsmap");
  PUMICE_TRY(std::string text, base64.string());
  const std::optional<std::string> bytes = decode_base64(text);
  if (!bytes) return base64.expected("base64");
  PUMICE_TRY(CharacterMap map, CharacterMap::parse(*bytes, base64.where()));
  return make_grapheme_map(std::move(map));
}

Result<NormalizerPtr> read_bert(const JsonField& field) {
  BertNormalizerOptions options;
  PUMICE_TRY(options.clean_text, field.boolean_or("clean_text", true));
  PUMICE_TRY(options.space_chinese, field.boolean_or("handle_chinese_chars", true));
  PUMICE_TRY(options.lowercase, field.boolean_or("lowercase", true));
  PUMICE_TRY(options.strip_accents, field.boolean_or("strip_accents", options.lowercase));
  return make_bert_normalizer(options);
}

constexpr TypeRow<Read> kTypes[] = {
    {"NFC", [](const JsonField&) -> Result<NormalizerPtr> { return make_unicode_form(UnicodeForm::nfc); }},
    {"NFD", [](const JsonField&) -> Result<NormalizerPtr> { return make_unicode_form(UnicodeForm::nfd); }},
    {"NFKC", [](const JsonField&) -> Result<NormalizerPtr> { return make_unicode_form(UnicodeForm::nfkc); }},
    {"NFKD", [](const JsonField&) -> Result<NormalizerPtr> { return make_unicode_form(UnicodeForm::nfkd); }},
    {"Lowercase", [](const JsonField&) -> Result<NormalizerPtr> { return make_lowercase(); }},
    {"StripAccents", [](const JsonField&) -> Result<NormalizerPtr> { return make_strip_accents(); }},
    {"ByteLevel", [](const JsonField&) -> Result<NormalizerPtr> { return make_byte_level_normalizer(); }},
    {"Nmt", [](const JsonField&) -> Result<NormalizerPtr> { return make_nmt(); }},
    {"BertNormalizer", read_bert},
    {"Strip", read_strip},
    {"Prepend", read_prepend},
    {"Replace", read_replace},
    {"Sequence", read_sequence},
    {"Precompiled", read_precompiled},
};

} // namespace

Result<NormalizerPtr> read_normalizer(const JsonField& field) {
  if (field.is_null()) return NormalizerPtr();
  PUMICE_TRY(Read read, find_type<Read>(field, kTypes));
  PUMICE_TRY(NormalizerPtr normalizer, read(field));
  PUMICE_CHECK(check_growth(field, normalizer->growth()));
  return normalizer;
}

} // namespace pumice::text
