#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace pumice::command {

// What an option of another program is here. Of target, no_effect and instead, one is set.
struct OtherOption {
  std::vector<std::string_view> names; // of those with `instead`, '*' may stand for any letters
  std::string_view target = {};        // an option with a value, a flag, or a positional argument
  std::string_view value = {};         // what the target gets, if the name alone says it
  std::string_view otherwise = {};     // the value that stands for leaving the target out
  // Why the option has no effect. `takes`: what may follow it; a value that is none of these words is an
  // argument of its own.
  std::string_view no_effect = {};
  std::string_view instead = {}; // what to do instead: the option is an error
  enum class Takes { nothing, a_value, a_word } takes = Takes::nothing; // without a target
  std::vector<std::string_view> only = {}; // the subcommands that it is for; none: each that has the target
};

// Options that people know from llama.cpp, whisper.cpp, Ollama and CTranslate2. Of two of one name, the first
// that fits a subcommand is meant.
std::span<const OtherOption> other_options();

// What people call a command elsewhere, and what to do here: a command's name, or a sentence.
struct OtherCommand {
  std::string_view name, command, sentence = {};
};
std::span<const OtherCommand> other_commands();

} // namespace pumice::command
