#include "speech/word_times.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <set>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/json_text.h"
#include "io/mapped_file.h"
#include "speech/whisper_rules.h"

namespace pumice {

namespace {

constexpr uint32_t median_width = 7;
constexpr std::string_view unspaced[] = {"zh", "ja", "th", "lo", "my", "yue"};
constexpr std::string_view opening[] = {"\"", "'", "“", "¿", "(", "[", "{", "-"};
constexpr std::string_view closing[] = {"\"", "'", ".",  "。", ",", "，", "!", "！", "?",
                                        "？", ":", "：", "”",  ")", "]",  "}", "、"};
constexpr std::string_view replacement = "\uFFFD";
constexpr std::string_view ascii_marks = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

// Tokens that together are whole characters.
std::vector<WordTokens> whole_characters(const Tokenizer& tokenizer, std::span<const uint32_t> tokens) {
  std::vector<WordTokens> parts;
  size_t begin = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    std::string text = tokenizer.decode(tokens.subspan(begin, i + 1 - begin), false);
    if (text.find(replacement) != std::string::npos && i + 1 < tokens.size()) continue;
    parts.push_back({std::move(text), i + 1 - begin});
    begin = i + 1;
  }
  return parts;
}

bool begins_word(std::string_view part) {
  const std::string_view own = trimmed(part);
  return part.starts_with(' ') || (own.size() == 1 && ascii_marks.find(own) != std::string_view::npos);
}

// Marks go with the word behind or before them.
std::vector<WordTokens> with_marks(std::vector<WordTokens> words) {
  const auto append = [](WordTokens& to, const WordTokens& from) {
    to.text += from.text;
    to.tokens += from.tokens;
  };
  std::vector<WordTokens> joined;
  for (size_t i = words.size(); i-- > 0;) { // from the last on: marks that open
    const bool opens = words[i].text.starts_with(' ') &&
                       std::ranges::count(opening, trimmed(words[i].text)) > 0 && !joined.empty();
    if (!opens) {
      joined.push_back(std::move(words[i]));
      continue;
    }
    append(words[i], joined.back());
    joined.back() = std::move(words[i]);
  }
  std::ranges::reverse(joined);
  std::vector<WordTokens> result;
  for (WordTokens& word : joined) {
    const bool closes = !result.empty() && !result.back().text.ends_with(' ') &&
                        std::ranges::count(closing, std::string_view(word.text)) > 0;
    if (closes) {
      append(result.back(), word);
    } else {
      result.push_back(std::move(word));
    }
  }
  return result;
}

} // namespace

Result<std::vector<AlignmentHead>> read_alignment_heads(const ModelFile& file) {
  std::vector<AlignmentHead> heads;
  constexpr const char* name = "generation_config.json";
  nlohmann::json settings;
  std::string source = file.path();
  PUMICE_TRY(std::optional<nlohmann::json> given, file.folder().object(name));
  if (given) {
    settings = *std::move(given);
    source = file.folder().path(name);
  } else if (const nlohmann::json* own = file.fields().find("alignment_heads")) { // CTranslate2's config.json
    settings["alignment_heads"] = *own;
  }
  const auto found = settings.find("alignment_heads");
  if (found == settings.end() || found->is_null()) return heads;
  const auto number = [](const nlohmann::json& value) {
    return value.is_number_unsigned() && value.get<uint64_t>() <= UINT32_MAX;
  };
  const auto pair = [&](const nlohmann::json& value) {
    return value.is_array() && value.size() == 2 && number(value[0]) && number(value[1]);
  };
  if (!found->is_array() || !std::ranges::all_of(*found, pair)) {
    return Error{Code::invalid_file,
                 fmt::format("{}: field 'alignment_heads': expected pairs of a layer and a head", source)};
  }
  for (const nlohmann::json& each : *found)
    heads.push_back({each[0].get<uint32_t>(), each[1].get<uint32_t>()});
  return heads;
}

std::vector<float> median_filter(std::span<const float> row, uint32_t width) {
  const auto count = static_cast<ptrdiff_t>(row.size()), half = static_cast<ptrdiff_t>(width / 2);
  if (count <= half) return {row.begin(), row.end()};
  std::vector<float> result(row.size()), near(width);
  for (ptrdiff_t at = 0; at < count; ++at) {
    for (ptrdiff_t i = -half; i <= half; ++i) {
      const ptrdiff_t from = std::abs(at + i);
      near[static_cast<size_t>(i + half)] =
          row[static_cast<size_t>(from < count ? from : 2 * (count - 1) - from)];
    }
    std::ranges::nth_element(near, near.begin() + half);
    result[static_cast<size_t>(at)] = near[static_cast<size_t>(half)];
  }
  return result;
}

