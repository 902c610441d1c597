#include <utility>

#include <fmt/format.h>

#include "serve/routes/generation.h"
#include "serve/routes/request_media.h"
#include "serve/routes/service.h"

// Anthropic's interface of messages.
namespace pumice::serve {

namespace {

// The text of a content: a string, or a list of blocks of text.
Result<std::string> text_in(const Json& content, const RequestBody& body, const std::string& field) {
  if (content.is_null()) return std::string();
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) return body.error(field, "expected a string or a list of blocks");
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    const Json type = content[i].is_object() ? content[i].value("type", Json()) : Json();
    const Json piece = content[i].is_object() ? content[i].value("text", Json()) : Json();
    if (type != "text" || !piece.is_string()) {
      return body.error(fmt::format("{}[{}]", field, i),
                        "expected a block of the type text: this server reads nothing else here");
    }
    text += piece.get<std::string>();
  }
  return text;
}

// {"type": "image", "source": {"type": "base64", "data": DATA}}
Result<Json> read_image_block(const Json& block, const RequestBody& body, const std::string& place) {
  const Json source = block.value("source", Json());
  const Json type = source.is_object() ? source.value("type", Json()) : Json();
  if (type != "base64")
    return body.error(place + ".source", "expected an object of the type base64: nothing is fetched");
  const std::string field = place + ".source.data";
  PUMICE_TRY(const std::string bytes, read_base64(source.value("data", Json()), field));
  return picture_part(bytes, field);
}

// A message with blocks becomes one message, and one more for each result of a call.
Status read_blocks(const Json& message, const RequestBody& body, const std::string& field, Json& result) {
  const Json role = message["role"];
  std::string thought;
  Json said = Json::array(), calls = Json::array();
  const Json& blocks = message["content"];
  for (size_t i = 0; i < blocks.size(); ++i) {
    const std::string place = fmt::format("{}.content[{}]", field, i);
    const Json& block = blocks[i];
    const Json type = block.is_object() ? block.value("type", Json()) : Json();
    const auto string = [&](const char* name) {
      const Json value = block.value(name, Json());
      return value.is_string() ? value.get<std::string>() : std::string();
    };
    if (type == "text") {
      if (const std::string text = string("text"); !text.empty())
        said.push_back({{"type", "text"}, {"text", text}});
    } else if (type == "image") {
      PUMICE_TRY(Json shown, read_image_block(block, body, place));
      said.push_back(std::move(shown));
    } else if (type == "thinking") {
      thought += string("thinking");
    } else if (type == "redacted_thinking") {
      continue;
    } else if (type == "tool_use") {
      calls.push_back(
          {{"id", string("id")},
           {"type", "function"},
           {"function", {{"name", string("name")}, {"arguments", block.value("input", Json::object())}}}});
    } else if (type == "tool_result") {
      PUMICE_TRY(const std::string text, text_in(block.value("content", Json()), body, place + ".content"));
      result.push_back({{"role", "tool"}, {"tool_call_id", string("tool_use_id")}, {"content", text}});
    } else {
      return body.error(place,
                        fmt::format("its type is {}: expected text, image, thinking, tool_use or tool_result",
                                    type.is_string() ? type.dump() : "missing"));
    }
  }
  if (said.empty() && calls.empty() && thought.empty()) return {};
  Json made = {{"role", role}, {"content", said}};
  if (!thought.empty()) made["reasoning_content"] = thought;
  if (!calls.empty()) made["tool_calls"] = std::move(calls);
  result.push_back(std::move(made));
  return {};
}

Status read_conversation(const RequestBody& body, ChatWish& wish) {
  Json all = Json::array();
  PUMICE_TRY(const std::string system, text_in(body["system"], body, "system"));
  if (!system.empty()) all.push_back({{"role", "system"}, {"content", system}});
  const Json& messages = body["messages"];
  if (!messages.is_array() || messages.empty())
    return body.error("messages", "expected a list with a message");
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string field = fmt::format("messages[{}]", i);
    const Json role = messages[i].is_object() ? messages[i].value("role", Json()) : Json();
    if (role != "user" && role != "assistant")
      return body.error(field + ".role", "expected user or assistant");
    const Json content = messages[i].value("content", Json());
    if (content.is_array()) {
      PUMICE_CHECK(read_blocks(messages[i], body, field, all));
    } else if (content.is_string()) {
      all.push_back({{"role", role}, {"content", content}});
    } else {
      return body.error(field + ".content", "expected a string or a list of blocks");
    }
  }
  PUMICE_TRY(wish.messages, read_messages(std::move(all)));
  return {};
}

