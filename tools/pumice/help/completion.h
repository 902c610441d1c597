#pragma once

#include <string>

#include <CLI/CLI.hpp>

// Scripts that complete subcommands, options and the names that options take.
namespace pumice::command {

std::string bash_completion(const CLI::App& app);
std::string zsh_completion(const CLI::App& app);
std::string fish_completion(const CLI::App& app);

} // namespace pumice::command
