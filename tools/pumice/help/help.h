#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace pumice::command {

// Makes --help, which shows what most people need, and --help-all. Lines are at most 80 columns wide.
class HelpFormatter : public CLI::Formatter {
public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
};

// The text in lines of at most `width` columns, each after `indent` spaces. Lines that begin with a space,
// such as examples, stay as they are.
std::string wrapped(const std::string& text, size_t indent, size_t width);

// The last lines of a subcommand's help.
inline std::string example(const std::string& lines) {
  return "Example:\n  " + lines;
}

} // namespace pumice::command
