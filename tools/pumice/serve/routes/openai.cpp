#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "base/path.h"
#include "options/prompt.h"
#include "serve/routes/generation.h"
#include "serve/routes/service.h"

// OpenAI's interface of texts.
namespace pumice::serve {

namespace {

Json usage_of(const Generation& generation) {
  const uint64_t prompt = generation.prompt_tokens(), completion = generation.tokens();
  return {{"prompt_tokens", prompt},
          {"completion_tokens", completion},
          {"total_tokens", prompt + completion},
          {"prompt_tokens_details", {{"cached_tokens", std::min(prompt, generation.reused_tokens())}}}};
}

const char* reason_of(const TextEnd& end) {
  return end.reason == TextEnd::Reason::length ? "length" : "stop";
}

Json call_of(const ToolCall& call, size_t index) {
  return {{"index", index},
          {"id", call.id.empty() ? new_id("call_") : call.id},
          {"type", "function"},
          {"function", {{"name", call.name}, {"arguments", text_of(call.arguments)}}}};
}

// What all answers begin with.
struct Heading {
  std::string id, object, model;
  std::time_t created = std::time(nullptr);

  Json with(Json choices) const {
    return {{"id", id},
            {"object", object},
            {"created", created},
            {"model", model},
            {"choices", std::move(choices)}};
  }
};

Json token_of(TextModel& model, const TokenLogProbability& each) {
  const std::string bytes = model.bytes(each.token);
  Json numbers = Json::array();
  for (const char c : bytes) numbers.push_back(static_cast<unsigned char>(c));
  return {{"token", bytes}, {"logprob", each.log_probability}, {"bytes", std::move(numbers)}};
}

Json log_probability_of(TextModel& model, const TokenLogProbabilities& token, uint32_t top) {
  Json entry = token_of(model, token);
  entry["top_logprobs"] = Json::array();
  for (size_t i = 0; i < std::min<size_t>(top, token.top.size()); ++i)
    entry["top_logprobs"].push_back(token_of(model, token.top[i]));
  return entry;
}

// Events of a stream, or an answer at its end.
class Answer : public TextTaker {
public:
  Answer(Exchange& exchange, TextModel& model, Heading heading, const TextWish& wish, bool streams,
         bool with_usage, const Generation& generation)
      : exchange_(exchange), model_(model), heading_(std::move(heading)), wish_(wish), streams_(streams),
        with_usage_(with_usage), generation_(generation), log_(generation.texts(), Json::array()) {}

  bool flush() override { return open_; }
  void token(size_t index, const TokenLogProbabilities& each) override {
    if (wish_.log_probabilities) add_token(index, each);
  }

  void begin() {
    if (streams_) exchange_.begin(200, "text/event-stream");
  }
  // `status`: of the generation.
  Status finish(const Status& status) {
    if (!streams_) {
      PUMICE_CHECK(status);
      Json answer = heading_.with(choices());
      answer["usage"] = usage_of(generation_);
      answer_json(exchange_, answer);
      return {};
    }
    if (!status.ok()) {
      exchange_.failed(status.error());
      exchange_.write("data: " + error_body(status_of(status.error()), status.error().text()) + "\n");
      return {};
    }
    if (with_usage_) {
      Json last = heading_.with(Json::array());
      last["usage"] = usage_of(generation_);
      send(last);
    }
    exchange_.write("data: [DONE]\n\n");
    return {};
  }

protected:
  virtual void add_token(size_t index, const TokenLogProbabilities& each) = 0;
  virtual Json choices() = 0;
  void send(const Json& event) { open_ = exchange_.write(fmt::format("data: {}\n\n", text_of(event))); }

  Exchange& exchange_;
  TextModel& model_;
  const Heading heading_;
  const TextWish& wish_;
  const bool streams_, with_usage_;
  const Generation& generation_;
  std::vector<Json> log_; // of tokens that were not sent
  bool open_ = true;
};

class ChatAnswers : public Answer {
public:
  template <class... Arguments>
  explicit ChatAnswers(Arguments&&... arguments)
      : Answer(std::forward<Arguments>(arguments)...), answers_(generation_.texts()),
        ends_(answers_.size(), "stop") {
    if (!streams_) return;
    begin();
    for (size_t i = 0; i < answers_.size(); ++i) send_delta(i, {{"role", "assistant"}, {"content", ""}});
  }

