#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "serve/routes/generation.h"
#include "serve/routes/service.h"

// OpenAI's interface of responses. Nothing is kept: each request has the whole conversation.
namespace pumice::serve {

namespace {

// A message, a call, or the result of one.
Status read_item(const RequestBody& body, const Json& item, const std::string& field, Json& messages) {
  if (!item.is_object()) return body.error(field, "expected an object");
  const Json type = item.value("type", Json("message"));
  const auto string = [&](const char* name) {
    const Json value = item.value(name, Json());
    return value.is_string() ? value.get<std::string>() : std::string();
  };
  if (type == "message") {
    messages.push_back({{"role", item.value("role", Json())}, {"content", item.value("content", Json())}});
  } else if (type == "function_call") {
    const Json call = {{"id", string("call_id")},
                       {"type", "function"},
                       {"function", {{"name", string("name")}, {"arguments", string("arguments")}}}};
    const bool follows = !messages.empty() && messages.back().contains("tool_calls");
    if (!follows) messages.push_back({{"role", "assistant"}, {"content", ""}, {"tool_calls", Json::array()}});
    messages.back()["tool_calls"].push_back(call);
  } else if (type == "function_call_output") {
    messages.push_back(
        {{"role", "tool"}, {"tool_call_id", string("call_id")}, {"content", item.value("output", Json())}});
  } else if (type != "reasoning") {
    return body.error(field + ".type",
                      fmt::format("is {}: expected message, function_call, function_call_output or reasoning",
                                  type.dump()));
  }
  return {};
}

Status read_input(const RequestBody& body, ChatWish& wish) {
  Json messages = Json::array();
  PUMICE_TRY(const std::string instructions, body.string_or("instructions", ""));
  if (!instructions.empty()) messages.push_back({{"role", "system"}, {"content", instructions}});
  const Json& input = body["input"];
  if (input.is_string()) {
    messages.push_back({{"role", "user"}, {"content", input}});
  } else if (input.is_array() && !input.empty()) {
    for (size_t i = 0; i < input.size(); ++i)
      PUMICE_CHECK(read_item(body, input[i], fmt::format("input[{}]", i), messages));
  } else {
    return body.error("input", "expected a string or a list of items");
  }
  PUMICE_TRY(wish.messages, read_messages(std::move(messages)));
  return {};
}

// Tools as the interface of chats has them: these have what they are in one object.
Result<RequestBody> with_chat_tools(const RequestBody& body) {
  Json object = body.object();
  if (const Json& tools = body["tools"]; tools.is_array()) {
    Json all = Json::array();
    for (size_t i = 0; i < tools.size(); ++i) {
      if (!tools[i].is_object() || tools[i].value("type", Json()) != "function")
        return body.error(fmt::format("tools[{}].type", i),
                          "expected function: this server has no tools of its own");
      Json function = tools[i];
      function.erase("type");
      all.push_back({{"type", "function"}, {"function", std::move(function)}});
    }
    object["tools"] = std::move(all);
  }
  if (const Json& choice = body["tool_choice"]; choice.is_object())
    object["tool_choice"] = {{"type", "function"}, {"function", {{"name", choice.value("name", Json())}}}};
  if (body.has("max_output_tokens")) object["max_tokens"] = body["max_output_tokens"];
  const Json& text = body["text"];
  if (text.is_object() && text.contains("format")) object["response_format"] = text["format"];
  return RequestBody(std::move(object));
}

class Response : public TextTaker {
public:
  Response(Exchange& exchange, const std::string& model, const RequestBody& body, bool streams,
           const Generation& generation)
      : exchange_(exchange), streams_(streams), generation_(generation) {
    response_ = {{"id", new_id("resp_")},
                 {"object", "response"},
                 {"created_at", std::time(nullptr)},
                 {"status", "in_progress"},
                 {"error", nullptr},
                 {"incomplete_details", nullptr},
                 {"instructions", body["instructions"]},
                 {"max_output_tokens", body["max_output_tokens"]},
                 {"model", model},
                 {"output", Json::array()},
                 {"parallel_tool_calls", true},
                 {"previous_response_id", nullptr},
                 {"store", false},
                 {"temperature", body["temperature"]},
                 {"text", {{"format", {{"type", "text"}}}}},
                 {"tool_choice", body.has("tool_choice") ? body["tool_choice"] : Json("auto")},
                 {"tools", body.has("tools") ? body["tools"] : Json::array()},
                 {"top_p", body["top_p"]},
                 {"usage", nullptr},
                 {"metadata", Json::object()}};
    if (!streams_) return;
    exchange_.begin(200, "text/event-stream");
    send("response.created", {{"response", response_}});
    send("response.in_progress", {{"response", response_}});
  }

  void text(size_t, const std::string&) override {}
  void token(size_t, const TokenLogProbabilities&) override {}
  void part(size_t, const AnswerPart& part) override {
    if (part.kind == AnswerPart::Kind::tool_call) return call(part.call);
    if (part.text.empty()) return;
    const bool thinks = part.kind == AnswerPart::Kind::thinking;
    if (!open_ || thinks != thinks_) {
      close();
      begin(thinks);
    }
    Json& piece = output().back()["content"][0]["text"];
    piece = piece.get<std::string>() + part.text;
    send_piece(thinks ? "response.reasoning_text.delta" : "response.output_text.delta",
               {{"delta", part.text}});
  }
  void end(size_t, const TextEnd& end) override {
    close();
    cut_ = end.reason == TextEnd::Reason::length;
  }
  bool flush() override { return listens_; }

