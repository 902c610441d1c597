#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "support/command/command.h"
#include "support/files/temporary_folder.h"

// What `pumice convert` writes of a folder's model, away from the folder.
struct OneFile {
  TemporaryFolder folder;
  std::filesystem::path file = folder.path() / "model.gguf";
  std::string notes;

  explicit OneFile(const std::filesystem::path& from, const std::string& type = "F32") {
    const CommandResult result =
        pumice_command({"convert", from.string(), file.string(), "--type", type, "--json"});
    CAPTURE(result.err);
    REQUIRE(result.status == 0);
    const nlohmann::json answer = nlohmann::json::parse(result.out);
    notes = answer["notes"].dump();
    CHECK(answer["bytes"] == std::filesystem::file_size(file));
  }
  bool holds_folder() const { return notes.find("only Pumice reads the file") != std::string::npos; }
};

// What a command prints of a model; `arguments` follow its name.
inline std::string printed(const std::string& command, const std::filesystem::path& model,
                           std::vector<std::string> arguments, const std::string* input = nullptr) {
  arguments.insert(arguments.begin(), {command, model.string()});
  const CommandResult result = pumice_command(arguments, input);
  CAPTURE(command);
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  REQUIRE(!result.out.empty());
  return result.out;
}
