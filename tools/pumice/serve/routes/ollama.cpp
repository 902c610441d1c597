#include <chrono>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "options/prompt.h"
#include "serve/routes/generation.h"
#include "serve/routes/request_media.h"
#include "serve/routes/service.h"
#include "terminal/version.h"

// Ollama's interface of texts. Its lists of models are this server's.
namespace pumice::serve {

bool lets_go(const RequestBody& body) {
  const Json& time = body["keep_alive"];
  if (!time.is_string()) return time == 0;
  const std::string& text = time.get_ref<const std::string&>();
  return text.starts_with('0') && text.find_first_not_of("0smh") == std::string::npos;
}

namespace {

std::string time_text(int64_t time) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(time)));
}

// Its names of sampling, in "options", as the library has them; what others there say of memory and threads
// is the server's.
Result<RequestBody> with_options(const RequestBody& body) {
  const Json& options = body["options"];
  constexpr size_t most = 64; // each is looked for among the others
  if (!options.is_null() && (!options.is_object() || options.size() > most))
    return body.error("options", fmt::format("expected an object of at most {} options", most));
  Json object = body.object();
  for (const auto& [name, value] : options.items()) {
    const std::string own = name == "num_predict" ? "max_tokens" : name;
    if (own == "max_tokens" && value.is_number_integer() && value < 0) continue; // as many as fit
    object[own] = value;
  }
  for (const char* field : {"logprobs", "top_logprobs"}) {
    const auto given = object.find(field);
    if (given != object.end() && !given->is_null() && *given != false && *given != 0)
      return body.error(field, "this interface does not have it here: /v1/chat/completions does");
  }
  return RequestBody(std::move(object));
}

// What an answer's lines have in common.
Json empty_line(const std::string& model, bool chats) {
  Json line = {{"model", model}, {"created_at", time_text(std::time(nullptr))}};
  if (chats)
    line["message"] = {{"role", "assistant"}, {"content", ""}};
  else
    line["response"] = "";
  line["done"] = false;
  return line;
}

// "json", or a schema.
Status read_format(const RequestBody& body, FormSource& form) {
  const Json& format = body["format"];
  if (format.is_null() || format == "") return {};
  if (format == "json") {
    form.json_schema = R"({"type": "object"})";
  } else if (format.is_object()) {
    form.json_schema = format.dump();
  } else {
    return body.error("format", "expected json, or a JSON schema");
  }
  const Result<form::Grammar> parsed = parse_form(form);
  return parsed.ok() ? Status() : Status(body.error("format", parsed.error().message));
}

Status read_thinking(const RequestBody& body, ChatWish& wish) {
  const Json& think = body["think"];
  if (think.is_boolean())
    wish.thinking = think.get<bool>();
  else if (think.is_string())
    wish.variables["reasoning_effort"] = think;
  else if (!think.is_null())
    return body.error("think", "expected true or false");
  return {};
}

// A request without a text: the model is loaded or, with a "keep_alive" of 0, let go.
Status load_or_let_go(Service& service, Exchange& exchange, const RequestBody& body, bool chats) {
  PUMICE_TRY(std::string name, body.string_or("model", ""));
  const bool goes = lets_go(body);
  if (goes) {
    PUMICE_CHECK(service.models.let_go(name));
  } else {
    PUMICE_TRY(const UsedModel served, find_model(service, exchange, body, ServedKind::Use::any));
    name = served->name;
  }
  Json last = empty_line(name, chats);
  last["done"] = true;
  last["done_reason"] = goes ? "unload" : "load";
  answer_json(exchange, last);
  return {};
}

// The model of a request. A stream of lines then shows life, with lines that add nothing.
Result<UsedModel> find_model_of_lines(Service& service, Exchange& exchange, const RequestBody& body,
                                      bool chats) {
  PUMICE_TRY(const std::string name, body.string_or("model", ""));
  PUMICE_TRY(const bool streams, body.boolean_or("stream", true));
  if (streams) exchange.show_life("application/x-ndjson", text_of(empty_line(name, chats)) + "\n");
  PUMICE_TRY(UsedModel served,
             find_model(service, exchange, body, chats ? ServedKind::Use::chat : ServedKind::Use::text));
  if (lets_go(body)) (void)service.models.let_go(served->name);
  return served;
}

