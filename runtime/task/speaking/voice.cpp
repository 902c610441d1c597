#include "task/speaking/voice.h"

#include <algorithm>
#include <deque>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/fields.h"
#include "io/json_text.h"
#include "text/unicode/unicode.h"

namespace pumice {

namespace {

constexpr uint32_t profile_version = 3;
constexpr uint32_t most_words = 1 << 16;

// "<|energy_3|><|spectral_centroid_20|><|pitch_11|>"
Result<std::string> read_features(const Fields& fields) {
  std::string tokens;
  for (const char* name : {"energy", "spectral_centroid", "pitch"}) {
    PUMICE_TRY(const uint32_t value, fields.u32_or(name, 0));
    tokens += fmt::format("<|{}_{}|>", name, value);
  }
  return tokens;
}

Result<Voice::Word> read_word(const Fields& fields, const SoundCodec& codec) {
  Voice::Word word;
  PUMICE_TRY(word.text, fields.string("word"));
  PUMICE_TRY(const float seconds, fields.f32("duration", 0, 1e4f));
  PUMICE_TRY(const Fields features, fields.object_or_empty("features"));
  PUMICE_TRY(const std::string feature_tokens, read_features(features));
  word.codes = fmt::format("<|features|><|t_{:.2f}|>{}<|code|>", seconds, feature_tokens);
  std::vector<std::vector<uint32_t>> codes(codec.codebooks);
  for (uint32_t codebook = 0; codebook < codec.codebooks; ++codebook) {
    const std::string name = fmt::format("c{}", codebook + 1);
    PUMICE_TRY(codes[codebook], fields.u32_array(name, 0, codec.codes - 1));
    if (codes[codebook].size() != codes[0].size()) {
      return fields.error(name, fmt::format("expected {} codes, as many as c1 has; found {}", codes[0].size(),
                                            codes[codebook].size()));
    }
  }
  for (size_t frame = 0; frame < codes[0].size(); ++frame) {
    for (uint32_t codebook = 0; codebook < codec.codebooks; ++codebook)
      word.codes += fmt::format("<|c{}_{}|>", codebook + 1, codes[codebook][frame]);
  }
  return word;
}

// What is between the voice's text and the one to speak, if it does not end a sentence.
std::string separator_after(std::string_view text) {
  bool chinese = false;
  std::string_view last;
  for (std::string_view rest = text; !rest.empty();) {
    const auto [character, length] = text::first_code_point(rest);
    // Hiragana, katakana and the common Han characters.
    chinese |= (character >= 0x3040 && character <= 0x30FF) || (character >= 0x4E00 && character <= 0x9FFF);
    last = rest.substr(0, length);
    rest.remove_prefix(length);
  }
  if (text.empty()) return "";
  bool ended = last == "?" || last == "!";
  if (chinese) {
    for (const char* end : {"。", "？", "！"}) ended |= last == end;
    return ended ? "" : "。";
  }
  return ended || last == "." ? " " : ". ";
}

} // namespace

Result<Voice> Voice::parse(std::string_view text, const std::string& name, const SoundCodec& codec) {
  PUMICE_TRY(const nlohmann::json profile, parse_json_object(std::as_bytes(std::span(text)), name));
  const Fields fields(profile, name);
  PUMICE_TRY(const uint32_t version, fields.u32_or("interface_version", profile_version));
  if (version != profile_version) {
    return fields.error("interface_version", fmt::format("expected {}; found {}", profile_version, version));
  }
  Voice voice;
  PUMICE_TRY(const std::string said, fields.string("text"));
  voice.text = spoken_text(said);
  const nlohmann::json* words = fields.find("words");
  if (!words || !words->is_array() || words->empty() || words->size() > most_words)
    return fields.error("words", fmt::format("expected an array of 1 to {} words", most_words));
  for (size_t i = 0; i < words->size(); ++i) {
    const std::string place = fmt::format("words[{}]", i);
    if (!(*words)[i].is_object())
      return fields.error(place, fmt::format("expected an object; found {}", describe((*words)[i])));
    PUMICE_TRY(Word word, read_word(Fields((*words)[i], name, place + "."), codec));
    voice.words.push_back(std::move(word));
  }
  return voice;
}

std::string spoken_text(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const auto [character, length] = text::first_code_point(text);
    const std::string_view spelled = text.substr(0, length);
    text.remove_prefix(length);
    if (text::is_white_space(character)) {
      if (!result.empty() && result.back() != ' ') result += ' ';
    } else if (character == 0x2026) {
      result += "...";
    } else if (character == 0x201C || character == 0x201D) {
      result += '"';
    } else if (character == 0x2018 || character == 0x2019) {
      result += '\'';
    } else if (character == 0x2013 || character == 0x2014) {
      result += '-';
    } else if (character >= 0x20 && (character < 0x7F || character > 0x9F)) {
      result += spelled;
    }
  }
  return std::string(text::trimmed(result));
}

Result<std::vector<uint32_t>> speech_prompt(const Tokenizer& tokenizer, std::string_view text,
                                            const Voice* voice, const std::string& path) {
  for (const std::string_view token :
       {std::string_view("<|im_start|>"), std::string_view("<|text_start|>"),
        std::string_view("<|text_end|>"), std::string_view("<|audio_start|>"), sound_end}) {
    if (tokenizer.find(token)) continue;
    return Error{Code::unsupported,
                 fmt::format("{}: the vocabulary has no token {}: expected a model that speaks (OuteTTS 1.0)",
                             path, token)};
  }
  if (!text::is_valid_utf8(text))
    return Error{Code::invalid_argument, "the text to speak is not valid UTF-8"};
  const std::string spoken = spoken_text(text);
  if (spoken.empty()) return Error{Code::invalid_argument, "the text to speak is empty"};
  std::deque<std::string> texts; // which the parts view
  std::vector<Tokenizer::Part> parts;
  const auto add = [&](std::string part, Tokenizer::SpecialTokens special) {
    parts.push_back({texts.emplace_back(std::move(part)), special});
  };
  const auto mark = [&](std::string part) { add(std::move(part), Tokenizer::SpecialTokens::recognised); };
  const auto say = [&](std::string part) { add(std::move(part), Tokenizer::SpecialTokens::as_text); };
  const std::string between = voice ? separator_after(voice->text) : "";
  mark("<|im_start|>\n<|text_start|>");
  say(voice ? voice->text + between + spoken : spoken);
  mark("<|text_end|>\n<|audio_start|>\n");
  if (voice) {
    for (size_t i = 0; i < voice->words.size(); ++i) {
      const bool last = i + 1 == voice->words.size();
      mark("<|word_start|>");
      say(voice->words[i].text + (last ? std::string(text::trimmed(between)) : ""));
      mark(voice->words[i].codes + "<|word_end|>\n");
    }
    mark("<|word_start|>");
  }
  return tokenizer.encode(parts, false);
}

} // namespace pumice
