#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tokenizer.h"

namespace pumice {

// Whisper's special tokens, found by their names: its instructions, and its output besides text.
class WhisperTokens {
public:
  struct Language {
    std::string code; // "en", "yue"
    uint32_t id = 0;
  };

  // The error names the missing token.
  static Result<WhisperTokens> find(const Tokenizer& tokenizer);

  uint32_t start() const { return start_; } // of a transcript
  uint32_t end() const { return end_; }
  uint32_t no_timestamps() const { return no_timestamps_; }

  // An error if the model has no tokens for tasks, as models for one language have none.
  Result<uint32_t> transcribe() const;
  Result<uint32_t> translate() const; // into English

  const std::vector<Language>& languages() const { return languages_; } // in the order of their ids
  // By its code or its name in English: "de", "German".
  Result<uint32_t> language(std::string_view name) const;

  // A timestamp is a multiple of 0.02 s; the tokens begin with <|0.00|>. If the vocabulary does not list
  // them, their ids follow <|notimestamps|>.
  static constexpr double kStep = 0.02;
  uint32_t first_timestamp() const { return first_timestamp_; }
  bool is_timestamp(uint32_t id) const { return id >= first_timestamp_; }
  std::optional<double> seconds(uint32_t id) const; // of a timestamp
  uint32_t timestamp(double seconds) const;         // the nearest

private:
  uint32_t start_ = 0, end_ = 0, no_timestamps_ = 0, first_timestamp_ = 0;
  std::optional<uint32_t> transcribe_, translate_;
  std::vector<Language> languages_;
};

} // namespace pumice
