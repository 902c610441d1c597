#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace pumice::command {

// Makes --help, which shows what most people need, and --help-all. Lines are at most 80 columns wide.
class HelpFormatter : public CLI::Formatter {
public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
};

// The last lines of a subcommand's help.
inline std::string example(const std::string& lines) {
  return "Example:\n  " + lines;
}

} // namespace pumice::command
