#include "text/chat/chat.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "text/chat/argument_types.h"

namespace pumice {

namespace {

using nlohmann::ordered_json;

bool has_role(const ordered_json& message, const char* role) {
  return message.value("role", "") == role;
}

// Where the second turn begins, the first being forgotten before it; 0 if there is only one.
size_t second_turn(const ordered_json& messages) {
  size_t turns = 0;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (has_role(messages[i], "user") && ++turns == 2) return i;
  }
  return 0;
}

size_t first_turn(const ordered_json& messages) {
  return !messages.empty() && has_role(messages[0], "system") ? 1 : 0;
}

// Tokens that an answer has at least.
size_t room_for_answer(uint32_t max_tokens, uint32_t context) {
  const uint32_t usual = std::min<uint32_t>(512, context / 4);
  return std::max<uint32_t>(1, max_tokens ? std::min(max_tokens, context / 2) : usual);
}

const char* thinking_member_of(std::string_view template_text) {
  const auto reads = [&](std::string_view text) {
    return template_text.find(text) != std::string_view::npos;
  };
  const bool other = reads("message.thinking") || reads("message['thinking']") || reads("\"thinking\" in") ||
                     reads("'thinking' in");
  return other && !reads("reasoning_content") ? "thinking" : "reasoning_content";
}

// Some templates add the arguments of calls to texts, and take them as text alone.
ordered_json with_arguments_as_text(ordered_json variables) {
  for (ordered_json& message : variables["messages"]) {
    const auto calls = message.find("tool_calls");
    if (calls == message.end() || !calls->is_array()) continue;
    for (ordered_json& call : *calls) {
      if (!call.is_object()) continue;
      const auto function = call.find("function");
      ordered_json& named = function != call.end() && function->is_object() ? *function : call;
      const auto arguments = named.find("arguments");
      if (arguments != named.end() && arguments->is_object())
        *arguments = arguments->dump(-1, ' ', false, ordered_json::error_handler_t::replace);
    }
  }
  return variables;
}

// The text of a message, whether it is one or a list of parts.
std::string text_in(const ordered_json& message) {
  const auto content = message.find("content");
  if (content == message.end() || content->is_null()) return {};
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) return content->dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  std::string all;
  for (const ordered_json& part : *content) {
    const ordered_json* one = text::member(&part, "text");
    if (one && one->is_string()) all += one->get<std::string>();
  }
  return all;
}

// For templates that show no results of tools: a person tells them. Some refuse two of their messages, one
// behind the other.
void results_to_questions(ordered_json& messages) {
  ordered_json all = ordered_json::array();
  bool result = false; // the last one is one
  for (ordered_json& message : messages) {
    const bool more = std::exchange(result, has_role(message, "tool"));
    if (!result) {
      all.push_back(std::move(message));
      continue;
    }
    const std::string told = "<tool_response>\n" + text_in(message) + "\n</tool_response>";
    if (!more) all.push_back({{"role", "user"}, {"content", told}});
    if (more) all.back()["content"] = all.back()["content"].get<std::string>() + "\n" + told;
  }
  messages = std::move(all);
}

// For templates that show no calls: as the model writes them, or as most do.
void calls_to_texts(ordered_json& messages, const Result<WrittenCall>& written) {
  const WrittenCall usual{
      .begin = "<tool_call>\n{\"name\": \"", .middle = "\", \"arguments\": ", .end = "}\n</tool_call>"};
  for (ordered_json& message : messages) {
    const auto calls = message.find("tool_calls");
    if (calls == message.end() || !calls->is_array()) continue;
    std::string all = text_in(message);
    for (const ordered_json& call : *calls) {
      const ordered_json* inner = text::member(&call, "function");
      const ordered_json *name = text::member(inner ? inner : &call, "name"),
                         *given = text::member(inner ? inner : &call, "arguments");
      ordered_json arguments = given ? *given : ordered_json::object();
      if (arguments.is_string())
        arguments = ordered_json::parse(arguments.get<std::string>(), nullptr, false);
      if (!name || !name->is_string() || !arguments.is_object()) continue;
      std::optional<std::string> one = written.ok() ? written->text(*name, arguments) : std::nullopt;
      if (!one) one = usual.text(*name, arguments);
      if (!all.empty()) all += '\n';
      all += *one;
    }
    message["content"] = std::move(all);
    message.erase("tool_calls");
  }
}

bool has_calls(const ordered_json& messages) {
  return std::ranges::any_of(messages, [](const ordered_json& each) { return each.contains("tool_calls"); });
}

} // namespace

Chat::Chat(ChatTemplate chosen, std::shared_ptr<const Tokenizer> tokenizer, std::vector<uint32_t> ends,
           const std::tm& now)
    : template_(std::move(chosen)), tokenizer_(std::move(tokenizer)), now_(now),
      thinking_member_(thinking_member_of(template_.text())), marks_(AnswerMarks::of(template_, now)),
      parts_(reads_parts_alone(template_, now)),
      ends_(ends_of_answers(template_, *tokenizer_, now, std::move(ends))) {}

Status Chat::set_messages(ordered_json messages) {
  PUMICE_CHECK(check_messages({{"messages", messages}}));
  messages_ = std::move(messages);
  return {};
}

Status Chat::add(ordered_json message) {
  PUMICE_CHECK(check_messages({{"messages", ordered_json::array({message})}}));
  messages_.push_back(std::move(message));
  return {};
}

