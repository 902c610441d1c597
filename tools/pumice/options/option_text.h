#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

// What a subcommand's definition says of itself. The help, the manual and the shells' completion all come
// from it.
//
// An option's description is one or more sentences. --help shows the first one, --help-all and the manual
// show all. Options in a group whose name ends with more_options are not in --help.
namespace pumice::command {

inline const std::string more_options = " (more)";

// The group of the options that most subcommands share. It comes last.
inline const std::string device_group = "Device and memory";

// The group of options that are less often needed: more_of("Sampling").
inline std::string more_of(const std::string& group) {
  return group + more_options;
}

struct OptionText {
  const CLI::Option* option = nullptr;
  std::vector<std::string> names;   // "-n", "--count"; of a positional argument its name, "MODEL"
  std::string value;                // "N"; empty for a flag or a positional argument
  std::string summary;              // the first sentence, and the default
  std::string description;          // all sentences, the default, and which options it needs and excludes
  std::vector<std::string> choices; // the values that are possible, if they are names
  std::string group;
  bool more = false; // --help leaves it out

  std::string heading() const; // "-n, --count N"
};

// The options, in the order of their definition, without --help and --help-all.
std::vector<OptionText> options_of(const CLI::App& app);
std::vector<OptionText> positionals_of(const CLI::App& app);
// The groups in the order of their first options, without more_options; device_group last.
std::vector<std::string> groups_of(const std::vector<OptionText>& options);
// The subcommands that are not hidden.
std::vector<const CLI::App*> subcommands_of(const CLI::App& app);
// "pumice bench compare": the names from the program's on.
std::string full_name(const CLI::App& app);
// "[OPTIONS] MODEL [PROMPT]"
std::string usage_of(const CLI::App& app);

} // namespace pumice::command
