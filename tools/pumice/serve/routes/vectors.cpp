#include <algorithm>
#include <bit>
#include <numeric>
#include <span>

#include <fmt/format.h>

#include "serve/routes/service.h"
#include "text/formats/base64.h"

namespace pumice::serve {

namespace {

constexpr size_t most_inputs = 2048; // of a request, as OpenAI has it

std::string base64(std::span<const float> values) {
  std::string bytes;
  for (const float value : values) {
    const auto word = std::bit_cast<uint32_t>(value);
    for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(word >> shift);
  }
  return text::encode_base64(bytes);
}

Result<VectorModel::Vectors> embed(VectorModel& model, const RequestBody& body, Exchange& exchange) {
  PUMICE_TRY(const std::vector<std::string> texts, body.texts("input"));
  if (texts.empty()) return body.error("input", "expected a string or a list of strings");
  if (texts.size() > most_inputs)
    return body.error("input", fmt::format("expected at most {} texts, found {}", most_inputs, texts.size()));
  const Fields fields = body.fields();
  PUMICE_TRY(const uint32_t dimensions, fields.u32_or("dimensions", 1, UINT32_MAX, 0));
  Result<VectorModel::Vectors> made =
      model.embed(texts, dimensions, "input", [&](uint64_t, uint64_t) { return !exchange.gone(); });
  if (made.ok()) count_tokens(exchange, made->tokens);
  return made;
}

// The field "documents": texts, or objects with one.
Result<std::vector<std::string>> read_documents(const RequestBody& body) {
  const Json& documents = body["documents"];
  if (!documents.is_array() || documents.empty() || documents.size() > most_inputs)
    return body.error("documents", fmt::format("expected a list of 1 to {} texts", most_inputs));
  std::vector<std::string> texts;
  for (const Json& each : documents) {
    const Json text = each.is_object() ? each.value("text", Json()) : each;
    if (!text.is_string()) return body.error("documents", "expected strings, or objects with a 'text'");
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

} // namespace

Status embeddings(Service& service, Exchange& exchange) {
  PUMICE_TRY(const RequestBody body, RequestBody::read(exchange.request()));
  PUMICE_TRY(const UsedModel served, find_model(service, exchange, body, ServedKind::Use::vectors));
  const auto slot = service.slots.open(served->name, exchange.request().path);
  PUMICE_TRY(const std::string format, body.string_or("encoding_format", "float"));
  if (format != "float" && format != "base64")
    return body.error("encoding_format", "expected float or base64");
  PUMICE_TRY(const VectorModel::Vectors made, embed(*served->vectors, body, exchange));
  Json data = Json::array();
  for (size_t i = 0; i < made.vectors.size(); ++i) {
    Json entry = {{"object", "embedding"}, {"index", i}};
    if (format == "float")
      entry["embedding"] = made.vectors[i];
    else
      entry["embedding"] = base64(made.vectors[i]);
    data.push_back(std::move(entry));
  }
  answer_json(exchange, {{"object", "list"},
                         {"data", std::move(data)},
                         {"model", served->name},
                         {"usage", {{"prompt_tokens", made.tokens}, {"total_tokens", made.tokens}}}});
  return {};
}

// {"query": TEXT, "documents": [TEXT or {"text": TEXT}], "top_n": N, "return_documents": false}, the best
// first.
Status rerank(Service& service, Exchange& exchange) {
  PUMICE_TRY(const RequestBody body, RequestBody::read(exchange.request()));
  PUMICE_TRY(const UsedModel served, find_model(service, exchange, body, ServedKind::Use::ranks));
  const auto slot = service.slots.open(served->name, exchange.request().path);
  if (!body["query"].is_string()) return body.error("query", "expected a string");
  PUMICE_TRY(const std::vector<std::string> texts, read_documents(body));
  const Fields fields = body.fields();
  PUMICE_TRY(const uint32_t top, fields.u32_or("top_n", 1, UINT32_MAX, UINT32_MAX));
  PUMICE_TRY(const bool shows, body.boolean_or("return_documents", false));
  PUMICE_TRY(const RankModel::Scores made,
             served->ranks->score(body["query"].get<std::string>(), texts, "documents",
                                  [&](uint64_t, uint64_t) { return !exchange.gone(); }));
  count_tokens(exchange, made.tokens);
  std::vector<size_t> order(texts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return made.scores[a] > made.scores[b]; });
  order.resize(std::min<size_t>(order.size(), top));
  Json results = Json::array();
  for (const size_t i : order) {
    Json entry = {{"index", i}, {"relevance_score", made.scores[i]}};
    if (shows) entry["document"] = {{"text", texts[i]}};
    results.push_back(std::move(entry));
  }
  answer_json(exchange, {{"id", new_id("rerank-")},
                         {"model", served->name},
                         {"results", std::move(results)},
                         {"usage", {{"total_tokens", made.tokens}}}});
  return {};
}

// {"query": TEXT, "documents": [TEXT or {"text": TEXT}], "top": N}, the best first; without documents among
// the passages of --search.
Status search(Service& service, Exchange& exchange) {
  PUMICE_TRY(const RequestBody body, RequestBody::read(exchange.request()));
  PUMICE_TRY(const UsedModel served, find_model(service, exchange, body, ServedKind::Use::vectors));
  const auto slot = service.slots.open(served->name, exchange.request().path);
  if (!body["query"].is_string()) return body.error("query", "expected a string");
  std::vector<std::string> texts;
  if (body.has("documents")) {
    PUMICE_TRY(texts, read_documents(body));
  } else if (!served->vectors->searches()) {
    return body.error("documents",
                      "it is missing, and this server has no folder of texts (--search): expected a "
                      "list of texts");
  }
  const Fields fields = body.fields();
  PUMICE_TRY(const uint32_t top, fields.u32_or("top", 1, most_inputs, 5));
  uint64_t tokens = 0;
  PUMICE_TRY(const std::vector<VectorModel::Found> found,
             served->vectors->search(
                 body["query"].get<std::string>(), texts, top,
                 [&](uint64_t, uint64_t) { return !exchange.gone(); }, tokens));
  count_tokens(exchange, tokens);
  Json results = Json::array();
  for (const VectorModel::Found& each : found) {
    Json entry = {{"score", each.score}};
    if (!each.file.empty()) entry["file"] = each.file;
    entry[each.file.empty() ? "index" : "line"] = each.place;
    entry["text"] = each.text;
    results.push_back(std::move(entry));
  }
  answer_json(exchange, {{"model", served->name},
                         {"results", std::move(results)},
                         {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}});
  return {};
}

Status ollama_embed(Service& service, Exchange& exchange) {
  PUMICE_TRY(const RequestBody body, RequestBody::read(exchange.request()));
  PUMICE_TRY(const UsedModel served, find_model(service, exchange, body, ServedKind::Use::vectors));
  const auto slot = service.slots.open(served->name, exchange.request().path);
  if (lets_go(body)) (void)service.models.let_go(served->name);
  PUMICE_TRY(const VectorModel::Vectors made, embed(*served->vectors, body, exchange));
  answer_json(exchange,
              {{"model", served->name}, {"embeddings", made.vectors}, {"prompt_eval_count", made.tokens}});
  return {};
}

} // namespace pumice::serve
