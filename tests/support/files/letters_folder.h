#pragma once

#include <filesystem>

#include <nlohmann/json.hpp>

#include "support/files/fixtures.h"
#include "support/files/temporary_folder.h"

// Wav2vec 2.0's fixture in a folder that is there already, with a letter for each token.
inline void write_letters_folder(const TemporaryFolder& folder, bool normalises) {
  for (const char* name : {"config.json", "model.safetensors"})
    std::filesystem::copy_file(fixtures().model("wav2vec2") / name, folder.path() / name);
  nlohmann::json letters = {{"<pad>", 0}, {"<s>", 1}, {"</s>", 2}, {"<unk>", 3}, {"|", 4}};
  for (int id = 5; id < 31; ++id) letters[std::string(1, static_cast<char>('A' + id - 5))] = id;
  letters["'"] = 31;
  folder.write("vocab.json", letters.dump());
  folder.write("preprocessor_config.json",
               nlohmann::json{{"sampling_rate", 16000}, {"do_normalize", normalises}}.dump());
}