// A message whose pictures come before its text, as the models were trained.
Result<Json> read_images(const Json& images, const RequestBody& body, const std::string& field,
                         const std::string& text) {
  if (!images.is_array()) return body.error(field, "expected a list of base64 strings");
  Json parts = Json::array();
  for (size_t i = 0; i < images.size(); ++i) {
    const std::string place = fmt::format("{}[{}]", field, i);
    PUMICE_TRY(const std::string bytes, read_base64(images[i], place));
    parts.push_back(picture_part(bytes, place));
  }
  parts.push_back({{"type", "text"}, {"text", text}});
  return parts;
}

// Calls have no ids there, and results name their tools; arguments are objects.
Result<Json> read_chat(Json messages, const RequestBody& body) {
  if (!messages.is_array()) return body.error("messages", "expected a list with a message");
  for (size_t i = 0; i < messages.size(); ++i) {
    const Json images = messages[i].is_object() ? messages[i].value("images", Json()) : Json();
    if (images.is_null() || images.empty()) continue;
    const Json text = messages[i].value("content", Json(""));
    if (!text.is_string()) return body.error(fmt::format("messages[{}].content", i), "expected a string");
    PUMICE_TRY(messages[i]["content"], read_images(images, body, fmt::format("messages[{}].images", i),
                                                   text.get_ref<const std::string&>()));
    messages[i].erase("images");
  }
  PUMICE_TRY(Json all, read_messages(std::move(messages)));
  for (Json& each : all) {
    if (each.contains("tool_name") && !each.contains("name")) each["name"] = each["tool_name"];
  }
  return all;
}

// Lines of JSON, or one object at the end.
class OllamaAnswer : public TextTaker {
public:
  OllamaAnswer(Exchange& exchange, std::string model, bool chats, bool streams, const Generation& generation)
      : exchange_(exchange), model_(std::move(model)), chats_(chats), streams_(streams),
        generation_(generation) {
    if (streams_) exchange_.begin(200, "application/x-ndjson");
  }

  void text(size_t, const std::string& piece) override {
    AnswerPart part;
    part.text = piece;
    add(part);
  }
  void part(size_t, const AnswerPart& part) override { add(part); }
  void token(size_t, const TokenLogProbabilities&) override {}
  void end(size_t, const TextEnd& end) override {
    if (end.reason == TextEnd::Reason::length) reason_ = "length";
  }
  bool flush() override {
    if (!begun_) begun_ = Clock::now();
    return open_;
  }

  Status finish(const Status& status) {
    if (!status.ok()) {
      return status;
    }
    Json last = line(streams_ ? Answered() : answered_);
    const auto now = Clock::now();
    const auto nanoseconds = [](Clock::duration time) {
      return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
    };
    const Clock::time_point first = begun_.value_or(now);
    last["done"] = true;
    last["done_reason"] = reason_;
    last["total_duration"] = nanoseconds(now - start_);
    last["load_duration"] = 0;
    last["prompt_eval_count"] = generation_.prompt_tokens();
    last["prompt_eval_duration"] = nanoseconds(first - start_);
    last["eval_count"] = generation_.tokens();
    last["eval_duration"] = nanoseconds(now - first);
    if (streams_)
      send(last);
    else
      answer_json(exchange_, last);
    return {};
  }

private:
  using Clock = std::chrono::steady_clock;

  void add(const AnswerPart& part) {
    if (part.kind != AnswerPart::Kind::tool_call && part.text.empty()) return;
    answered_.add(part);
    if (!streams_) return;
    Answered piece;
    piece.add(part);
    send(line(piece));
  }
  Json line(const Answered& piece) const {
    Json made = empty_line(model_, chats_);
    Json& message = chats_ ? made["message"] : made;
    message[chats_ ? "content" : "response"] = piece.content;
    if (!piece.thinking.empty()) message["thinking"] = piece.thinking;
    for (const ToolCall& call : piece.tool_calls) {
      message["tool_calls"].push_back({{"function", {{"name", call.name}, {"arguments", call.arguments}}}});
    }
    return made;
  }
  void send(const Json& value) { open_ = exchange_.write(text_of(value) + "\n"); }

