#include "text/formats/huggingface_parts.h"

namespace pumice::text {

namespace {

Result<AddedToken> read_added_token(const JsonField& field) {
  PUMICE_CHECK(field.object());
  AddedToken token;
  PUMICE_TRY(token.content, field.at("content").string());
  if (token.content.empty()) return field.at("content").expected("at least one character");
  PUMICE_TRY(token.id, field.at("id").whole_number());
  PUMICE_TRY(token.special, field.boolean_or("special", false));
  PUMICE_TRY(token.left_strip, field.boolean_or("lstrip", false));
  PUMICE_TRY(token.right_strip, field.boolean_or("rstrip", false));
  PUMICE_TRY(token.single_word, field.boolean_or("single_word", false));
  PUMICE_TRY(token.normalized, field.boolean_or("normalized", !token.special));
  return token;
}

// An added token may also be in the model's vocabulary, but only with the same id.
Status add_to_vocabulary(const AddedToken& token, const JsonField& field, Vocabulary& vocabulary) {
  auto known = vocabulary.find(token.content);
  if (known && *known != token.id) {
    return field.at("id").expected(fmt::format("{}, which \"{}\" has in model.vocab", *known, token.content));
  }
  if (known || vocabulary.piece(token.id) == token.content) return {};
  return vocabulary.add_hidden(token.content, token.id, field.at("id").where());
}

Result<std::vector<AddedToken>> read_added_tokens(const JsonField& field, Vocabulary& vocabulary) {
  std::vector<AddedToken> tokens;
  if (field.is_null()) return tokens;
  PUMICE_TRY(std::vector<JsonField> elements, field.elements());
  for (const JsonField& element : elements) {
    PUMICE_TRY(AddedToken token, read_added_token(element));
    PUMICE_CHECK(add_to_vocabulary(token, element, vocabulary));
    tokens.push_back(std::move(token));
  }
  return tokens;
}

// The first added token with one of the usual names. The file does not say which tokens begin and end a text;
// see Tokenizer::bos.
std::optional<uint32_t> find_usual_token(const AddedTokens& tokens,
                                         std::initializer_list<std::string_view> names) {
  for (std::string_view name : names) {
    if (auto id = tokens.find(name)) return id;
  }
  return std::nullopt;
}

void find_bos_and_eos(TokenizerParts& parts) {
  const std::vector<uint32_t> before = parts.post_processor.before(), after = parts.post_processor.after();
  parts.bos = before.empty() ? find_usual_token(parts.added_tokens, {"<s>", "<bos>", "<|begin_of_text|>",
                                                                     "[CLS]", "<|startoftext|>"})
                             : before.front();
  parts.eos = after.empty() ? find_usual_token(parts.added_tokens,
                                               {"</s>", "<eos>", "<|end_of_text|>", "<|endoftext|>", "[SEP]"})
                            : after.back();
}

} // namespace

Result<std::unique_ptr<TokenizerParts>> read_huggingface(std::string_view json, const std::string& file) {
  PUMICE_TRY(JsonDocument document, parse_document(json, file));
  return read_document(std::move(document), file);
}

Result<std::unique_ptr<TokenizerParts>> read_document(JsonDocument document, const std::string& file) {
  JsonField root(document.tree, file);
  PUMICE_CHECK(root.object());
  auto parts = std::make_unique<TokenizerParts>();
  PUMICE_CHECK(read_model(document, root.at("model"), *parts));
  PUMICE_TRY(parts->normalizer, read_normalizer(root.at("normalizer")));
  PUMICE_TRY(std::vector<AddedToken> added, read_added_tokens(root.at("added_tokens"), parts->vocabulary));
  parts->added_tokens = AddedTokens(std::move(added), parts->normalizer.get());
  PUMICE_TRY(parts->pre_tokenizer, read_pre_tokenizer(root.at("pre_tokenizer")));
  PUMICE_TRY(parts->post_processor, read_post_processor(root.at("post_processor"), parts->vocabulary));
  PUMICE_TRY(parts->decoders, read_decoders(root.at("decoder")));
  find_bos_and_eos(*parts);
  return parts;
}

} // namespace pumice::text
