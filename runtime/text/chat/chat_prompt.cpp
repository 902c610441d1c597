#include "text/chat/chat_prompt.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "text/chat/message_pictures.h"
#include "text/chat/template_probe.h"
#include "text/unicode/unicode.h"

namespace pumice {

namespace {

using nlohmann::ordered_json;

// Characters for private use that no content has: around a text that somebody has written, and in the place
// of a sound.
struct Marks {
  std::string begin, end, sound;
};

std::string private_character(uint32_t number) { // U+E000 and those after it, in UTF-8
  const uint32_t code = 0xE000 + number;
  return {static_cast<char>(0xE0 | code >> 12), static_cast<char>(0x80 | (code >> 6 & 0x3F)),
          static_cast<char>(0x80 | (code & 0x3F))};
}

Marks unused_marks(const std::string& all) {
  std::vector<std::string> unused;
  for (uint32_t number = 0; unused.size() < 3 && number < 6400; ++number) {
    std::string each = private_character(number);
    if (all.find(each) == std::string::npos) unused.push_back(std::move(each));
  }
  if (unused.size() < 3) return {};
  return {unused[0], unused[1], unused[2]};
}

// Marks what a text holds, within the white space around it, so that a template which trims still does.
std::string marked(const std::string& given, const Marks& marks) {
  const size_t begin = given.find_first_not_of(text::ascii_white_space);
  if (begin == std::string::npos) return given;
  const size_t end = given.find_last_not_of(text::ascii_white_space) + 1;
  return given.substr(0, begin) + marks.begin + given.substr(begin, end - begin) + marks.end +
         given.substr(end);
}

// Which texts of a conversation are marked: those that people and models write, and whatever spells a special
// token; or the latter alone, for a template that looks into the others.
enum class Marked { texts, special };

class Marker {
public:
  Marker(const Tokenizer& tokenizer, const Marks& marks, Marked which)
      : tokenizer_(tokenizer), marks_(marks), which_(which) {}

  // Members such as bos_token are the template's own: only what nests holds texts of others.
  ordered_json operator()(const ordered_json& variables) const {
    ordered_json result = ordered_json::object();
    for (const auto& [name, value] : variables.items())
      result[name] = value.is_structured() ? nested(value, false) : value;
    return result;
  }

  // Whether any of these texts spells a special token.
  bool finds_special(const ordered_json& value) const {
    if (value.is_string()) return is_special(value.get_ref<const std::string&>());
    if (!value.is_structured()) return false;
    for (const auto& [name, each] : value.items()) {
      if ((value.is_object() && is_special(name)) || finds_special(each)) return true;
    }
    return false;
  }

private:
  // A token for what the vocabulary has not may be a special one, too: the text does not spell it.
  bool is_special(const std::string& text) const {
    const std::vector<uint32_t> ids = tokenizer_.encode(text, false);
    return std::ranges::any_of(ids, [&](uint32_t id) {
      return tokenizer_.is_special(id) && text.find(tokenizer_.piece(id)) != std::string::npos;
    });
  }

  std::string text(const std::string& given, bool written) const {
    const bool wanted = written && which_ == Marked::texts;
    return wanted || is_special(given) ? marked(given, marks_) : given;
  }

  ordered_json nested(const ordered_json& value, bool written) const {
    if (value.is_string()) return text(value.get_ref<const std::string&>(), written);
    ordered_json result = value;
    if (value.is_array()) {
      for (ordered_json& each : result) each = nested(each, written);
    } else if (value.is_object()) {
      result = ordered_json::object();
      for (const auto& [name, each] : value.items())
        result[text(name, false)] = nested(each, (written && name != "type") || is_written(name));
    }
    return result;
  }

  static bool is_written(std::string_view member) {
    constexpr std::string_view names[] = {"content", "text", "reasoning_content", "thinking", "arguments"};
    return std::ranges::find(names, member) != std::end(names);
  }