  Exchange& exchange_;
  const std::string model_;
  const bool chats_, streams_;
  const Generation& generation_;
  const Clock::time_point start_ = Clock::now();
  std::optional<Clock::time_point> begun_;
  Answered answered_;
  const char* reason_ = "stop";
  bool open_ = true;
};

Json details_of(const ServedKind& kind) {
  return {{"format", "gguf"}, {"family", kind.architecture}, {"families", Json::array({kind.architecture})}};
}

// Tells a model, and a version of it, from others. It is no hash of all its bytes: reading them takes long.
std::string digest_of(const ServedModels::Listed& listed) {
  const std::string all = fmt::format("{}\n{}\n{}", listed.name, listed.bytes, listed.created);
  uint64_t hash = 0xcbf29ce484222325; // FNV-1a
  std::string digest;
  while (digest.size() < 64) {
    for (const char c : all) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    digest += fmt::format("{:016x}", hash);
  }
  return digest;
}

// An entry of lists.
Json entry_of(const ServedModels::Listed& listed) {
  return {{"name", listed.name},
          {"model", listed.name},
          {"modified_at", time_text(listed.created)},
          {"size", listed.bytes},
          {"digest", digest_of(listed)},
          {"loaded", listed.model != nullptr},
          {"details", details_of(listed.kind)}};
}

// What `show` tells of a model.
Json shown(const ServedModels::Listed& listed) {
  const ServedKind& kind = listed.kind;
  Json can = Json::array();
  Json info = {{"general.architecture", kind.architecture}};
  if (kind.context > 0) info[kind.architecture + ".context_length"] = kind.context;
  if (kind.can(ServedKind::Use::text)) can.push_back("completion");
  if (kind.calls) can.push_back("tools");
  if (kind.sees) can.push_back("vision");
  if (kind.hears) can.push_back("audio");
  if (kind.can(ServedKind::Use::vectors)) can.push_back("embedding");
  const ServedModel* const loaded = listed.model;
  if (loaded && loaded->text)
    info[kind.architecture + ".context_length"] = loaded->text->scheduler().context();
  if (loaded && loaded->vectors) info[kind.architecture + ".embedding_length"] = loaded->vectors->columns();
  return {{"modified_at", time_text(listed.created)},
          {"details", details_of(kind)},
          {"model_info", std::move(info)},
          {"capabilities", std::move(can)}};
}

// A request that only loads a model, or lets it go.
bool says_nothing(const Json& text) {
  return text.is_null() || text == "" || text == Json::array();
}

} // namespace

Status ollama_chat(Service& service, Exchange& exchange) {
  PUMICE_TRY(const RequestBody given, RequestBody::read(exchange.request()));
  if (says_nothing(given["messages"])) return load_or_let_go(service, exchange, given, true);
  PUMICE_TRY(const UsedModel served, find_model_of_lines(service, exchange, given, true));
  PUMICE_TRY(const RequestBody body, with_options(given));
  TextModel& model = *served->text;
  ChatWish wish;
  PUMICE_TRY(wish.text, read_wish(body, model));
  wish.text.count = 1;
  PUMICE_CHECK(read_format(body, wish.text.form));
  PUMICE_TRY(wish.messages, read_chat(body["messages"], body));
  PUMICE_CHECK(read_tools(body, wish));
  PUMICE_CHECK(read_thinking(body, wish));
  PUMICE_TRY(const bool streams, body.boolean_or("stream", true));
  PUMICE_TRY(const std::unique_ptr<Generation> generation, Generation::of_chat(model, std::move(wish)));
  PUMICE_CHECK(generation->start(service.slots, served->name, exchange));
  OllamaAnswer answer(exchange, served->name, true, streams, *generation);
  return answer.finish(generation->run(exchange, answer));
}

