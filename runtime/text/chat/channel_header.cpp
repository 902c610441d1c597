#include "text/chat/channel_header.h"

#include <algorithm>
#include <array>
#include <utility>

#include "text/chat/argument_types.h"
#include "text/unicode/unicode.h"

namespace pumice::text {

namespace {

constexpr std::string_view channels[] = {"analysis", "commentary", "final"};
constexpr std::string_view roles[] = {"assistant", "user", "system", "developer", "tool"};
constexpr std::string_view types[] = {"json", "code", "text"}; // of arguments
constexpr std::string_view recipient = "to=";
constexpr std::string_view message = "<|message|>";
// What may come in a header after its beginning, and what ends one that has no text.
constexpr std::string_view inner_marks[] = {"<|channel|>", "<|constrain|>", "<|start|>"};
constexpr std::string_view end_marks[] = {"<|end|>", "<|return|>", "<|call|>"};

std::string called_function(std::string_view name, const nlohmann::ordered_json& tools) {
  constexpr std::string_view room = "functions.";
  if (std::ranges::find(roles, name) != std::end(roles)) return {};
  if (name.starts_with(room)) name.remove_prefix(room.size());
  if (!find_tool(tools, name)) {
    for (const std::string_view type : types) {
      if (name.ends_with(type) && find_tool(tools, name.substr(0, name.size() - type.size())))
        name.remove_suffix(type.size());
    }
  }
  return std::string(name);
}

// Whether a word belongs in a header; `begun`: it may go on.
bool is_word_of_header(std::string_view word, bool begun) {
  if (word.starts_with(recipient) || (begun && recipient.starts_with(word))) return true;
  while (!word.empty() && std::string_view("?!.,:;").find(word.back()) != std::string_view::npos)
    word.remove_suffix(1);
  const auto is = [&](std::string_view known) { return word == known || (begun && known.starts_with(word)); };
  return std::ranges::any_of(channels, is) || std::ranges::any_of(roles, is) ||
         std::ranges::any_of(types, is);
}

} // namespace

ChannelHeader read_channel_header(std::string_view text, const nlohmann::ordered_json& tools, bool ended) {
  const auto mark_at = [](std::string_view rest, auto& marks) {
    const auto found =
        std::ranges::find_if(marks, [&](std::string_view each) { return rest.starts_with(each); });
    return found == std::end(marks) ? size_t(0) : found->size();
  };
  ChannelHeader header;
  const size_t first = mark_at(text, inner_marks);
  bool role = text.starts_with("<|start|>"); // comes next, whatever it is
  for (size_t at = first;;) {
    const size_t space = text.find_first_not_of(ascii_white_space, at);
    const std::string_view rest = text.substr(std::min(space, text.size()));
    at = text.size() - rest.size();
    if (rest.empty()) {
      header.state = ended ? ChannelHeader::State::whole : ChannelHeader::State::cut;
      header.length = at;
      return header;
    }
    const size_t end = mark_at(rest, end_marks), inner = mark_at(rest, inner_marks);
    if (rest.starts_with(message) || end > 0) {
      header.has_text = end == 0;
      header.state = ChannelHeader::State::whole;
      header.length = at + (end > 0 ? end : message.size());
      return header;
    }
    if (inner > 0) {
      role = rest.starts_with("<|start|>");
      at += inner;
      continue;
    }
    const size_t word_end = std::min(rest.find_first_of(" \t\r\n<", 1), rest.size());
    const bool begun = word_end == rest.size() && !ended;
    std::string_view word = rest.substr(0, word_end);
    if (word.starts_with('<')) {
      const auto is = [&](std::string_view mark) { return !ended && mark.starts_with(rest); };
      if (!is(message) && std::ranges::none_of(inner_marks, is) && std::ranges::none_of(end_marks, is)) break;
      header.state = ChannelHeader::State::cut;
      return header;
    }
    if (!std::exchange(role, false) && !is_word_of_header(word, begun)) break;
    if (word.starts_with(recipient)) header.function = called_function(word.substr(recipient.size()), tools);
    header.thinks =
        word.starts_with("analysis") ||
        (header.thinks && std::ranges::none_of(channels, [&](auto each) { return word.starts_with(each); }));
    at += word_end;
  }
  return {ChannelHeader::State::none, first};
}

} // namespace pumice::text
