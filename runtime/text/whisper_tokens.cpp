#include "text/whisper_tokens.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/ascii.h"
#include "text/language_tokens.h"

namespace pumice {

namespace {

Result<uint32_t> required(const Tokenizer& tokenizer, std::string_view name) {
  if (auto id = tokenizer.find(name)) return *id;
  return Error{Code::invalid_file,
               fmt::format("the tokenizer has no token \"{}\": it is not one of Whisper's", name)};
}

Result<uint32_t> task(std::optional<uint32_t> id, std::string_view name) {
  if (id) return *id;
  return Error{Code::unsupported,
               fmt::format("the tokenizer has no token \"{}\": the model has one task only", name)};
}

// The languages of Whisper that M2M-100 lacks, or has another code for.
constexpr std::pair<std::string_view, std::string_view> own_languages[] = {
    {"assamese", "as"}, {"basque", "eu"},  {"cantonese", "yue"}, {"faroese", "fo"}, {"hawaiian", "haw"},
    {"javanese", "jw"}, {"latin", "la"},   {"maltese", "mt"},    {"maori", "mi"},   {"nynorsk", "nn"},
    {"sanskrit", "sa"}, {"shona", "sn"},   {"tajik", "tg"},      {"tatar", "tt"},   {"telugu", "te"},
    {"tibetan", "bo"},  {"turkmen", "tk"},
};

// Whisper's code of a language by its name in English, in any case.
std::string code_of(std::string_view name) {
  std::string lower = lower_case(name);
  for (const auto& [own, code] : own_languages) {
    if (own == lower) return std::string(code);
  }
  const std::string_view code = language_code(lower);
  return code.empty() ? lower : std::string(code);
}

// "en" of "<|en|>". Codes have two or three letters.
std::optional<std::string_view> code_in(std::string_view piece) {
  if (!piece.starts_with("<|") || !piece.ends_with("|>") || piece.size() < 6 || piece.size() > 7)
    return std::nullopt;
  const std::string_view code = piece.substr(2, piece.size() - 4);
  if (!std::all_of(code.begin(), code.end(), [](char c) { return c >= 'a' && c <= 'z'; }))
    return std::nullopt;
  return code;
}

} // namespace

Result<WhisperTokens> WhisperTokens::find(const Tokenizer& tokenizer) {
  WhisperTokens made;
  PUMICE_TRY(made.start_, required(tokenizer, "<|startoftranscript|>"));
  PUMICE_TRY(made.end_, required(tokenizer, "<|endoftext|>"));
  PUMICE_TRY(made.no_timestamps_, required(tokenizer, "<|notimestamps|>"));
  made.first_timestamp_ = tokenizer.find("<|0.00|>").value_or(made.no_timestamps_ + 1);
  made.transcribe_ = tokenizer.find("<|transcribe|>");
  made.translate_ = tokenizer.find("<|translate|>");
  for (uint32_t id = 0; id < tokenizer.vocabulary_size(); ++id) {
    if (auto code = code_in(tokenizer.piece(id))) made.languages_.push_back({std::string(*code), id});
  }
  return made;
}

Result<uint32_t> WhisperTokens::transcribe() const {
  return task(transcribe_, "<|transcribe|>");
}
Result<uint32_t> WhisperTokens::translate() const {
  return task(translate_, "<|translate|>");
}

Result<uint32_t> WhisperTokens::language(std::string_view name) const {
  const std::string code = code_of(name);
  for (const Language& language : languages_) {
    if (language.code == code) return language.id;
  }
  std::vector<std::string_view> codes;
  for (const Language& language : languages_) codes.push_back(language.code);
  return Error{
      Code::invalid_argument,
      fmt::format("language \"{}\": the model knows {}", name,
                  codes.empty() ? "no tokens for languages" : fmt::format("{}", fmt::join(codes, ", ")))};
}

std::optional<double> WhisperTokens::seconds(uint32_t id) const {
  if (!is_timestamp(id)) return std::nullopt;
  return (id - first_timestamp_) * kStep;
}

uint32_t WhisperTokens::timestamp(double seconds) const {
  return first_timestamp_ + static_cast<uint32_t>(std::lround(std::max(0.0, seconds) / kStep));
}

} // namespace pumice