// With a chat template the prompt is a question, unless it is raw.
Status ollama_generate(Service& service, Exchange& exchange) {
  PUMICE_TRY(const RequestBody given, RequestBody::read(exchange.request()));
  if (says_nothing(given["prompt"]) && says_nothing(given["images"]))
    return load_or_let_go(service, exchange, given, false);
  PUMICE_TRY(const UsedModel served, find_model_of_lines(service, exchange, given, false));
  PUMICE_TRY(const RequestBody body, with_options(given));
  TextModel& model = *served->text;
  for (const char* field : {"suffix", "template", "context"}) {
    const Json& value = body[field];
    if (!says_nothing(value)) return body.error(field, "this server does not have it");
  }
  ChatWish wish;
  PUMICE_TRY(wish.text, read_wish(body, model));
  wish.text.count = 1;
  PUMICE_CHECK(read_format(body, wish.text.form));
  PUMICE_TRY(const std::string prompt, body.string_or("prompt", ""));
  PUMICE_TRY(const std::string system, body.string_or("system", ""));
  PUMICE_TRY(const bool raw, body.boolean_or("raw", false));
  PUMICE_TRY(const bool streams, body.boolean_or("stream", true));
  const Json& images = body["images"];
  const bool shows = !images.is_null() && !images.empty();
  if (shows && (raw || !model.has_chat()))
    return body.error("images",
                      "pictures are read in chats: leave 'raw' out, with a model that has a template");
  std::unique_ptr<Generation> generation;
  if (raw || !model.has_chat()) {
    PUMICE_TRY(std::vector<uint32_t> ids,
               command::encode_prompt(*model.tokenizer(), system + prompt, request_field("prompt")));
    PUMICE_TRY(generation, Generation::of_prompts(model, {std::move(ids)}, wish.text));
  } else {
    Json messages = Json::array();
    if (!system.empty()) messages.push_back({{"role", "system"}, {"content", system}});
    messages.push_back({{"role", "user"}, {"content", prompt}});
    if (shows) {
      PUMICE_TRY(messages.back()["content"], read_images(images, body, "images", prompt));
    }
    wish.messages = std::move(messages);
    PUMICE_CHECK(read_thinking(body, wish));
    PUMICE_TRY(generation, Generation::of_chat(model, std::move(wish)));
  }
  PUMICE_CHECK(generation->start(service.slots, served->name, exchange));
  OllamaAnswer answer(exchange, served->name, false, streams, *generation);
  return answer.finish(generation->run(exchange, answer));
}

Status ollama_tags(Service& service, Exchange& exchange) {
  Json models = Json::array();
  service.models.list([&](const ServedModels::Listed& each) { models.push_back(entry_of(each)); });
  answer_json(exchange, {{"models", std::move(models)}});
  return {};
}

// Those that are loaded.
Status ollama_ps(Service& service, Exchange& exchange) {
  Json models = Json::array();
  service.models.list([&](const ServedModels::Listed& each) {
    if (!each.model) return;
    models.push_back(entry_of(each));
    models.back()["size_vram"] = each.bytes;
    models.back()["expires_at"] = each.leaves ? time_text(*each.leaves) : "9999-12-31T23:59:59Z"; // never
    if (each.model->text) models.back()["context_length"] = each.model->text->scheduler().context();
  });
  answer_json(exchange, {{"models", std::move(models)}});
  return {};
}

Status ollama_show(Service& service, Exchange& exchange) {
  PUMICE_TRY(const RequestBody body, RequestBody::read(exchange.request()));
  PUMICE_TRY(const std::string other, body.string_or("name", ""));
  PUMICE_TRY(const std::string name, body.string_or("model", other));
  Json told;
  PUMICE_CHECK(service.models.show(name, [&](const ServedModels::Listed& each) { told = shown(each); }));
  answer_json(exchange, told);
  return {};
}
Status ollama_version(Service&, Exchange& exchange) {
  answer_json(exchange, {{"version", command::version_number()}});
  return {};
}

} // namespace pumice::serve
