#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace pumice::text {

// What gpt-oss writes before a text: the role, the recipient and the channel, as
//   <|start|>assistant to=functions.f<|channel|>commentary <|constrain|>json<|message|>
// with one mark or more of these at the beginning.
struct ChannelHeader {
  enum class State {
    whole,
    cut, // the text may go on as a header
    none // the text is no header: only its first mark belongs to one
  };
  State state = State::none;
  size_t length = 0;         // of the header with its last mark; of its first mark if there is none
  bool has_text = false;     // it ends with <|message|>: a text follows
  bool thinks = false;       // in the channel for analysis
  std::string function = {}; // that is called; empty: the text is for people
};

// `tools`: the list that the template was given, or null. A name that is not in it may have the type of the
// arguments behind it, as in functions.shelljson.
ChannelHeader read_channel_header(std::string_view text, const nlohmann::ordered_json& tools, bool ended);

} // namespace pumice::text
