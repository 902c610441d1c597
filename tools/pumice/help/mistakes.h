#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "base/result.h"

namespace pumice::command {

// What is wrong with the command line, for a person: which words were not understood, and what was probably
// meant. `app` is the command that threw `error` while it read its arguments.
std::string explain_mistake(const CLI::App& app, const CLI::ParseError& error);

// The error of an option that a command does not have: "-no-such" or "--no-such=1".
Error unknown_option(const CLI::App& app, const std::string& written);

// "there is no command 'rnu'. Did you mean 'pumice run'?"
std::string unknown_command(const CLI::App& app, const std::string& name);

} // namespace pumice::command