Status read_own_tools(const RequestBody& body, ChatWish& wish) {
  const Json& tools = body["tools"];
  if (tools.is_null() || (tools.is_array() && tools.empty())) return {};
  if (!tools.is_array()) return body.error("tools", "expected a list");
  Json all = Json::array();
  for (size_t i = 0; i < tools.size(); ++i) {
    const Json name = tools[i].is_object() ? tools[i].value("name", Json()) : Json();
    if (!name.is_string()) return body.error(fmt::format("tools[{}].name", i), "expected a string");
    Json function = {{"name", name}};
    if (tools[i].contains("description")) function["description"] = tools[i]["description"];
    function["parameters"] = tools[i].value("input_schema", Json({{"type", "object"}}));
    all.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
  wish.variables["tools"] = std::move(all);
  const Json& choice = body["tool_choice"];
  if (choice.is_null()) return {};
  const Json type = choice.is_object() ? choice.value("type", Json()) : Json();
  const Json name = choice.is_object() ? choice.value("name", Json()) : Json();
  if (type == "auto" || type == "none") {
    wish.tool_choice = type;
  } else if (type == "any") {
    wish.tool_choice = "required";
  } else if (type == "tool" && name.is_string()) {
    wish.tool_choice = name;
  } else {
    return body.error("tool_choice",
                      "expected an object whose 'type' is auto, any, none or tool, with the 'name' of one");
  }
  return {};
}

Result<ChatWish> read_request(const RequestBody& body, TextModel& model) {
  ChatWish wish;
  PUMICE_TRY(wish.text, read_wish(body, model));
  wish.text.count = 1;
  PUMICE_CHECK(read_stops(body, "stop_sequences", wish.text.stops));
  PUMICE_CHECK(read_conversation(body, wish));
  PUMICE_CHECK(read_own_tools(body, wish));
  const Json& thinking = body["thinking"];
  const Json type = thinking.is_object() ? thinking.value("type", Json()) : Json();
  if (type == "enabled" || type == "adaptive")
    wish.thinking = true;
  else if (type == "disabled")
    wish.thinking = false;
  else if (!thinking.is_null())
    return body.error("thinking", "expected an object whose 'type' is enabled or disabled");
  return wish;
}

// The blocks of an answer, as they come.
class MessageAnswer : public TextTaker {
public:
  MessageAnswer(Exchange& exchange, std::string model, const std::vector<std::string>& stops, bool streams,
                const Generation& generation)
      : exchange_(exchange), stops_(stops), streams_(streams), generation_(generation) {
    message_ = {{"id", new_id("msg_")},      {"type", "message"},        {"role", "assistant"},
                {"model", std::move(model)}, {"content", Json::array()}, {"stop_reason", nullptr},
                {"stop_sequence", nullptr},  {"usage", usage()}};
    if (!streams_) return;
    exchange_.begin(200, "text/event-stream");
    send("message_start", {{"message", message_}});
  }

  void text(size_t, const std::string&) override {}
  void token(size_t, const TokenLogProbabilities&) override {}
  void part(size_t, const AnswerPart& part) override {
    if (part.kind == AnswerPart::Kind::tool_call) {
      close();
      Json block = {{"type", "tool_use"},
                    {"id", part.call.id.empty() ? new_id("toolu_") : part.call.id},
                    {"name", part.call.name},
                    {"input", Json::object()}};
      if (streams_) {
        send("content_block_start", {{"index", blocks_.size()}, {"content_block", block}});
        send("content_block_delta",
             {{"index", blocks_.size()},
              {"delta", {{"type", "input_json_delta"}, {"partial_json", text_of(part.call.arguments)}}}});
        send("content_block_stop", {{"index", blocks_.size()}});
      }
      block["input"] = part.call.arguments;
      blocks_.push_back(std::move(block));
      called_ = true;
      return;
    }
    if (part.text.empty()) return;
    const bool thinks = part.kind == AnswerPart::Kind::thinking;
    if (!open_ || thinks != thinks_) {
      close();
      open_ = true;
      thinks_ = thinks;
      blocks_.push_back(thinks ? Json({{"type", "thinking"}, {"thinking", ""}, {"signature", ""}})
                               : Json({{"type", "text"}, {"text", ""}}));
      if (streams_)
        send("content_block_start", {{"index", blocks_.size() - 1}, {"content_block", blocks_.back()}});
    }
    const char* field = thinks ? "thinking" : "text";
    blocks_.back()[field] = blocks_.back()[field].get<std::string>() + part.text;
    if (streams_) {
      send("content_block_delta",
           {{"index", blocks_.size() - 1},
            {"delta", {{"type", thinks ? "thinking_delta" : "text_delta"}, {field, part.text}}}});
    }
  }
  void end(size_t, const TextEnd& end) override {
    close();
    const bool stopped = end.reason == TextEnd::Reason::stop_string;
    reason_ = end.reason == TextEnd::Reason::length ? "max_tokens"
              : stopped                             ? "stop_sequence"
              : called_                             ? "tool_use"
                                                    : "end_turn";
    if (stopped && stops_.size() == 1) sequence_ = stops_[0]; // of several it is not known which
  }
  bool flush() override { return gone_not_; }

  Status finish(const Status& status) {
    if (!status.ok()) {
      if (!streams_) return status;
      exchange_.failed(status.error());
      exchange_.write("event: error\ndata: " + error_body(status_of(status.error()), status.error().text()) +
                      "\n");
      return {};
    }
    if (!streams_) {
      message_["content"] = blocks_;
      message_["stop_reason"] = reason_;
      message_["stop_sequence"] = sequence_;
      message_["usage"] = usage();
      answer_json(exchange_, message_);
      return {};
    }
    send("message_delta",
         {{"delta", {{"stop_reason", reason_}, {"stop_sequence", sequence_}}}, {"usage", usage()}});
    send("message_stop", Json::object());
    return {};
  }

private:
  Json usage() const {
    return {{"input_tokens", generation_.prompt_tokens()}, {"output_tokens", generation_.tokens()}};
  }
  void close() {
    if (!std::exchange(open_, false) || !streams_) return;
    send("content_block_stop", {{"index", blocks_.size() - 1}});
  }
  void send(const char* event, const Json& members) {
    Json data = {{"type", event}};
    data.update(members);
    gone_not_ = exchange_.write(fmt::format("event: {}\ndata: {}\n\n", event, text_of(data)));
  }

  Exchange& exchange_;
  const std::vector<std::string> stops_;
  const bool streams_;
  const Generation& generation_;
  Json message_, blocks_ = Json::array(), sequence_;
  const char* reason_ = "end_turn";
  bool open_ = false, thinks_ = false, called_ = false, gone_not_ = true;
};

} // namespace

