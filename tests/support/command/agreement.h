#pragma once

#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "support/command/command.h"
#include "support/embedding.h"
#include "support/files/fixtures.h"
#include "support/files/word_folder.h"

// What the command prints as JSON beside what the C interface gives, for tests/command/agreement.

// A text of three tokens of a word folder.
inline std::string words_for(uint32_t first) {
  return words(std::vector<uint32_t>{first, first + 3, first + 9});
}

// The lines that the command prints; none where it fails, with a message.
inline std::vector<nlohmann::json> printed_objects(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--json", "--no-tune"});
  const CommandResult result = pumice_command(arguments);
  INFO(result.err);
  CHECK((result.status == 0 || (result.status == 1 && result.out.empty())));
  std::vector<nlohmann::json> all;
  for (const std::string& line : lines_of(result.out)) all.push_back(nlohmann::json::parse(line));
  return all;
}

// Null where the model cannot be loaded so.
inline ModelHandle load_for(pumice_device* device, const std::string& path, pumice_purpose purpose,
                            bool vision = false) {
  pumice_load_options options = {sizeof options};
  options.tune_seconds = -1;
  options.purpose = purpose;
  options.vision = vision;
  pumice_source source = {sizeof source};
  source.path = path.c_str();
  pumice_model* model = nullptr;
  pumice_error error;
  if (pumice_model_load(device, &source, &options, &model, &error) != PUMICE_OK) CHECK(!model);
  return ModelHandle(model);
}
