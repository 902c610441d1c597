#include "task/late/late_interaction.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/weight_view.h"
#include "model/vocabulary.h"

namespace pumice {

namespace {

constexpr std::string_view punctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
constexpr uint32_t most_tokens = 1 << 16;

// The token of a field that names one.
Result<uint32_t> read_token(const Fields& fields, const char* name, const char* usual,
                            const Tokenizer& tokenizer) {
  PUMICE_TRY(const std::string spelled, fields.string_or(name, usual));
  if (const std::optional<uint32_t> id = tokenizer.find(spelled)) return *id;
  return fields.error(name, fmt::format("the vocabulary has no token '{}'", spelled));
}

std::set<uint32_t> tokens_of_words(const Tokenizer& tokenizer, const std::vector<std::string>& words) {
  std::set<uint32_t> ids;
  for (const std::string& word : words) {
    if (const std::optional<uint32_t> id = tokenizer.find(word)) ids.insert(*id);
  }
  return ids;
}

std::vector<std::string> punctuation_marks() {
  std::vector<std::string> marks;
  for (const char mark : punctuation) marks.emplace_back(1, mark);
  return marks;
}

Result<std::vector<std::string>> read_words(const Fields& fields, const char* name) {
  const nlohmann::json* list = fields.find(name);
  if (!list || list->is_null()) return punctuation_marks();
  std::vector<std::string> words;
  const auto wrong = [&] { return fields.error(name, "expected a list of texts"); };
  if (!list->is_array()) return wrong();
  for (const nlohmann::json& word : *list) {
    if (!word.is_string()) return wrong();
    words.push_back(word.get<std::string>());
  }
  return words;
}

} // namespace

Result<std::optional<LateInteraction>>
LateInteraction::read(const ModelFile& file, std::shared_ptr<const Tokenizer> tokenizer, uint32_t context) {
  if (!tokenizer) return std::optional<LateInteraction>();
  const bool modules =
      file.folder().has("1_Dense/config.json") && !file.folder().has("1_Pooling/config.json");
  SentenceSettings settings;
  if (modules) {
    PUMICE_TRY(settings, read_sentence_settings(file, ""));
  }
  PUMICE_TRY(std::optional<LateInteraction> late, settings.of_tokens
                                                      ? read_pylate(file, settings, std::move(tokenizer))
                                                      : read_colbert(file, std::move(tokenizer)));
  if (!late) return late;
  late->query_tokens_ = std::min(late->query_tokens_, context);
  late->text_tokens_ = std::min(late->text_tokens_, context);
  return late;
}

Result<std::optional<LateInteraction>>
LateInteraction::read_pylate(const ModelFile& file, const SentenceSettings& settings,
                             std::shared_ptr<const Tokenizer> tokenizer) {
  constexpr const char* name = "config_sentence_transformers.json";
  PUMICE_TRY(const std::optional<nlohmann::json> json, file.folder().object(name));
  const nlohmann::json object = json.value_or(nlohmann::json::object());
  const Fields fields(object, file.folder().path(name));
  LateInteraction late;
  late.settings_ = settings;
  PUMICE_TRY(late.query_mark_, read_token(fields, "query_prefix", "[Q] ", *tokenizer));
  PUMICE_TRY(late.text_mark_, read_token(fields, "document_prefix", "[D] ", *tokenizer));
  PUMICE_TRY(late.query_tokens_, fields.u32_or("query_length", 4, most_tokens, 32));
  PUMICE_TRY(late.text_tokens_, fields.u32_or("document_length", 4, most_tokens, 180));
  PUMICE_TRY(const bool expands, fields.boolean_or("do_query_expansion", true));
  PUMICE_TRY(late.sees_filler_, fields.boolean_or("attend_to_expansion_tokens", false));
  PUMICE_TRY(const std::vector<std::string> words, read_words(fields, "skiplist_words"));
  late.left_out_ = tokens_of_words(*tokenizer, words);
  const std::vector<uint32_t> masks = tokens_of(TokenRole::mask, file, tokenizer.get());
  if (expands && masks.empty())
    return fields.error("do_query_expansion", "the vocabulary has no mask, with which queries are filled up");
  if (expands) late.filler_ = masks[0];
  late.tokenizer_ = std::move(tokenizer);
  return std::optional(std::move(late));
}

Result<std::optional<LateInteraction>>
LateInteraction::read_colbert(const ModelFile& file, std::shared_ptr<const Tokenizer> tokenizer) {
  constexpr const char *name = "artifact.metadata", *matrix = "linear.weight";
  const TensorView* weight = file.find(matrix);
  if (!weight || weight->shape.size() != 2) return std::optional<LateInteraction>();
  PUMICE_TRY(const std::optional<nlohmann::json> json, file.folder().object(name));
  if (!json) return std::optional<LateInteraction>();
  const Fields fields(*json, file.folder().path(name));
  LateInteraction late;
  DenseLayer layer;
  layer.outputs = static_cast<uint32_t>(weight->shape[0]);
  layer.inputs = static_cast<uint32_t>(weight->shape[1]);
  layer.weight = decode_vector(WeightView::whole(*weight));
  late.settings_.dense.push_back(std::move(layer));
  PUMICE_TRY(late.query_mark_, read_token(fields, "query_token_id", "[unused0]", *tokenizer));
  PUMICE_TRY(late.text_mark_, read_token(fields, "doc_token_id", "[unused1]", *tokenizer));
  PUMICE_TRY(late.query_tokens_, fields.u32_or("query_maxlen", 4, most_tokens, 32));
  PUMICE_TRY(late.text_tokens_, fields.u32_or("doc_maxlen", 4, most_tokens, 220));
  PUMICE_TRY(late.sees_filler_, fields.boolean_or("attend_to_mask_tokens", false));
  PUMICE_TRY(const bool without_marks, fields.boolean_or("mask_punctuation", true));
  if (without_marks) late.left_out_ = tokens_of_words(*tokenizer, punctuation_marks());
  const std::vector<uint32_t> masks = tokens_of(TokenRole::mask, file, tokenizer.get());
  if (masks.empty()) {
    return Error{
        Code::invalid_file,
        fmt::format("{}: its vocabulary has no mask, with which queries are filled up", file.path())};
  }
  late.filler_ = masks[0];
  late.tokenizer_ = std::move(tokenizer);
  return std::optional(std::move(late));
}

Tokenizer::Encoding LateInteraction::marked(const std::string& text, uint32_t mark, size_t limit) const {
  const size_t room = limit == Tokenizer::kNoLimit ? limit : std::max<size_t>(limit, 1) - 1;
  Tokenizer::Encoding encoding = tokenizer_->encode_limited(text, room);
  const auto second = std::min<size_t>(encoding.ids.size(), 1);
  encoding.ids.insert(encoding.ids.begin() + static_cast<ptrdiff_t>(second), mark);
  encoding.types.clear(); // one text: all of type 0
  return encoding;
}

EncoderInput LateInteraction::query(const std::string& text) const {
  EncoderInput input;
  input.tokens = marked(text, query_mark_, query_tokens_).ids;
  if (!filler_) return input;
  if (!sees_filler_) input.seen = static_cast<uint32_t>(input.tokens.size());
  input.tokens.resize(std::max<size_t>(query_tokens_, input.tokens.size()), *filler_);
  return input;
}

Tokenizer::Encoding LateInteraction::text(const std::string& text, size_t limit) const {
  return marked(text, text_mark_, limit);
}

std::vector<float> LateInteraction::vectors(std::span<const float> rows) const {
  const size_t hidden = settings_.dense.front().inputs;
  std::vector<float> all;
  for (size_t first = 0; first + hidden <= rows.size(); first += hidden) {
    const std::span<const float> row = rows.subspan(first, hidden);
    const std::vector<float> vector = finish_vector(settings_, {row.begin(), row.end()}, 0, true);
    all.insert(all.end(), vector.begin(), vector.end());
  }
  return all;
}

std::vector<float> LateInteraction::vectors(const std::string& text, size_t limit,
                                            std::span<const float> rows) const {
  const size_t hidden = settings_.dense.front().inputs;
  const std::vector<uint32_t> ids = this->text(text, limit).ids;
  std::vector<float> compared;
  for (size_t i = 0; i < ids.size() && (i + 1) * hidden <= rows.size(); ++i) {
    const std::span<const float> row = rows.subspan(i * hidden, hidden);
    if (!left_out_.contains(ids[i])) compared.insert(compared.end(), row.begin(), row.end());
  }
  return vectors(compared);
}

float LateInteraction::score(std::span<const float> query, std::span<const float> text) const {
  double sum = 0;
  for (size_t q = 0; q < query.size(); q += columns()) {
    float best = -1;
    for (size_t t = 0; t < text.size(); t += columns()) {
      float product = 0;
      for (size_t i = 0; i < columns(); ++i) product += query[q + i] * text[t + i];
      best = std::max(best, product);
    }
    sum += best;
  }
  return static_cast<float>(sum);
}

} // namespace pumice
