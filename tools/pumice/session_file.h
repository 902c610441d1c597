#pragma once

#include <filesystem>
#include <string>

#include <CLI/CLI.hpp>

namespace pumice::command {

// The file of --session. It is loaded at the start if it exists, and saved at the end.
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
         "Save the conversation to this file at the end. If the file exists, it is loaded first: the tokens "
         "that the prompt has in common with it are not computed again; without a prompt, the conversation "
         "continues")
      ->type_name("FILE")
      ->group("Text");
}

} // namespace pumice::command
