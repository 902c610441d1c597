#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/result.h"
#include "help/other_programs/other_programs.h"

// Names that people know from llama.cpp, whisper.cpp and CTranslate2. They are replaced by Pumice's own names
// before the options are read, so that no subcommand has to know them. A subcommand's own option of the same
// name comes first.
namespace pumice::command {

struct TranslatedArguments {
  std::vector<std::string> arguments;
  std::vector<std::string> notes; // sentences about options that have no effect
};

// `arguments` without the program's name; `app` is the whole command. Error: invalid_argument if two names
// give one option two values, or if a value is missing.
Result<TranslatedArguments> translate_aliases(const CLI::App& app, const std::vector<std::string>& arguments);

// Whether it is one of the names. '*' in them stands for any letters.
bool is_name_of(const OtherOption& other, std::string_view name);

// The names that a subcommand understands.
std::vector<std::string> alias_names(const CLI::App& app);
// The same for its help, with what each stands for. Empty if there are none.
std::string alias_text(const CLI::App& app);

// The aliases that stand for an option of a subcommand: "--ctx-size" for "--context".
std::vector<std::string> long_aliases(const CLI::App& app);

} // namespace pumice::command