  Status finish(const Status& status) {
    if (!status.ok()) {
      if (!streams_) return status;
      exchange_.failed(status.error());
      send("error",
           {{"code", status_of(status.error())}, {"message", status.error().text()}, {"param", nullptr}});
      return {};
    }
    const uint64_t prompt = generation_.prompt_tokens(), tokens = generation_.tokens();
    response_["status"] = cut_ ? "incomplete" : "completed";
    if (cut_) response_["incomplete_details"] = {{"reason", "max_output_tokens"}};
    response_["usage"] = {
        {"input_tokens", prompt},
        {"input_tokens_details", {{"cached_tokens", std::min(prompt, generation_.reused_tokens())}}},
        {"output_tokens", tokens},
        {"output_tokens_details", {{"reasoning_tokens", 0}}},
        {"total_tokens", prompt + tokens}};
    if (streams_)
      send(cut_ ? "response.incomplete" : "response.completed", {{"response", response_}});
    else
      answer_json(exchange_, response_);
    return {};
  }

private:
  Json& output() { return response_["output"]; }

  void begin(bool thinks) {
    open_ = true;
    thinks_ = thinks;
    if (thinks) {
      output().push_back({{"type", "reasoning"},
                          {"id", new_id("rs_")},
                          {"summary", Json::array()},
                          {"content", Json::array()}});
    } else {
      output().push_back({{"type", "message"},
                          {"id", new_id("msg_")},
                          {"status", "in_progress"},
                          {"role", "assistant"},
                          {"content", Json::array()}});
    }
    send_item("response.output_item.added");
    Json piece = {{"type", thinks ? "reasoning_text" : "output_text"}, {"text", ""}};
    if (!thinks) piece["annotations"] = Json::array();
    output().back()["content"].push_back(piece);
    send_piece("response.content_part.added", {{"part", piece}});
  }
  void close() {
    if (!std::exchange(open_, false)) return;
    Json& item = output().back();
    const Json piece = item["content"][0];
    send_piece(thinks_ ? "response.reasoning_text.done" : "response.output_text.done",
               {{"text", piece["text"]}});
    send_piece("response.content_part.done", {{"part", piece}});
    if (!thinks_) item["status"] = "completed";
    send_item("response.output_item.done");
  }
  void call(const ToolCall& made) {
    close();
    const std::string arguments = text_of(made.arguments);
    output().push_back({{"type", "function_call"},
                        {"id", new_id("fc_")},
                        {"call_id", made.id.empty() ? new_id("call_") : made.id},
                        {"name", made.name},
                        {"arguments", ""},
                        {"status", "in_progress"}});
    send_item("response.output_item.added");
    send_part("response.function_call_arguments.delta", {{"delta", arguments}});
    send_part("response.function_call_arguments.done", {{"arguments", arguments}});
    output().back()["arguments"] = arguments;
    output().back()["status"] = "completed";
    send_item("response.output_item.done");
  }

  // Of the last item of the output.
  void send_item(const char* type) {
    send(type, {{"output_index", output().size() - 1}, {"item", output().back()}});
  }
  void send_part(const char* type, Json members) {
    members["item_id"] = output().back()["id"];
    members["output_index"] = output().size() - 1;
    send(type, members);
  }
  void send_piece(const char* type, Json members) {
    members["content_index"] = 0;
    send_part(type, std::move(members));
  }
  void send(const char* type, const Json& members) {
    if (!streams_) return;
    Json data = {{"type", type}, {"sequence_number", number_++}};
    data.update(members);
    listens_ = exchange_.write(fmt::format("event: {}\ndata: {}\n\n", type, text_of(data)));
  }

  Exchange& exchange_;
  const bool streams_;
  const Generation& generation_;
  Json response_;
  uint64_t number_ = 0;
  bool open_ = false, thinks_ = false, cut_ = false, listens_ = true;
};

} // namespace

Status responses(Service& service, Exchange& exchange) {
  PUMICE_TRY(const RequestBody given, RequestBody::read(exchange.request()));
  PUMICE_TRY(const UsedModel served, find_model(service, exchange, given, ServedKind::Use::chat));
  for (const char* field : {"previous_response_id", "conversation", "prompt", "background"}) {
    if (const Json& value = given[field]; !value.is_null() && value != false)
      return given.error(field, "this server keeps no conversations: send all of it in 'input'");
  }
  PUMICE_TRY(const RequestBody body, with_chat_tools(given));
  TextModel& model = *served->text;
  ChatWish wish;
  PUMICE_TRY(wish.text, read_wish(body, model));
  wish.text.count = 1;
  PUMICE_CHECK(read_input(body, wish));
  PUMICE_CHECK(read_tools(body, wish));
  const Json& reasoning = body["reasoning"];
  if (!reasoning.is_null() && !reasoning.is_object()) return body.error("reasoning", "expected an object");
  if (reasoning.contains("effort")) {
    if (reasoning["effort"] == "none")
      wish.thinking = false;
    else if (reasoning["effort"].is_string())
      wish.variables["reasoning_effort"] = reasoning["effort"];
  }
  PUMICE_TRY(const bool streams, body.boolean_or("stream", false));
  PUMICE_TRY(const std::unique_ptr<Generation> generation, Generation::of_chat(model, std::move(wish)));
  PUMICE_CHECK(generation->start(service.slots, served->name, exchange));
  Response response(exchange, served->name, given, streams, *generation);
  return response.finish(generation->run(exchange, response));
}

} // namespace pumice::serve