  void text(size_t, const std::string&) override {}
  void part(size_t index, const AnswerPart& part) override {
    answers_[index].add(part);
    if (!streams_) return;
    if (part.kind == AnswerPart::Kind::tool_call) {
      const size_t number = answers_[index].tool_calls.size() - 1;
      send_delta(index, {{"tool_calls", Json::array({call_of(part.call, number)})}});
    } else if (!part.text.empty()) {
      const bool thinks = part.kind == AnswerPart::Kind::thinking;
      send_delta(index, {{thinks ? "reasoning_content" : "content", part.text}});
    }
  }
  void end(size_t index, const TextEnd& end) override {
    ends_[index] = reason_of(end);
    if (!answers_[index].tool_calls.empty() && end.reason != TextEnd::Reason::length)
      ends_[index] = "tool_calls";
    if (streams_) send_delta(index, Json::object(), ends_[index]);
  }

private:
  void add_token(size_t index, const TokenLogProbabilities& each) override {
    log_[index].push_back(log_probability_of(model_, each, wish_.top));
  }
  void send_delta(size_t index, Json delta, const char* end = nullptr) {
    Json choice = {{"index", index}, {"delta", std::move(delta)}, {"finish_reason", nullptr}};
    if (end) choice["finish_reason"] = end;
    if (wish_.log_probabilities && !log_[index].empty()) {
      choice["logprobs"] = {{"content", std::move(log_[index])}};
      log_[index] = Json::array();
    }
    send(heading_.with(Json::array({std::move(choice)})));
  }
  Json choices() override {
    Json all = Json::array();
    for (size_t i = 0; i < answers_.size(); ++i) {
      const Answered& answered = answers_[i];
      Json message = {{"role", "assistant"}, {"content", answered.content}};
      if (!answered.thinking.empty()) message["reasoning_content"] = answered.thinking;
      if (!answered.tool_calls.empty()) {
        if (answered.content.empty()) message["content"] = nullptr;
        message["tool_calls"] = Json::array();
        for (const ToolCall& call : answered.tool_calls) {
          Json made = call_of(call, 0);
          made.erase("index");
          message["tool_calls"].push_back(std::move(made));
        }
      }
      Json choice = {{"index", i}, {"message", std::move(message)}, {"finish_reason", ends_[i]}};
      if (wish_.log_probabilities) choice["logprobs"] = {{"content", std::move(log_[i])}};
      all.push_back(std::move(choice));
    }
    return all;
  }

  std::vector<Answered> answers_;
  std::vector<const char*> ends_;
};

class Continuations : public Answer {
public:
  template <class... Arguments>
  explicit Continuations(Arguments&&... arguments)
      : Answer(std::forward<Arguments>(arguments)...), texts_(generation_.texts()),
        ends_(texts_.size(), "stop"), sent_(texts_.size()) {
    for (Json& each : log_) each = empty_log();
    begin();
  }

  void part(size_t, const AnswerPart&) override {}
  void text(size_t index, const std::string& piece) override {
    texts_[index] += piece;
    if (streams_ && !piece.empty()) send_piece(index, piece, nullptr);
  }
  void end(size_t index, const TextEnd& end) override {
    ends_[index] = reason_of(end);
    if (streams_) send_piece(index, "", ends_[index]);
  }

private:
  static Json empty_log() {
    return {{"tokens", Json::array()},
            {"token_logprobs", Json::array()},
            {"top_logprobs", Json::array()},
            {"text_offset", Json::array()}};
  }
  void add_token(size_t index, const TokenLogProbabilities& each) override {
    Json top = Json::object();
    for (size_t i = 0; i < std::min<size_t>(wish_.top, each.top.size()); ++i)
      top[model_.bytes(each.top[i].token)] = each.top[i].log_probability;
    log_[index]["tokens"].push_back(model_.bytes(each.token));
    log_[index]["token_logprobs"].push_back(each.log_probability);
    log_[index]["top_logprobs"].push_back(std::move(top));
    log_[index]["text_offset"].push_back(sent_[index]);
    sent_[index] += model_.bytes(each.token).size();
  }
  Json choice(size_t index, const std::string& piece, const char* end) {
    Json made = {{"index", index}, {"text", piece}, {"logprobs", nullptr}, {"finish_reason", nullptr}};
    if (end) made["finish_reason"] = end;
    if (wish_.log_probabilities) {
      made["logprobs"] = std::move(log_[index]);
      log_[index] = empty_log();
    }
    return made;
  }
  void send_piece(size_t index, const std::string& piece, const char* end) {
    send(heading_.with(Json::array({choice(index, piece, end)})));
  }
  Json choices() override {
    Json all = Json::array();
    for (size_t i = 0; i < texts_.size(); ++i) all.push_back(choice(i, texts_[i], ends_[i]));
    return all;
  }

