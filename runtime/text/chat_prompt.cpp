#include "text/chat_prompt.h"

#include <algorithm>
#include <optional>
#include <string_view>

namespace pumice {

namespace {

using nlohmann::ordered_json;

constexpr std::string_view white_space = " \t\r\n";

// Two characters for private use that no content has.
struct Marks {
  std::string begin, end;
};

std::string private_character(uint32_t number) { // U+E000 and those after it, in UTF-8
  const uint32_t code = 0xE000 + number;
  return {static_cast<char>(0xE0 | code >> 12), static_cast<char>(0x80 | (code >> 6 & 0x3F)),
          static_cast<char>(0x80 | (code & 0x3F))};
}

Marks unused_marks(const std::string& all) {
  std::vector<std::string> unused;
  for (uint32_t number = 0; unused.size() < 2 && number < 6400; ++number) {
    std::string each = private_character(number);
    if (all.find(each) == std::string::npos) unused.push_back(std::move(each));
  }
  if (unused.size() < 2) return {};
  return {unused[0], unused[1]};
}

// Marks what a text holds, within the white space around it, so that a template which trims still does.
void mark(ordered_json& text, const Marks& marks) {
  const std::string& given = text.get_ref<const std::string&>();
  const size_t begin = given.find_first_not_of(white_space);
  if (begin == std::string::npos) return;
  const size_t end = given.find_last_not_of(white_space) + 1;
  text =
      given.substr(0, begin) + marks.begin + given.substr(begin, end - begin) + marks.end + given.substr(end);
}

// Marks the content of each message, which is a text or a list of parts, and its thinking.
ordered_json marked(ordered_json variables, const Marks& marks) {
  for (ordered_json& message : variables["messages"]) {
    const auto thinking = message.find("reasoning_content");
    if (thinking != message.end() && thinking->is_string()) mark(*thinking, marks);
    const auto content = message.find("content");
    if (content == message.end()) continue;
    if (content->is_string()) mark(*content, marks);
    if (!content->is_array()) continue;
    for (ordered_json& part : *content) {
      if (part.is_object() && part.contains("text") && part["text"].is_string()) mark(part["text"], marks);
    }
  }
  return variables;
}

struct Cut {
  std::string text; // without marks
  struct Part {
    size_t begin = 0, end = 0;
    bool content = false;
  };
  std::vector<Part> parts;
  bool whole = true; // each content that begins ends, too
};

Cut cut_at_marks(std::string_view text, const Marks& marks) {
  Cut cut;
  bool inside = false;
  while (!text.empty()) {
    const std::string_view next = inside ? marks.end : marks.begin;
    const size_t at = std::min(text.find(next), text.size());
    cut.whole = !inside || at < text.size();
    cut.parts.push_back({cut.text.size(), cut.text.size() + at, inside});
    cut.text += text.substr(0, at);
    text.remove_prefix(std::min(at + next.size(), text.size()));
    inside = !inside;
  }
  return cut;
}

std::vector<uint32_t> encode(const Cut& cut, const Tokenizer& tokenizer) {
  const std::string_view text = cut.text;
  std::vector<Tokenizer::Part> parts;
  for (const Cut::Part& each : cut.parts) {
    parts.push_back(
        {text.substr(each.begin, each.end - each.begin),
         each.content ? Tokenizer::SpecialTokens::as_text : Tokenizer::SpecialTokens::recognised});
  }
  return tokenizer.encode(parts, false); // a template writes the tokens around a text itself
}

// The special token that a template writes behind an answer.
std::optional<uint32_t> end_in_template(const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                                        const std::tm& now) {
  const std::string question = "question", answer = "answer-without-end";
  const ordered_json variables = {
      {"messages",
       {{{"role", "user"}, {"content", question}}, {{"role", "assistant"}, {"content", answer}}}}};
  const Result<std::string> text = chat_template.render(variables, now);
  if (!text.ok()) return {};
  const size_t at = text->rfind(answer);
  if (at == std::string::npos) return {};
  const std::vector<uint32_t> after =
      tokenizer.encode(std::string_view(*text).substr(at + answer.size()), false);
  if (after.empty() || !tokenizer.is_special(after[0])) return {};
  return after[0];
}

} // namespace

Result<ChatPrompt> encode_chat(const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                               const ordered_json& variables, const std::tm& now) {
  PUMICE_CHECK(check_messages(variables));
  PUMICE_TRY(std::string text, chat_template.render(variables, now));
  const Marks marks =
      unused_marks(variables.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + text);
  Cut cut;
  if (!marks.begin.empty()) {
    const Result<std::string> with_marks = chat_template.render(marked(variables, marks), now);
    if (with_marks.ok()) cut = cut_at_marks(*with_marks, marks);
  }
  // A template that looks into the contents may write something else where they are marked. Nothing in its
  // prompt is then a special token unless no content spells one.
  if (cut.text != text || !cut.whole) {
    cut = {text, {{0, text.size(), false}}};
    const ordered_json all = variables["messages"].flatten();
    for (const ordered_json& value : all) {
      if (!value.is_string()) continue;
      const std::vector<uint32_t> ids = tokenizer.encode(value.get_ref<const std::string&>(), false);
      if (std::ranges::any_of(ids, [&](uint32_t id) { return tokenizer.is_special(id); })) {
        return Error{Code::invalid_argument,
                     "a message spells a special token, and this template does not let it stay text"};
      }
    }
  }
  std::vector<uint32_t> ids = encode(cut, tokenizer);
  return ChatPrompt{std::move(text), std::move(ids)};
}

std::vector<uint32_t> ends_of_answers(const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                                      const std::tm& now, std::vector<uint32_t> of_model) {
  std::vector<uint32_t> ends = std::move(of_model);
  const auto add = [&](std::optional<uint32_t> id) {
    if (id && std::ranges::find(ends, *id) == ends.end()) ends.push_back(*id);
  };
  add(end_in_template(chat_template, tokenizer, now));
  // gpt-oss thinks in a message of its own, which ends with <|end|>; files name that as an end of turns, too.
  const auto special = [&](std::string_view spelling) -> std::optional<uint32_t> {
    const std::optional<uint32_t> id = tokenizer.find(spelling);
    return id && tokenizer.is_special(*id) ? id : std::nullopt;
  };
  const std::optional<uint32_t> returned = special("<|return|>"), called = special("<|call|>");
  if (returned && called) {
    if (const std::optional<uint32_t> message = special("<|end|>")) std::erase(ends, *message);
    add(returned);
    add(called);
  }
  return ends;
}

} // namespace pumice
