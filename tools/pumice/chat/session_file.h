#pragma once

#include <filesystem>
#include <string>

#include <CLI/CLI.hpp>

#include "base/path.h"

namespace pumice::command {

// The file of --session. It is loaded at the start if it exists, and saved at the end.
struct SessionFile {
  std::string path; // empty: none

  bool given() const { return !path.empty(); }
  bool exists() const {
    std::error_code ignored;
    return given() && std::filesystem::exists(path_of(path), ignored);
  }
};

inline void add_session_option(CLI::App& app, SessionFile& file) {
  app.add_option("--session", file.path,
                 "Keep the conversation in this file. It is loaded if it exists, and saved at the end. A "
                 "prompt that begins as the conversation did is computed from where the two differ. Without "
                 "a prompt, the conversation continues")
      ->type_name("FILE")
      ->group("Text");
}

} // namespace pumice::command
