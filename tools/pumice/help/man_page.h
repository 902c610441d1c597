#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace pumice::command {

// The manual page of the command or of a subcommand, as man reads it.
std::string man_page(const CLI::App& app);

// "pumice-bench-compare": the name of a page.
std::string man_page_name(const CLI::App& app);

} // namespace pumice::command