  std::vector<std::string> texts_;
  std::vector<const char*> ends_;
  std::vector<size_t> sent_; // bytes of tokens
};

struct StreamWish {
  bool streams = false, with_usage = false;
};

Result<StreamWish> read_stream(const RequestBody& body) {
  StreamWish wish;
  PUMICE_TRY(wish.streams, body.boolean_or("stream", false));
  const Fields fields = body.fields();
  PUMICE_TRY(const Fields options, fields.object_or_empty("stream_options"));
  PUMICE_TRY(wish.with_usage, options.boolean_or("include_usage", false));
  return wish;
}

constexpr uint32_t most_top = 20; // as OpenAI has it

Status read_chat_log(const RequestBody& body, TextWish& wish) {
  PUMICE_TRY(wish.log_probabilities, body.boolean_or("logprobs", false));
  const Fields fields = body.fields();
  PUMICE_TRY(wish.top, fields.u32_or("top_logprobs", 0, most_top, 0));
  if (wish.top > 0 && !wish.log_probabilities)
    return body.error("top_logprobs", "it has an effect only where 'logprobs' is true");
  if (wish.log_probabilities) wish.sampling.log_probabilities = std::max(wish.top, 1u);
  return {};
}

Status refuse_fields(const RequestBody& body, std::initializer_list<const char*> fields) {
  for (const char* each : fields) {
    const Json& value = body[each];
    const bool nothing = value.is_null() || value == false || value == "" || value == 0;
    if (!nothing) return body.error(each, "this server does not have it");
  }
  return {};
}

// A text, ids, or a list of either.
Result<std::vector<std::vector<uint32_t>>> read_prompts(const RequestBody& body, const Tokenizer& tokenizer) {
  const Json& prompt = body["prompt"];
  const std::string source = request_field("prompt");
  const auto ids = [&](const Json& list) -> Result<std::vector<uint32_t>> {
    std::vector<uint32_t> all;
    for (const Json& each : list) {
      if (!each.is_number_unsigned() || each.get<uint64_t>() > UINT32_MAX)
        return body.error("prompt", "expected a text, ids of tokens, or a list of either");
      all.push_back(each.get<uint32_t>());
    }
    return all;
  };
  const auto one = [&](const Json& each) -> Result<std::vector<uint32_t>> {
    if (each.is_string()) return command::encode_prompt(tokenizer, each.get<std::string>(), source);
    if (each.is_array()) return ids(each);
    return body.error("prompt", "expected a text, ids of tokens, or a list of either");
  };
  std::vector<std::vector<uint32_t>> prompts;
  const bool list = prompt.is_array() && !prompt.empty() && !prompt[0].is_number();
  constexpr size_t most_prompts = 256;
  if (list && prompt.size() > most_prompts)
    return body.error("prompt", fmt::format("expected at most {} texts", most_prompts));
  for (size_t i = 0; i < (list ? prompt.size() : 1); ++i) {
    PUMICE_TRY(std::vector<uint32_t> read, one(list ? prompt[i] : prompt));
    prompts.push_back(std::move(read));
  }
  return prompts;
}

// A name at the end of a path: clients write the slash of a folder's model as %2F.
std::string name_in_path(std::string_view text) {
  std::string name;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned byte = 0;
    const char* const digits = text.data() + i + 1;
    const bool coded = text[i] == '%' && i + 2 < text.size() &&
                       std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2;
    name += coded ? static_cast<char>(byte) : text[i];
    if (coded) i += 2;
  }
  return name;
}

Json description_of(const Service& service, const ServedModels::Listed& listed) {
  const ServedKind& kind = listed.kind;
  Json made = {{"id", listed.name},    {"object", "model"},   {"created", listed.created},
               {"owned_by", "pumice"}, {"kind", kind.name()}, {"loaded", listed.model != nullptr}};
  if (kind.sees) made["vision"] = true;
  if (kind.hears) made["audio"] = true;
  if (kind.transcribes) made["transcribes"] = true;
  if (kind.can(ServedKind::Use::classes)) made["reads"] = kind.of_pictures ? "image" : "text";
  if (kind.can(ServedKind::Use::voice)) {
    made["voices"] = Json::array({"default"});
    for (const auto& [name, profile] : service.models.voices()) made["voices"].push_back(name);
  }
  if (!listed.model) return made;
  const ServedModel& model = *listed.model;
  if (model.text) made["context"] = model.text->scheduler().context();
  if (model.text && !model.text->adapters().empty()) {
    made["adapters"] = Json::array();
    for (const auto& [path, scale] : model.text->adapters())
      made["adapters"].push_back(
          {{"id", made["adapters"].size()}, {"name", path_text(path_of(path).stem())}, {"scale", scale}});
  }
  if (model.vectors) made["dimensions"] = model.vectors->columns();
  if (model.voice) made["sample_rate"] = model.voice->sample_rate();
  return made;
}

} // namespace

