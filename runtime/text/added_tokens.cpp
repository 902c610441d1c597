#include "text/added_tokens.h"

#include <algorithm>

#include "text/unicode/unicode.h"

namespace pumice::text {

namespace {

bool touches_word(std::string_view before, std::string_view after) {
  return (!before.empty() && is_word(last_code_point(before).value)) ||
         (!after.empty() && is_word(first_code_point(after).value));
}

size_t white_space_at_end(std::string_view text) {
  size_t length = 0;
  while (!text.empty() && is_white_space(last_code_point(text).value)) {
    uint32_t character = last_code_point(text).length;
    text.remove_suffix(character);
    length += character;
  }
  return length;
}

size_t white_space_at_start(std::string_view text) {
  size_t length = 0;
  while (length < text.size() && is_white_space(first_code_point(text.substr(length)).value)) {
    length += first_code_point(text.substr(length)).length;
  }
  return length;
}

} // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const Normalizer* normalizer)
    : tokens_(std::move(tokens)) {
  for (uint32_t i = 0; i < tokens_.size(); ++i) {
    const AddedToken& token = tokens_[i];
    if (token.special) special_ids_.push_back(token.id);
    std::string text = token.content;
    if (token.normalized && normalizer) normalizer->apply(text);
    if (text.empty()) continue;
    if (!token.special) (token.normalized ? normalized_words_ : raw_words_).spellings.push_back({text, i});
    (token.normalized ? normalized_ : raw_).spellings.push_back({std::move(text), i});
  }
  std::sort(special_ids_.begin(), special_ids_.end());
  for (Dictionary* dictionary : {&raw_, &normalized_, &raw_words_, &normalized_words_}) dictionary->finish();
}

void AddedTokens::Dictionary::finish() {
  std::stable_sort(spellings.begin(), spellings.end(),
                   [](const Spelling& a, const Spelling& b) { return a.text < b.text; });
  for (uint32_t i = 0; i < spellings.size(); ++i) {
    auto& range = first_byte[static_cast<unsigned char>(spellings[i].text[0])];
    if (range.second == 0) range.first = i;
    range.second = i + 1;
  }
}

// Narrows the range of spellings byte by byte. A spelling that ends on the way is the longest match so far.
const AddedTokens::Dictionary::Spelling* AddedTokens::Dictionary::longest_at(std::string_view text) const {
  auto [low, high] = first_byte[static_cast<unsigned char>(text[0])];
  const Spelling* longest = nullptr;
  for (size_t depth = 1; low < high; ++depth) {
    if (spellings[low].text.size() == depth) longest = &spellings[low];
    if (depth == text.size()) break;
    auto begin = spellings.begin() + low, end = spellings.begin() + high;
    unsigned char byte = static_cast<unsigned char>(text[depth]);
    auto at_depth = [depth](const Spelling& s) {
      return depth < s.text.size() ? int{static_cast<unsigned char>(s.text[depth])} : -1;
    };
    auto first = std::partition_point(begin, end, [&](const Spelling& s) { return at_depth(s) < byte; });
    auto last = std::partition_point(first, end, [&](const Spelling& s) { return at_depth(s) <= byte; });
    low = static_cast<uint32_t>(first - spellings.begin());
    high = static_cast<uint32_t>(last - spellings.begin());
  }
  return longest;
}

std::vector<AddedTokens::Segment> AddedTokens::cut(std::string_view escaped,
                                                   const Dictionary& dictionary) const {
  std::vector<Segment> segments;
  size_t done = 0;
  for (size_t at = 0; at < escaped.size() && !dictionary.spellings.empty();) {
    const Dictionary::Spelling* hit = dictionary.longest_at(escaped.substr(at));
    if (!hit) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[hit->token];
    size_t begin = at, end = at + hit->text.size();
    at = end;
    if (token.single_word && touches_word(escaped.substr(0, begin), escaped.substr(end))) continue;
    if (token.left_strip && begin > done) begin -= white_space_at_end(escaped.substr(done, begin - done));
    if (token.right_strip) end += white_space_at_start(escaped.substr(end));
    if (done < begin) segments.push_back({{done, begin}, std::nullopt});
    segments.push_back({{begin, end}, token.id});
    done = at = std::max(done, end);
  }
  if (done < escaped.size()) segments.push_back({{done, escaped.size()}, std::nullopt});
  return segments;
}

std::vector<size_t> AddedTokens::cuts_in_special(std::string_view escaped) const {
  std::vector<size_t> cuts;
  for (size_t at = 0; at < escaped.size(); ++at) {
    for (const Dictionary* dictionary : {&raw_, &normalized_}) {
      const Dictionary::Spelling* hit = dictionary->longest_at(escaped.substr(at));
      if (!hit || !tokens_[hit->token].special) continue;
      const size_t cut = at + first_code_point(escaped.substr(at)).length;
      if (cuts.empty() || cuts.back() < cut) cuts.push_back(cut);
    }
  }
  return cuts;
}

bool AddedTokens::is_special(uint32_t id) const {
  return std::binary_search(special_ids_.begin(), special_ids_.end(), id);
}

std::optional<uint32_t> AddedTokens::find(std::string_view content) const {
  for (const AddedToken& token : tokens_) {
    if (token.content == content) return token.id;
  }
  return std::nullopt;
}

} // namespace pumice::text
