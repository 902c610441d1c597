#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "support/files/fixtures.h"
#include "support/files/temporary_folder.h"

// Whisper's fixture, whose vocabulary nobody has spelled, with a tokenizer: the 256 bytes, then Whisper's
// special tokens in their order, and the times of a window of one second.
class WhisperFolder {
public:
  static constexpr uint32_t end = 256, start = 257, english = 258, german = 259, translate = 260,
                            transcribe = 261, start_of_previous = 262, no_speech = 263, no_timestamps = 264,
                            first_timestamp = 265, last_timestamp = 315;

  explicit WhisperFolder(const nlohmann::json& settings = nlohmann::json::object()) {
    const std::filesystem::path from = fixtures().model("whisper");
    for (const char* name : {"config.json", "model.safetensors", "preprocessor_config.json"}) {
      std::filesystem::copy_file(from / name, path() / name);
      std::filesystem::permissions(path() / name, std::filesystem::perms::owner_write,
                                   std::filesystem::perm_options::add);
    }
    nlohmann::json generation = {{"eos_token_id", end}, {"decoder_start_token_id", start}};
    generation.update(settings);
    folder_.write("generation_config.json", generation.dump());
    folder_.write("tokenizer.json", tokenizer().dump());
  }

  const std::filesystem::path& path() const { return folder_.path(); }

private:
  // Bytes that do not print are spelled by characters from U+0100 on, as GPT-2 began it.
  static std::string spelled(uint32_t byte, uint32_t& next) {
    const bool prints = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    const uint32_t character = prints ? byte : next++;
    if (character < 0x80) return std::string(1, static_cast<char>(character));
    return {static_cast<char>(0xC0 | (character >> 6)), static_cast<char>(0x80 | (character & 0x3F))};
  }

  static nlohmann::json tokenizer() {
    nlohmann::json vocabulary;
    uint32_t next = 0x100;
    for (uint32_t byte = 0; byte < 256; ++byte) vocabulary[spelled(byte, next)] = byte;
    std::vector<std::string> names = {"<|endoftext|>",   "<|startoftranscript|>", "<|en|>",
                                      "<|de|>",          "<|translate|>",         "<|transcribe|>",
                                      "<|startofprev|>", "<|nospeech|>",          "<|notimestamps|>"};
    for (int step = 0; step <= 50; ++step) {
      char name[16];
      std::snprintf(name, sizeof name, "<|%.2f|>", step * 0.02);
      names.push_back(name);
    }
    nlohmann::json added = nlohmann::json::array();
    for (const std::string& name : names) {
      added.push_back({{"id", 256 + added.size()}, {"content", name}, {"special", true}});
    }
    const nlohmann::json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
    return {{"version", "1.0"},
            {"added_tokens", added},
            {"pre_tokenizer", bytes},
            {"decoder", bytes},
            {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", nlohmann::json::array()}}}};
  }

  TemporaryFolder folder_;
};

// A tone that rises and falls: at 16 kHz.
inline std::vector<float> wail(size_t samples) {
  std::vector<float> values(samples);
  double turns = 0;
  for (size_t i = 0; i < samples; ++i) {
    turns += 0.03 + 0.02 * std::sin(static_cast<double>(i) * 3e-4);
    values[i] = 0.4f * static_cast<float>(std::sin(6.283185307179586 * turns));
  }
  return values;
}

// 16 bits, one channel, 16 kHz.
inline std::string wav_bytes(const std::vector<float>& samples) {
  std::string bytes = "RIFF";
  const auto add = [&](auto value) { bytes.append(reinterpret_cast<const char*>(&value), sizeof value); };
  const auto size = static_cast<uint32_t>(samples.size() * 2);
  add(size + 36);
  bytes += "WAVEfmt ";
  add(uint32_t{16});
  add(uint16_t{1});
  add(uint16_t{1});
  add(uint32_t{16000});
  add(uint32_t{32000});
  add(uint16_t{2});
  add(uint16_t{16});
  bytes += "data";
  add(size);
  for (const float sample : samples) add(static_cast<int16_t>(std::lround(sample * 32767)));
  return bytes;
}