Status chat_completions(Service& service, Exchange& exchange) {
  PUMICE_TRY(const RequestBody body, RequestBody::read(exchange.request()));
  PUMICE_TRY(const UsedModel served, find_model(service, exchange, body, ServedKind::Use::chat));
  TextModel& model = *served->text;
  PUMICE_CHECK(refuse_fields(body, {"functions", "audio", "web_search_options"}));
  ChatWish wish;
  PUMICE_TRY(wish.text, read_wish(body, model));
  PUMICE_CHECK(read_chat_log(body, wish.text));
  PUMICE_TRY(wish.messages, read_messages(body["messages"]));
  if (const Json& variables = body["chat_template_kwargs"]; !variables.is_null()) {
    if (!variables.is_object() || variables.contains("messages"))
      return body.error("chat_template_kwargs", "expected an object of the template's variables");
    wish.variables = variables;
  }
  if (body.has("reasoning_effort")) {
    PUMICE_TRY(const std::string effort, body.string_or("reasoning_effort", ""));
    if (effort == "none")
      wish.thinking = false;
    else
      wish.variables["reasoning_effort"] = effort;
  }
  PUMICE_CHECK(read_tools(body, wish));
  PUMICE_TRY(const StreamWish stream, read_stream(body));
  const TextWish text = wish.text;
  PUMICE_TRY(const std::unique_ptr<Generation> generation, Generation::of_chat(model, std::move(wish)));
  PUMICE_CHECK(generation->start(service.slots, served->name, exchange));
  Heading heading{new_id("chatcmpl-"), stream.streams ? "chat.completion.chunk" : "chat.completion",
                  served->name};
  ChatAnswers answers(exchange, model, std::move(heading), text, stream.streams, stream.with_usage,
                      *generation);
  return answers.finish(generation->run(exchange, answers));
}

Status completions(Service& service, Exchange& exchange) {
  PUMICE_TRY(const RequestBody body, RequestBody::read(exchange.request()));
  PUMICE_TRY(const UsedModel served, find_model(service, exchange, body, ServedKind::Use::text));
  TextModel& model = *served->text;
  PUMICE_CHECK(refuse_fields(body, {"echo", "suffix"}));
  PUMICE_TRY(TextWish wish, read_wish(body, model));
  constexpr uint32_t usual_tokens = 16; // as OpenAI has it
  if (!body.has("max_tokens")) wish.max_tokens = usual_tokens;
  if (const Json& best = body["best_of"]; !best.is_null() && best != wish.count)
    return body.error("best_of", "this server has it only where it is the same as 'n'");
  const Fields fields = body.fields();
  if (body.has("logprobs")) {
    PUMICE_TRY(wish.top, fields.u32_or("logprobs", 0, most_top, 0));
    wish.log_probabilities = true;
    wish.sampling.log_probabilities = std::max(wish.top, 1u);
  }
  PUMICE_TRY(std::vector<std::vector<uint32_t>> prompts, read_prompts(body, *model.tokenizer()));
  PUMICE_TRY(const StreamWish stream, read_stream(body));
  PUMICE_TRY(const std::unique_ptr<Generation> generation,
             Generation::of_prompts(model, std::move(prompts), wish));
  PUMICE_CHECK(generation->start(service.slots, served->name, exchange));
  Heading heading{new_id("cmpl-"), "text_completion", served->name};
  Continuations answers(exchange, model, std::move(heading), wish, stream.streams, stream.with_usage,
                        *generation);
  return answers.finish(generation->run(exchange, answers));
}

Status list_models(Service& service, Exchange& exchange) {
  Json list = Json::array();
  service.models.list(
      [&](const ServedModels::Listed& each) { list.push_back(description_of(service, each)); });
  answer_json(exchange, {{"object", "list"}, {"data", std::move(list)}});
  return {};
}

Status show_model(Service& service, Exchange& exchange) {
  constexpr std::string_view beginning = "/v1/models/";
  const std::string name = name_in_path(exchange.request().path.substr(beginning.size()));
  Json description;
  PUMICE_CHECK(service.models.show(
      name, [&](const ServedModels::Listed& listed) { description = description_of(service, listed); }));
  answer_json(exchange, description);
  return {};
}

} // namespace pumice::serve
