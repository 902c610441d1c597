#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "output/span_json.h"
#include "serve/routes/request_media.h"
#include "serve/routes/service.h"
#include "terminal/writing.h"

// This server's own interface of tasks. Answers have the fields of the commands' --json.
namespace pumice::serve {

namespace {

constexpr size_t most_task_texts = 256; // of a request
constexpr uint32_t most_beams = 16;

// An error of options that the library found, as one of the request.
Error of_request(const Error& error) {
  const bool wish = error.code == Code::not_found || error.code == Code::invalid_argument;
  if (!wish || error.message.starts_with(request_name)) return error;
  return {Code::invalid_argument, fmt::format("{}: {}", request_name, error.text())};
}

Result<std::vector<std::string>> read_texts(const RequestBody& body, const char* field) {
  PUMICE_TRY(std::vector<std::string> texts, body.texts(field));
  if (texts.empty()) return body.error(field, "expected a text or a list of texts");
  if (texts.size() > most_task_texts) {
    return body.error(field,
                      fmt::format("expected at most {} texts, found {}", most_task_texts, texts.size()));
  }
  return texts;
}

// The field "image": a data URL, or a list of them. `take` gets each picture and its name in errors.
Status read_request_pictures(const RequestBody& body,
                             const std::function<Status(Image image, const std::string& name)>& take) {
  const Json& given = body["image"];
  const bool list = given.is_array();
  if (given.is_null() || (list && given.empty()))
    return body.error("image", "it is missing: expected a data URL, or a list of them");
  if (list && given.size() > most_pictures)
    return body.error("image", fmt::format("expected at most {} pictures", most_pictures));
  for (size_t i = 0; i < (list ? given.size() : 1); ++i) {
    const std::string field = list ? fmt::format("image[{}]", i) : "image";
    PUMICE_TRY(const std::string bytes, read_data_url(list ? given[i] : given, field));
    PUMICE_TRY(Image image, read_picture(std::as_bytes(std::span(bytes)), field));
    PUMICE_CHECK(take(std::move(image), request_field(field)));
  }
  return {};
}

// How texts are written, and what of the request says so.
Status read_writing(const RequestBody& body, WritingOptions& writing, Json& options) {
  const Fields fields = body.fields();
  writing.scores = true;
  writing.sampling.temperature = 0;
  PUMICE_TRY(writing.max_tokens, fields.u32_or("max_tokens", 1, 1u << 24, 0));
  if (body.has("beams")) {
    PUMICE_TRY(writing.beams.beams, fields.u32("beams", 1, most_beams));
  }
  PUMICE_TRY(writing.beams.hypotheses, fields.u32_or("n_best", 1, most_beams, 1));
  for (const char* field : {"max_tokens", "beams", "n_best"}) options[field] = body[field];
  return {};
}

Json usage_of(uint64_t prompt, uint64_t completion) {
  return {
      {"prompt_tokens", prompt}, {"completion_tokens", completion}, {"total_tokens", prompt + completion}};
}

} // namespace

// {"text": TEXT or [TEXT], "source": LANGUAGE, "target": LANGUAGE, "task": NAME, "prefix": TEXT, "glossary":
// TEXT, "sentences": false, "alignment": false, "max_tokens": N, "beams": N, "n_best": N}
Status translate(Service& service, Exchange& exchange) {
  PUMICE_TRY(const RequestBody body, RequestBody::read(exchange.request()));
  PUMICE_TRY(const UsedModel served, find_model(service, exchange, body, ServedKind::Use::translation));
  const auto slot = service.slots.open(served->name, exchange.request().path);
  PUMICE_TRY(const std::vector<std::string> texts, read_texts(body, "text"));
  TranslatorOptions wish;
  Json options = Json::object();
  PUMICE_CHECK(read_writing(body, wish.writing, options));
  PUMICE_TRY(wish.source_language, body.string_or("source", ""));
  PUMICE_TRY(wish.target_language, body.string_or("target", ""));
  PUMICE_TRY(wish.task, body.string_or("task", ""));
  if (body.has("prefix")) {
    PUMICE_TRY(wish.prefix, body.string_or("prefix", ""));
  }
  PUMICE_TRY(const std::string glossary, body.string_or("glossary", ""));
  if (!glossary.empty()) wish.glossary = {glossary, request_field("glossary")};
  PUMICE_TRY(wish.sentences, body.boolean_or("sentences", false));
  PUMICE_TRY(const bool aligns, body.boolean_or("alignment", false));
  if (aligns) wish.alignment.emplace();
  for (const char* field : {"source", "target", "task", "prefix", "glossary", "sentences", "alignment"})
    options[field] = body[field];
  Json translations = Json::array();
  uint64_t read = 0, written = 0;
  const auto take = [&](const Source& source, const Translation& made, const GenerationOptions& generation) {
    Json entry = {{"source", source.text}};
    if (source.cut()) entry["truncated"] = true;
    if (source.blank()) entry["text"] = "";
    command::add_written(entry, made.texts, generation);
    if (wish.sentences) entry["sentences"] = Json::array();
    for (size_t i = 0; i < source.sentences.size(); ++i) {
      read += source.sentences[i].input.tokens.size();
      written += source.sentences[i].written.front().tokens.size();
      if (!wish.sentences) continue;
      Json sentence = {{"source", source.sentences[i].text}};
      command::add_written(sentence, made.sentences[i], generation);
      entry["sentences"].push_back(std::move(sentence));
    }
    translations.push_back(std::move(entry));
  };
  const Status status = served->translation->translate(texts, wish, options.dump(), exchange, take);
  count_tokens(exchange, read + written);
  if (!status.ok()) return of_request(status.error());
  answer_json(exchange, {{"model", served->name},
                         {"translations", std::move(translations)},
                         {"usage", usage_of(read, written)}});
  return {};
}

// The labels of a request, for a model that has none of its own: "labels", and "sentence", which stands for
// one.
Status read_labels(const RequestBody& body, const ServedModel& served, ClassifierOptions& options) {
  if (!served.classes->takes_labels()) {
    if (!body.has("labels")) return {};
    return body.error("labels", fmt::format("'{}' has labels of its own: leave it out", served.name));
  }
  PUMICE_TRY(options.labels, read_texts(body, "labels"));
  if (std::ranges::count(options.labels, "") > 0) return body.error("labels", "one of them is empty");
  PUMICE_TRY(options.sentence, body.string_or("sentence", options.sentence));
  if (options.sentence.find("{}") == std::string::npos)
    return body.error("sentence", "expected a text with {} in the place of a label");
  return {};
}

// {"input": TEXT or [TEXT], "top": N}, or {"image": DATA URL or [DATA URL], "labels": [TEXT], "top": N}
Status classify(Service& service, Exchange& exchange) {
  PUMICE_TRY(const RequestBody body, RequestBody::read(exchange.request()));
  PUMICE_TRY(const UsedModel served, find_model(service, exchange, body, ServedKind::Use::classes));
  const auto slot = service.slots.open(served->name, exchange.request().path);
  ClassModel& model = *served->classes;
  const Fields fields = body.fields();
  constexpr uint32_t usual_labels = 5;
  PUMICE_TRY(const uint32_t top, fields.u32_or("top", 1, 1u << 24, usual_labels));
  ClassifierOptions options;
  PUMICE_CHECK(read_labels(body, *served, options));
  std::vector<ClassModel::Input> inputs;
  if (model.of_pictures()) {
    if (!body.has("image") && body.has("input"))
      return body.error("input", fmt::format("'{}' reads pictures: give 'image'", served->name));
    PUMICE_CHECK(read_request_pictures(body, [&](Image image, const std::string& name) -> Status {
      inputs.push_back({"", name, std::move(image)});
      return {};
    }));
  } else {
    if (!body.has("input") && body.has("image"))
      return body.error("image", fmt::format("'{}' reads texts: give 'input'", served->name));
    PUMICE_TRY(std::vector<std::string> texts, read_texts(body, "input"));
    for (size_t i = 0; i < texts.size(); ++i)
      inputs.push_back({std::move(texts[i]), request_field(fmt::format("input[{}]", i)), {}});
  }
  const Progress progress = [&](uint64_t, uint64_t) { return !exchange.gone(); };
  uint64_t tokens = 0;
  Json results = Json::array();
  for (size_t i = 0; i < inputs.size(); ++i) {
    results.push_back({{"index", i}});
    if (!inputs[i].picture) results[i]["text"] = inputs[i].text;
  }
  if (model.of_parts()) {
    PUMICE_TRY(const std::vector<std::vector<TextSpan>> all, model.spans(inputs, progress, tokens));
    for (size_t i = 0; i < inputs.size(); ++i) {
      Json& list = results[i]["spans"] = Json::array();
      for (const TextSpan& span : all[i]) {
        Json each = {{"label", span.label}};
        command::add_span(each, inputs[i].text, span);
        list.push_back(std::move(each));
      }
    }
  } else {
    PUMICE_TRY(const std::vector<std::vector<float>> all, model.scores(inputs, options, progress, tokens));
    const std::vector<std::string>& labels = model.takes_labels() ? options.labels : model.labels();
    const char* value = model.has_probabilities() ? "probability" : "score";
    for (size_t i = 0; i < inputs.size(); ++i) {
      std::vector<size_t> order(all[i].size());
      std::iota(order.begin(), order.end(), size_t{0});
      std::ranges::stable_sort(order, [&](size_t a, size_t b) { return all[i][a] > all[i][b]; });
      order.resize(std::min<size_t>(order.size(), top));
      Json& list = results[i]["labels"] = Json::array();
      for (const size_t label : order) list.push_back({{"label", labels[label]}, {value, all[i][label]}});
    }
  }
  count_tokens(exchange, tokens);
  answer_json(exchange,
              {{"model", served->name}, {"results", std::move(results)}, {"usage", usage_of(tokens, 0)}});
  return {};
}

// {"image": DATA URL or [DATA URL], "max_tokens": N, "beams": N, "n_best": N}
Status caption(Service& service, Exchange& exchange) {
  PUMICE_TRY(const RequestBody body, RequestBody::read(exchange.request()));
  PUMICE_TRY(const UsedModel served, find_model(service, exchange, body, ServedKind::Use::captions));
  const auto slot = service.slots.open(served->name, exchange.request().path);
  if (body.has("prompt"))
    return body.error(
        "prompt",
        fmt::format("'{}' reads no prompt: ask a model that answers chats with pictures", served->name));
  CaptionerOptions wish;
  Json options = Json::object();
  PUMICE_CHECK(read_writing(body, wish.writing, options));
  wish.writing.inputs = 4; // at a time
  std::vector<CaptionModel::Picture> pictures;
  PUMICE_CHECK(read_request_pictures(body, [&](Image image, const std::string& name) -> Status {
    pictures.push_back({std::move(image), name});
    return {};
  }));
  Json captions = Json::array();
  uint64_t written = 0;
  const auto take = [&](std::span<const WrittenText> texts, const GenerationOptions& generation) {
    Json entry = {{"index", captions.size()}};
    command::add_written(entry, texts, generation);
    written += texts.front().tokens.size();
    captions.push_back(std::move(entry));
  };
  const Status status = served->captions->describe(pictures, wish, options.dump(), exchange, take);
  count_tokens(exchange, written);
  if (!status.ok()) return of_request(status.error());
  answer_json(exchange,
              {{"model", served->name}, {"captions", std::move(captions)}, {"usage", usage_of(0, written)}});
  return {};
}

} // namespace pumice::serve