std::vector<float> alignment_scores(std::span<const std::vector<float>> heads, size_t tokens) {
  const size_t size = heads.empty() ? 0 : heads[0].size();
  const size_t positions = tokens > 0 ? size / tokens : 0;
  std::vector<float> scores(size), row(positions);
  for (const std::vector<float>& head : heads) {
    std::vector<float> own = head;
    for (size_t position = 0; position < positions; ++position) {
      double sum = 0, squares = 0;
      for (size_t token = 0; token < tokens; ++token) {
        const double weight = head[token * positions + position];
        sum += weight;
        squares += weight * weight;
      }
      const double mean = sum / static_cast<double>(tokens);
      const double deviation = std::sqrt(std::max(squares / static_cast<double>(tokens) - mean * mean, 0.0));
      for (size_t token = 0; token < tokens; ++token) {
        float& weight = own[token * positions + position];
        weight = deviation > 1e-12 ? static_cast<float>((weight - mean) / deviation) : 0;
      }
    }
    for (size_t token = 0; token < tokens; ++token) {
      const std::vector<float> smooth =
          median_filter(std::span(own).subspan(token * positions, positions), median_width);
      for (size_t position = 0; position < positions; ++position)
        scores[token * positions + position] += smooth[position] / static_cast<float>(heads.size());
    }
  }
  return scores;
}

std::vector<uint32_t> warp(std::span<const float> scores, size_t tokens) {
  const size_t positions = tokens > 0 ? scores.size() / tokens : 0;
  std::vector<uint32_t> reached(tokens, 0);
  if (positions == 0) return reached;
  enum class From : uint8_t { both, token, position };
  std::vector<double> best(scores.size());
  std::vector<From> from(scores.size(), From::both);
  for (size_t token = 0; token < tokens; ++token) {
    for (size_t position = 0; position < positions; ++position) {
      const size_t at = token * positions + position;
      if (at == 0) {
        best[at] = scores[at];
        continue;
      }
      const double none = -std::numeric_limits<double>::infinity();
      const double both = token > 0 && position > 0 ? best[at - positions - 1] : none;
      const double last_token = token > 0 ? best[at - positions] : none;
      const double last_position = position > 0 ? best[at - 1] : none;
      from[at] = both > last_token && both > last_position ? From::both
                 : last_token > last_position              ? From::token
                                                           : From::position;
      best[at] = scores[at] + std::max({both, last_token, last_position});
    }
  }
  for (size_t token = tokens - 1, position = positions - 1;;) {
    reached[token] = static_cast<uint32_t>(position); // the last that is written is the first of the path
    if (token == 0 && position == 0) break;
    const From way = from[token * positions + position];
    if (way != From::position) --token;
    if (way != From::token) --position;
  }
  return reached;
}

bool separates_words(std::string_view language) {
  return std::ranges::count(unspaced, language) == 0;
}

std::vector<WordTokens> words_of(const Tokenizer& tokenizer, std::span<const uint32_t> tokens, bool spaced) {
  std::vector<WordTokens> parts = whole_characters(tokenizer, tokens);
  if (!spaced) return with_marks(std::move(parts));
  std::vector<WordTokens> words;
  for (WordTokens& part : parts) {
    if (words.empty() || begins_word(part.text)) {
      words.push_back(std::move(part));
    } else {
      words.back().text += part.text;
      words.back().tokens += part.tokens;
    }
  }
  return with_marks(std::move(words));
}

