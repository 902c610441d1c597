#include "text/huggingface_parts.h"

namespace pumice::text {

namespace {

using Read = Status (*)(const JsonField&, const Vocabulary&, PostProcessor&);

Status append(const JsonField& field, const Vocabulary& vocabulary, PostProcessor& out);

Result<uint32_t> read_id(const JsonField& field, const Vocabulary& vocabulary) {
  PUMICE_TRY(uint32_t id, field.whole_number());
  if (!vocabulary.has(id)) return field.expected("an id of the vocabulary");
  return id;
}

// "single" is a row of {"SpecialToken": {"id": "<s>"}} around one {"Sequence": {"id": "A"}}; "special_tokens"
// gives the ids.
Status read_template(const JsonField& field, const Vocabulary& vocabulary, PostProcessor& out) {
  PUMICE_TRY(std::vector<JsonField> items, field.at("single").elements());
  std::vector<uint32_t> sides[2];
  size_t side = 0;
  for (const JsonField& item : items) {
    if (item.has("Sequence")) {
      PUMICE_TRY(std::string name, item.at("Sequence").at("id").string());
      if (name != "A" || side == 1) return item.unsupported("one {\"Sequence\": {\"id\": \"A\"}}");
      side = 1;
      continue;
    }
    if (!item.has("SpecialToken")) return item.expected("{\"SpecialToken\": ...} or {\"Sequence\": ...}");
    PUMICE_TRY(std::string name, item.at("SpecialToken").at("id").string());
    JsonField special = field.at("special_tokens").at(name);
    PUMICE_CHECK(special.object());
    PUMICE_TRY(std::vector<JsonField> ids, special.at("ids").elements());
    for (const JsonField& element : ids) {
      PUMICE_TRY(uint32_t id, read_id(element, vocabulary));
      sides[side].push_back(id);
    }
  }
  if (side == 0) return field.at("single").expected("one {\"Sequence\": {\"id\": \"A\"}} among its elements");
  out.wrap(sides[0], sides[1]);
  return {};
}

// ["</s>", 2]
Result<uint32_t> read_pair(const JsonField& field, const Vocabulary& vocabulary) {
  PUMICE_TRY(std::vector<JsonField> elements, field.elements());
  if (elements.size() != 2) return field.expected("[token, id]");
  return read_id(elements[1], vocabulary);
}

// RoBERTa's and BERT's differ only in how they treat pairs of texts and offsets.
Status read_cls_sep(const JsonField& field, const Vocabulary& vocabulary, PostProcessor& out) {
  PUMICE_TRY(uint32_t cls, read_pair(field.at("cls"), vocabulary));
  PUMICE_TRY(uint32_t sep, read_pair(field.at("sep"), vocabulary));
  out.wrap({cls}, {sep});
  return {};
}

Status read_byte_level(const JsonField&, const Vocabulary&, PostProcessor&) {
  return {}; // it changes offsets, which are not kept here
}

Status read_sequence(const JsonField& field, const Vocabulary& vocabulary, PostProcessor& out) {
  PUMICE_TRY(std::vector<JsonField> elements, field.at("processors").elements());
  for (const JsonField& element : elements) PUMICE_CHECK(append(element, vocabulary, out));
  return {};
}

constexpr TypeRow<Read> kTypes[] = {
    {"TemplateProcessing", read_template}, {"ByteLevel", read_byte_level},
    {"RobertaProcessing", read_cls_sep},   {"BertProcessing", read_cls_sep},
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
