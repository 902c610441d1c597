#include <fmt/format.h>

#include "options/prompt.h"
#include "serve/routes/service.h"

namespace pumice::serve {

namespace {

Result<UsedModel> find_with_tokenizer(Service& service, Exchange& exchange, const RequestBody& body) {
  PUMICE_TRY(UsedModel served, find_model(service, exchange, body, ServedKind::Use::any));
  if (served->tokenizer()) return served;
  return body.error("model", fmt::format("'{}' has no tokenizer", served->name));
}

} // namespace

// {"content": TEXT, "add_special": false, "with_pieces": false}, as llama.cpp's server has it.
Status tokenize(Service& service, Exchange& exchange) {
  PUMICE_TRY(const RequestBody body, RequestBody::read(exchange.request()));
  PUMICE_TRY(const UsedModel served, find_with_tokenizer(service, exchange, body));
  const char* field = body.has("prompt") ? "prompt" : "content";
  if (!body[field].is_string()) return body.error(field, "expected a string");
  PUMICE_TRY(const bool special, body.boolean_or("add_special", false));
  PUMICE_TRY(const bool with_pieces, body.boolean_or("with_pieces", false));
  const Tokenizer& tokenizer = *served->tokenizer();
  Json tokens = Json::array();
  const std::vector<uint32_t> ids = tokenizer.encode(body[field].get<std::string>(), special);
  for (const uint32_t id : ids) {
    if (with_pieces)
      tokens.push_back({{"id", id}, {"piece", tokenizer.piece(id)}});
    else
      tokens.push_back(id);
  }
  answer_json(exchange, {{"tokens", std::move(tokens)}, {"count", ids.size()}});
  return {};
}

Status detokenize(Service& service, Exchange& exchange) {
  PUMICE_TRY(const RequestBody body, RequestBody::read(exchange.request()));
  PUMICE_TRY(const UsedModel served, find_with_tokenizer(service, exchange, body));
  const Tokenizer& tokenizer = *served->tokenizer();
  const Json& tokens = body["tokens"];
  if (!tokens.is_array()) return body.error("tokens", "expected a list of ids");
  std::vector<uint32_t> ids;
  for (const Json& each : tokens) {
    if (!each.is_number_unsigned() || each.get<uint64_t>() >= tokenizer.vocabulary_size())
      return body.error("tokens", fmt::format("expected ids below {}", tokenizer.vocabulary_size()));
    ids.push_back(each.get<uint32_t>());
  }
  answer_json(exchange, {{"content", tokenizer.decode(ids, true)}});
  return {};
}

} // namespace pumice::serve