Status anthropic_messages(Service& service, Exchange& exchange) {
  PUMICE_TRY(const RequestBody body, RequestBody::read(exchange.request()));
  PUMICE_TRY(const UsedModel served, find_model(service, exchange, body, ServedKind::Use::chat));
  if (!body.has("max_tokens")) return body.error("max_tokens", "it is missing: expected a number of tokens");
  PUMICE_TRY(ChatWish wish, read_request(body, *served->text));
  PUMICE_TRY(const bool streams, body.boolean_or("stream", false));
  const std::vector<std::string> stops = wish.text.stops;
  PUMICE_TRY(const std::unique_ptr<Generation> generation,
             Generation::of_chat(*served->text, std::move(wish)));
  PUMICE_CHECK(generation->start(service.slots, served->name, exchange));
  MessageAnswer answer(exchange, served->name, stops, streams, *generation);
  return answer.finish(generation->run(exchange, answer));
}

Status anthropic_count(Service& service, Exchange& exchange) {
  PUMICE_TRY(const RequestBody body, RequestBody::read(exchange.request()));
  PUMICE_TRY(const UsedModel served, find_model(service, exchange, body, ServedKind::Use::chat));
  PUMICE_TRY(ChatWish wish, read_request(body, *served->text));
  PUMICE_TRY(const std::unique_ptr<Generation> generation,
             Generation::of_chat(*served->text, std::move(wish)));
  answer_json(exchange, {{"input_tokens", generation->prompt_tokens()}});
  return {};
}

} // namespace pumice::serve