void Chat::remove(size_t first, size_t count) {
  first = std::min(first, messages_.size());
  const size_t end = first + std::min(count, messages_.size() - first);
  messages_.erase(messages_.begin() + static_cast<ptrdiff_t>(first),
                  messages_.begin() + static_cast<ptrdiff_t>(end));
}

size_t Chat::last_question() const {
  for (size_t i = messages_.size(); i-- > 0;) {
    if (has_role(messages_[i], "user")) return i;
  }
  return messages_.size();
}

size_t Chat::forget_oldest_turn() {
  const size_t begin = first_turn(messages_), end = second_turn(messages_);
  if (end <= begin) return 0;
  remove(begin, end - begin);
  return end - begin;
}

void Chat::ask_for_thinking(std::optional<bool> wanted) {
  may_think_ = wanted.value_or(true);
  thinking_ = wanted ? thinking_variables(template_.text(), *wanted) : ordered_json::object();
}

Status Chat::set_thinking_marks(std::string_view marks) {
  const size_t comma = std::min(marks.find(','), marks.size());
  std::string begin(marks.substr(0, comma)), end(marks.substr(std::min(comma + 1, marks.size())));
  if (begin.empty() || end.empty()) {
    return Error{
        Code::invalid_argument,
        fmt::format("expected two marks with a comma between, as in <think>,</think>, found '{}'", marks)};
  }
  marks_.thinking = {{std::move(begin), std::move(end)}};
  marks_.thinking_first = marks_.shows_thinking = false;
  return {};
}

ordered_json Chat::all_variables() const {
  ordered_json variables = thinking_;
  variables.update(variables_);
  variables["messages"] = messages_;
  text::CallIds(marks_.id, messages_).complete(variables["messages"]);
  if (marks_.no_calls_shown && has_calls(messages_)) calls_to_texts(variables["messages"], written_call());
  if (marks_.no_results_shown) results_to_questions(variables["messages"]);
  if (parts_) contents_to_parts(variables["messages"]);
  variables["add_generation_prompt"] = true;
  return variables;
}

Result<ChatPrompt> Chat::prompt(const PicturePlaces& pictures, std::string begun) const {
  const ordered_json variables = all_variables();
  Result<ChatPrompt> made = encode_chat(template_, *tokenizer_, variables, now_, read_, pictures, begun);
  if (made.ok() || !has_calls(messages_)) return made;
  Result<ChatPrompt> other =
      encode_chat(template_, *tokenizer_, with_arguments_as_text(variables), now_, read_, pictures, begun);
  return other.ok() ? std::move(other) : std::move(made);
}

Status Chat::check_room(size_t prompt_tokens, uint32_t context, uint32_t max_tokens) const {
  const bool forgets = second_turn(messages_) > first_turn(messages_);
  const size_t room = forgets ? room_for_answer(max_tokens, context) : 1;
  if (prompt_tokens + room <= context) return {};
  return Error{
      Code::context_full,
      fmt::format("the context is full: {} of its {} tokens are taken, which leaves too few for an answer",
                  prompt_tokens, context)};
}

const Result<WrittenCall>& Chat::written_call() const {
  if (!written_call_) written_call_ = WrittenCall::of(template_, marks_, now_);
  return *written_call_;
}

ChatAnswer::ChatAnswer(const Chat& chat, const ChatPrompt& prompt)
    : parser_(chat.marks_, prompt.rendered(), chat.tools(), chat.may_think_),
      ids_(chat.marks_.id, chat.messages_), read_(prompt), prompt_tokens_(prompt.ids.size()) {
  begun_ = added(parser_.push(read_.begun));
  read_.begun.clear(); // from now on it is text that was read
}

std::vector<AnswerPart> ChatAnswer::push(uint32_t token, std::string_view text) {
  read_.ids.push_back(token);
  read_.text += text;
  return with_begun(added(parser_.push(text)));
}

std::vector<AnswerPart> ChatAnswer::with_begun(std::vector<AnswerPart> parts) {
  std::vector<AnswerPart> all = std::exchange(begun_, {});
  for (AnswerPart& part : parts) all.push_back(std::move(part));
  return all;
}

std::vector<AnswerPart> ChatAnswer::finish(std::string_view text) {
  read_.text += text;
  std::vector<AnswerPart> parts = added(parser_.push(text));
  for (AnswerPart& part : added(parser_.finish())) parts.push_back(std::move(part));
  return with_begun(std::move(parts));
}

std::vector<AnswerPart> ChatAnswer::added(std::vector<AnswerPart> parts) {
  for (AnswerPart& part : parts) {
    if (part.kind == AnswerPart::Kind::tool_call) {
      if (part.call.id.empty()) part.call.id = ids_.make(part.call.name);
      ids_.take(part.call.id);
    }
    answered_.add(part);
  }
  return parts;
}

void ChatAnswer::add_to(Chat& chat) const {
  ordered_json message = answered_.message(chat.thinking_member());
  // gpt-oss writes one of both before a call, and its template refuses two.
  const bool one_of_both = chat.template_.text().find("both content and thinking") != std::string::npos;
  if (one_of_both && !answered_.tool_calls.empty() && !answered_.content.empty())
    message.erase(chat.thinking_member());
  chat.messages_.push_back(std::move(message));
  chat.read_ = read_;
  if (!cut_) return;
  chat.read_.text.clear(); // which tokens the text ends with is not known
}

} // namespace pumice