  const Tokenizer& tokenizer_;
  const Marks& marks_;
  Marked which_;
};

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

// A template that does not know of sounds is shown texts in their place. Whether there are any.
bool replace_sounds(ordered_json& messages, const std::string& sound) {
  bool any = false;
  (void)for_each_medium(messages, [&](size_t, ordered_json& part) {
    if (part["type"] != "audio") return Status();
    part = {{"type", "text"}, {"text", sound}};
    any = true;
    return Status();
  });
  return any;
}

// Contents of texts alone become one text, for a template that reads no parts.
void join_texts(ordered_json& messages) {
  for (ordered_json& message : messages) {
    const auto content = message.find("content");
    if (content == message.end() || !content->is_array()) continue;
    std::string joined;
    for (const ordered_json& part : *content) {
      const ordered_json text = part.is_object() ? part.value("text", ordered_json()) : ordered_json();
      if (text.is_string()) joined += text.get_ref<const std::string&>();
    }
    *content = joined;
  }
}

// Puts a sound's place where such a text was.
void place_sounds(Cut& cut, const std::string& sound, const std::string& place) {
  Cut placed;
  placed.whole = cut.whole;
  for (const Cut::Part& part : cut.parts) {
    std::string_view rest = std::string_view(cut.text).substr(part.begin, part.end - part.begin);
    const auto add = [&](std::string_view text, bool content) {
      placed.parts.push_back({placed.text.size(), placed.text.size() + text.size(), content});
      placed.text += text;
    };
    for (size_t at = rest.find(sound); at != std::string_view::npos; at = rest.find(sound)) {
      add(rest.substr(0, at), part.content);
      add(place, false);
      rest.remove_prefix(at + sound.size());
    }
    add(rest, part.content);
  }
  cut = std::move(placed);
}

// Where the template shows them. What a person spells is no picture.
Status show_pictures(Cut& cut, const PicturePlaces& pictures) {
  if (pictures.place.empty()) return {};
  PictureShower shower(pictures);
  std::string text;
  for (Cut::Part& part : cut.parts) {
    const std::string_view old = std::string_view(cut.text).substr(part.begin, part.end - part.begin);
    part.begin = text.size();
    text += part.content ? std::string(old) : shower.show(old);
    part.end = text.size();
  }
  cut.text = std::move(text);
  return shower.finish("the prompt that the chat template makes");
}

std::vector<uint32_t> encode(const Cut& cut, size_t from, const Tokenizer& tokenizer) {
  const std::string_view text = cut.text;
  std::vector<Tokenizer::Part> parts;
  for (const Cut::Part& each : cut.parts) {
    const size_t begin = std::max(each.begin, from);
    if (begin >= each.end) continue;
    parts.push_back({text.substr(begin, each.end - begin), each.content
                                                               ? Tokenizer::SpecialTokens::as_text
                                                               : Tokenizer::SpecialTokens::recognised});
  }
  return tokenizer.encode(parts, false); // a template writes the tokens around a text itself
}

// The tokens of a prompt that goes on with what was read. A special token begins the rest, so that the rest
// would be cut in the same way wherever it stood. Nothing if the prompt is another one.
std::optional<std::vector<uint32_t>> go_on(const Cut& cut, const ChatPrompt& read,
                                           const Tokenizer& tokenizer) {
  if (read.text.empty() || !cut.text.starts_with(read.text)) return std::nullopt;
  const std::vector<uint32_t> rest = encode(cut, read.text.size(), tokenizer);
  if (rest.empty() || !tokenizer.is_special(rest[0])) return std::nullopt;
  std::vector<uint32_t> ids = read.ids;
  ids.insert(ids.end(), rest.begin(), rest.end());
  return ids;
}

// The special token that a template writes behind an answer. One that ends thoughts, too, ends a part of an
// answer, if another one follows it.
std::optional<uint32_t> end_in_template(const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                                        const std::tm& now) {
  const std::string answer = "answer-without-end";
  const bool parts = reads_parts_alone(chat_template, now);
  const auto behind = [&](const ordered_json& message, std::string_view part) -> std::vector<uint32_t> {
    ordered_json messages = {{{"role", "user"}, {"content", "question"}}, message};
    if (parts) contents_to_parts(messages);
    const Result<std::string> text = chat_template.render({{"messages", messages}}, now);
    const size_t at = text.ok() ? text->rfind(part) : std::string::npos;
    if (at == std::string::npos) return {};
    return tokenizer.encode(std::string_view(*text).substr(at + part.size()), false);
  };
  ordered_json message = {{"role", "assistant"}, {"content", answer}};
  const std::vector<uint32_t> after = behind(message, answer);
  if (after.empty() || !tokenizer.is_special(after[0])) return {};
  if (after.size() < 2 || !tokenizer.is_special(after[1])) return after[0];
  for (const char* member : probe::thinking_members) message[member] = probe::thought;
  const std::vector<uint32_t> after_thought = behind(message, probe::thought);
  return after[!after_thought.empty() && after_thought[0] == after[0] ? 1 : 0];
}

} // namespace

bool reads_parts_alone(const ChatTemplate& chat_template, const std::tm& now) {
  const std::string content = "content-to-be-found";
  ordered_json messages = {{{"role", "user"}, {"content", content}}};
  const auto shows_it = [&] {
    const Result<std::string> text = chat_template.render({{"messages", messages}}, now);
    return text.ok() && text->find(content) != std::string::npos;
  };
  if (shows_it()) return false;
  contents_to_parts(messages);
  return shows_it();
}

void contents_to_parts(ordered_json& messages) {
  for (ordered_json& message : messages) {
    const auto content = message.find("content");
    if (content == message.end() || !content->is_string()) continue;
    ordered_json parts = ordered_json::array();
    if (!content->get_ref<const std::string&>().empty())
      parts.push_back({{"type", "text"}, {"text", *content}});
    *content = std::move(parts);
  }
}

Result<ChatPrompt> encode_chat(const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                               ordered_json variables, const std::tm& now, const ChatPrompt& read,
                               const PicturePlaces& pictures, std::string begun) {
  PUMICE_CHECK(check_messages(variables));
  const Marks marks = unused_marks(variables.dump(-1, ' ', false, ordered_json::error_handler_t::replace) +
                                   chat_template.text());
  const bool places_sounds = !pictures.place.empty() && !marks.sound.empty() &&
                             chat_template.text().find("audio") == std::string::npos &&
                             replace_sounds(variables["messages"], marks.sound);
  Result<std::string> rendered = chat_template.render(variables, now);
  if (places_sounds && (!rendered.ok() || rendered->find(marks.sound) == std::string::npos)) {
    join_texts(variables["messages"]);
    rendered = chat_template.render(variables, now);
  }
  PUMICE_TRY(const std::string text, std::move(rendered));
  Cut cut;
  bool found = false;
  for (const Marked which : {Marked::texts, Marked::special}) {
    if (found || marks.begin.empty()) break;
    const Marker marker(tokenizer, marks, which);
    const Result<std::string> with_marks = chat_template.render(marker(variables), now);
    if (with_marks.ok()) cut = cut_at_marks(*with_marks, marks);
    found = with_marks.ok() && cut.text == text && cut.whole;
  }
  // A template that looks into the contents may write something else where they are marked. Nothing in its
  // prompt is then a special token unless a text spells one.
  if (!found) {
    cut = {text, {{0, text.size(), false}}};
    const Marker marker(tokenizer, marks, Marked::special);
    for (const auto& [name, value] : variables.items()) {
      if (!value.is_structured() || !marker.finds_special(value)) continue;
      return Error{
          Code::invalid_argument,
          name == "messages"
              ? "a message spells a special token, and this template does not let it stay text"
              : fmt::format("'{}' spells a special token, and this template does not let it stay text",
                            name)};
    }
  }
  if (places_sounds) place_sounds(cut, marks.sound, pictures.place);
  PUMICE_CHECK(show_pictures(cut, pictures));
  if (!begun.empty()) {
    cut.parts.push_back({cut.text.size(), cut.text.size() + begun.size(), false});
    cut.text += begun;
  }
  std::optional<std::vector<uint32_t>> ids = go_on(cut, read, tokenizer);
  if (!ids) ids = encode(cut, 0, tokenizer);
  return ChatPrompt{std::move(cut.text), *std::move(ids), std::move(begun)};
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
  const std::string& text = chat_template.text();
  const bool channels =
      text.find("<|channel|>") != std::string::npos && text.find("<|message|>") != std::string::npos;
  if (channels || (returned && called)) {
    add(returned);
    add(called);
    if (const std::optional<uint32_t> message = special("<|end|>"); message && ends.size() > 1)
      std::erase(ends, *message);
  }
  return ends;
}

} // namespace pumice
