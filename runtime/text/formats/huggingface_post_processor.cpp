#include "text/formats/huggingface_parts.h"

namespace pumice::text {

namespace {

using Element = PostProcessor::Element;
using Template = PostProcessor::Template;
using Kind = Element::Kind;
using Read = Status (*)(const JsonField&, const Vocabulary&, PostProcessor&);

Status append(const JsonField& field, const Vocabulary& vocabulary, PostProcessor& out);

Result<uint32_t> read_id(const JsonField& field, const Vocabulary& vocabulary) {
  PUMICE_TRY(uint32_t id, field.whole_number());
  if (!vocabulary.has(id)) return field.expected("an id of the vocabulary");
  return id;
}

Result<uint32_t> read_type(const JsonField& field) {
  if (!field.has("type_id")) return 0u;
  return field.at("type_id").whole_number();
}

// Reads a list of {"SpecialToken": {"id": "<s>", "type_id": 0}} and {"Sequence": {"id": "A", "type_id": 0}}.
// Each of the first `texts` sequences, A and B, must occur once. "special_tokens" gives the ids.
Result<Template> read_elements(const JsonField& field, const JsonField& specials, size_t texts,
                               const Vocabulary& vocabulary) {
  PUMICE_TRY(std::vector<JsonField> items, field.elements());
  Template elements;
  size_t seen[2] = {};
  for (const JsonField& item : items) {
    if (item.has("Sequence")) {
      PUMICE_TRY(std::string name, item.at("Sequence").at("id").string());
      PUMICE_TRY(uint32_t type, read_type(item.at("Sequence")));
      const size_t text = name == "A" ? 0 : name == "B" ? 1 : texts;
      if (text >= texts || seen[text]++ > 0)
        return item.unsupported(texts == 1 ? "one {\"Sequence\": {\"id\": \"A\"}}" : "one each of A and B");
      elements.push_back({text == 0 ? Kind::first : Kind::second, 0, type});
      continue;
    }
    if (!item.has("SpecialToken")) return item.expected("{\"SpecialToken\": ...} or {\"Sequence\": ...}");
    PUMICE_TRY(std::string name, item.at("SpecialToken").at("id").string());
    PUMICE_TRY(uint32_t type, read_type(item.at("SpecialToken")));
    const JsonField special = specials.at(name);
    PUMICE_CHECK(special.object());
    PUMICE_TRY(std::vector<JsonField> ids, special.at("ids").elements());
    for (const JsonField& element : ids) {
      PUMICE_TRY(uint32_t id, read_id(element, vocabulary));
      elements.push_back({Kind::token, id, type});
    }
  }
  for (size_t text = 0; text < texts; ++text) {
    if (seen[text] == 0)
      return field.expected(
          fmt::format("one {{\"Sequence\": {{\"id\": \"{}\"}}}} among its elements", text == 0 ? 'A' : 'B'));
  }
  return elements;
}

Status read_template(const JsonField& field, const Vocabulary& vocabulary, PostProcessor& out) {
  const JsonField specials = field.at("special_tokens");
  PostProcessor made;
  PUMICE_TRY(made.single, read_elements(field.at("single"), specials, 1, vocabulary));
  if (field.has("pair")) {
    PUMICE_TRY(made.pair, read_elements(field.at("pair"), specials, 2, vocabulary));
  }
  out.then(std::move(made));
  return {};
}

// ["</s>", 2]
Result<uint32_t> read_pair(const JsonField& field, const Vocabulary& vocabulary) {
  PUMICE_TRY(std::vector<JsonField> elements, field.elements());
  if (elements.size() != 2) return field.expected("[token, id]");
  return read_id(elements[1], vocabulary);
}

// BERT separates the texts of a pair by token types, RoBERTa by two separator tokens.
Status read_cls_sep(const JsonField& field, const Vocabulary& vocabulary, bool types, PostProcessor& out) {
  PUMICE_TRY(uint32_t cls, read_pair(field.at("cls"), vocabulary));
  PUMICE_TRY(uint32_t sep, read_pair(field.at("sep"), vocabulary));
  out.then(types ? PostProcessor::bert(cls, sep) : PostProcessor::roberta(cls, sep));
  return {};
}

Status read_bert(const JsonField& field, const Vocabulary& vocabulary, PostProcessor& out) {
  return read_cls_sep(field, vocabulary, true, out);
}

Status read_roberta(const JsonField& field, const Vocabulary& vocabulary, PostProcessor& out) {
  return read_cls_sep(field, vocabulary, false, out);
}

Status read_byte_level(const JsonField&, const Vocabulary&, PostProcessor&) {
  return {}; // it changes only offsets, which are not computed here
}

Status read_sequence(const JsonField& field, const Vocabulary& vocabulary, PostProcessor& out) {
  PUMICE_TRY(std::vector<JsonField> elements, field.at("processors").elements());
  for (const JsonField& element : elements) PUMICE_CHECK(append(element, vocabulary, out));
  return {};
}

constexpr TypeRow<Read> kTypes[] = {
    {"TemplateProcessing", read_template}, {"ByteLevel", read_byte_level},
    {"RobertaProcessing", read_roberta},   {"BertProcessing", read_bert},
    {"Sequence", read_sequence},
};

Status append(const JsonField& field, const Vocabulary& vocabulary, PostProcessor& out) {
  PUMICE_TRY(Read read, find_type<Read>(field, kTypes));
  return read(field, vocabulary, out);
}

} // namespace

Result<PostProcessor> read_post_processor(const JsonField& field, const Vocabulary& vocabulary) {
  PostProcessor out;
  if (!field.is_null()) PUMICE_CHECK(append(field, vocabulary, out));
  return out;
}

} // namespace pumice::text
