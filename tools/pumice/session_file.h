#pragma once

#include <filesystem>
#include <string>

#include <CLI/CLI.hpp>

namespace pumice::command {

// A file that a conversation is brought back from where it is there, and saved to in the end.
struct SessionFile {
  std::string path; // empty: none

  bool given() const { return !path.empty(); }
  bool exists() const {
    std::error_code ignored;
    return given() && std::filesystem::exists(path, ignored);
  }
};

inline void add_session_option(CLI::App& app, SessionFile& file) {
  app.add_option(
         "--session", file.path,
         "Keep the conversation in this file: where it is there, what the prompt has in common with it is "
         "not read again, and without a prompt it goes on")
      ->type_name("FILE")
      ->group("Text");
}

} // namespace pumice::command