Result<std::unique_ptr<WordTimer>> WordTimer::create(std::shared_ptr<const Model> model,
                                                     std::shared_ptr<const Tokenizer> tokenizer,
                                                     std::vector<AlignmentHead> heads, const Making& making) {
  std::unique_ptr<WordTimer> timer(new WordTimer());
  const ModelShape& shape = model->shape();
  const auto layers = static_cast<uint32_t>(shape.layers.size());
  const auto heads_in = [&](uint32_t layer) { return cross_attention_heads(shape, layer); };
  for (const AlignmentHead& each : heads) {
    if (each.layer < layers && each.head < heads_in(each.layer)) continue;
    return Error{Code::invalid_file,
                 fmt::format("{}: alignment_heads: the decoder has no head {} in a layer {}",
                             model->file().path(), each.head, each.layer)};
  }
  if (heads.empty()) {
    for (uint32_t layer = layers / 2; layer < layers; ++layer) {
      for (uint32_t head = 0; head < heads_in(layer); ++head) heads.push_back({layer, head});
    }
  }
  ForcedPassOptions options;
  options.readable = {"logits"};
  if (making.chunk) options.chunk = making.chunk;
  std::set<uint32_t> seen;
  for (const AlignmentHead& each : heads) {
    if (seen.insert(each.layer).second) options.readable.push_back(cross_attention_name(each.layer));
  }
  timer->heads_ = std::move(heads);
  timer->tokenizer_ = std::move(tokenizer);
  timer->model_ = model;
  PUMICE_TRY(timer->pass_, ForcedPass::create(std::move(model), std::move(options)));
  if (making.prepared && making.all) PUMICE_CHECK(timer->pass_->prepare(making));
  return timer;
}

// Of each head, [tokens, positions]: the part of a row that lies on the sound, whose sum is 1.
Result<std::vector<std::vector<float>>> WordTimer::weights(const SpokenText& text, size_t tokens) const {
  std::vector<std::vector<float>> all;
  for (const AlignmentHead& each : heads_) {
    const std::string name = cross_attention_name(each.layer);
    PUMICE_TRY(const std::vector<float> rows, pass_->read(name, 0));
    const uint32_t heads = cross_attention_heads(model_->shape(), each.layer);
    const size_t width = pass_->columns(name) / heads;
    const size_t positions = std::min<size_t>(text.positions, width);
    std::vector<float>& own = all.emplace_back();
    for (size_t token = 0; token < tokens; ++token) {
      const auto row = std::span(rows).subspan((token * heads + each.head) * width, positions);
      double sum = 0;
      for (float weight : row) sum += weight;
      for (float weight : row) own.push_back(static_cast<float>(weight / std::max(sum, 1e-12)));
    }
  }
  return all;
}

Result<std::vector<TimedWord>> WordTimer::words(const SpokenText& text) {
  std::vector<TimedWord> timed;
  if (text.tokens.empty() || text.positions == 0) return timed;
  ForcedInput input;
  input.input.values.assign(text.features.begin(), text.features.end());
  input.tokens = text.prefix;
  // Words that do not fit the decoder any more begin where the last one that does begins.
  const size_t room =
      model_->shape().context - std::min<size_t>(model_->shape().context, text.prefix.size() + 1);
  const size_t fitting = std::min(text.tokens.size(), room);
  input.tokens.insert(input.tokens.end(), text.tokens.begin(),
                      text.tokens.begin() + static_cast<ptrdiff_t>(fitting));
  input.tokens.push_back(text.end);
  PUMICE_CHECK(pass_->run(std::span(&input, 1)));
  PUMICE_TRY(const std::vector<std::vector<float>> heads, weights(text, input.tokens.size()));
  const std::vector<float> scores = alignment_scores(heads, input.tokens.size());
  PUMICE_TRY(const std::vector<float> logits, pass_->read("logits", 0));

  // The row of a token's predecessor tells where the token is.
  const size_t positions = scores.size() / input.tokens.size(), first = text.prefix.size() - 1;
  const std::vector<uint32_t> starts =
      warp(std::span(scores).subspan(first * positions, (fitting + 1) * positions), fitting + 1);
  const uint32_t vocabulary = model_->shape().vocabulary;
  size_t at = 0;
  for (const WordTokens& word : words_of(*tokenizer_, text.tokens, text.spaced)) {
    const size_t begin = std::min(at, fitting), end = std::min(at + word.tokens, fitting);
    TimedWord made{word.text, starts[begin] * text.position_seconds, starts[end] * text.position_seconds};
    double sum = 0;
    for (size_t i = begin; i < end; ++i)
      sum += probability(std::span(logits).subspan((first + i) * vocabulary, vocabulary), text.tokens[i]);
    made.probability = end > begin ? static_cast<float>(sum / static_cast<double>(end - begin)) : 0;
    made.tokens = word.tokens;
    timed.push_back(std::move(made));
    at += word.tokens;
  }
  return timed;
}

} // namespace pumice
