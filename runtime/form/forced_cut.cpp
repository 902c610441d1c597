#include "form/forced_cut.h"

#include <algorithm>
#include <array>
#include <string>

#include "form/form_vocabulary.h"
#include "text/tokenizer.h"

namespace pumice {

namespace {

// More tokens that go on are not looked at.
constexpr size_t most_beyond = 64;
// Cuts that are kept.
constexpr size_t most_cuts = 1 << 15;

// The bytes before the first special token.
std::string_view text_before_special(std::string_view bytes) {
  for (size_t at = 0; at + 4 <= bytes.size(); ++at) {
    if (form::is_special(bytes.substr(at, 4))) return bytes.substr(0, at);
  }
  return bytes;
}

} // namespace

const form::ForcedCut& FormVocabulary::cut(const std::string& bytes) {
  if (const auto known = cuts_.find(bytes); known != cuts_.end()) return known->second;
  if (cuts_.size() >= most_cuts) cuts_.clear();
  return cuts_[bytes] = find_cut(bytes);
}

form::ForcedCut FormVocabulary::find_cut(std::string_view bytes) const {
  const std::optional<uint32_t> first = first_token(bytes);
  if (!first) return {};
  form::ForcedCut cut{first};
  for (size_t begin = 0; begin < tokens_[*first].size(); ++begin) {
    for (const form::TokenTree* tree : {&plain_tree_, &others_}) {
      if (!add_beyond(*tree, bytes.substr(begin), cut)) return {};
    }
  }
  return cut;
}

// Adds the ends of a tree's tokens that begin with these bytes and are longer. False: there are too many.
bool FormVocabulary::add_beyond(const form::TokenTree& tree, std::string_view bytes,
                                form::ForcedCut& cut) const {
  const auto bytes_of = [&](uint32_t token) { return std::string_view(tokens_[token]); };
  for (auto at = std::ranges::upper_bound(tree.tokens, bytes, {}, bytes_of);
       at != tree.tokens.end() && bytes_of(*at).starts_with(bytes); ++at) {
    if (cut.beyond.size() >= most_beyond) return false;
    cut.beyond.push_back(bytes_of(*at).substr(bytes.size()));
  }
  return true;
}

// The token that the tokenizer begins these bytes with, within a text.
std::optional<uint32_t> FormVocabulary::first_token(std::string_view bytes) const {
  const std::string_view text = text_before_special(bytes);
  if (text.empty()) return longest_token(bytes.substr(0, 4));
  if (!tokenizer_) return longest_token(text);
  // Where a text's first word gets a space before it, a line before it keeps that away.
  for (const std::string_view before : {"", "\n"}) {
    const std::string all = std::string(before).append(text);
    const std::vector<uint32_t> ids =
        tokenizer_->encode(std::array{Tokenizer::Part{all, Tokenizer::SpecialTokens::as_text}}, false);
    size_t left = text.size(), first = ids.size();
    while (first > 0 && left > 0) {
      const std::string_view last = this->bytes(ids[first - 1]);
      if (last.empty() || !text.substr(0, left).ends_with(last)) break;
      left -= last.size();
      --first;
    }
    if (left == 0) return ids[first];
  }
  return {};
}

// The longest token that the bytes begin with.
std::optional<uint32_t> FormVocabulary::longest_token(std::string_view bytes) const {
  const auto bytes_of = [&](uint32_t token) { return std::string_view(tokens_[token]); };
  for (size_t length = bytes.size(); length > 0; --length) {
    for (const form::TokenTree* tree : {&plain_tree_, &others_}) {
      const auto at = std::ranges::lower_bound(tree->tokens, bytes.substr(0, length), {}, bytes_of);
      if (at != tree->tokens.end() && bytes_of(*at) == bytes.substr(0, length)) return *at;
    }
  }
  return {};
}

} // namespace pumice
