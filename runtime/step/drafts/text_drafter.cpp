#include "step/drafts/text_drafter.h"

#include <algorithm>

namespace pumice {

namespace {

constexpr uint32_t no_position = UINT32_MAX;
constexpr uint32_t least_length = 2;    // of an occurrence
constexpr uint32_t most_length = 32;    // that is told from a longer one
constexpr int most_occurrences = 32;    // that are compared
constexpr double rate_memory = 0.96875; // of a rate, with each guess: about the last 32 count

} // namespace

void TextDrafter::Rate::learn(bool right) {
  held = held * rate_memory + (right ? 1 : 0);
  all = all * rate_memory + 1;
}

size_t TextDrafter::rate_of(uint32_t length) {
  return length < 3 ? 0 : length < 4 ? 1 : length < 8 ? 2 : 3;
}

uint64_t TextDrafter::end_at(size_t position) const {
  return uint64_t{tokens_[position - 2]} << 32 | tokens_[position - 1];
}

void TextDrafter::add(uint32_t token) {
  tokens_.push_back(token);
  earlier_.push_back(no_position);
  const size_t n = tokens_.size();
  if (n < least_length + 1) return;
  // What stood before this token ends there; the text's own end has nothing behind it yet.
  const auto [entry, first] = latest_.try_emplace(end_at(n - 1), static_cast<uint32_t>(n - 1));
  if (first) return;
  earlier_[n - 1] = entry->second;
  entry->second = static_cast<uint32_t>(n - 1);
}

void TextDrafter::find() {
  match_ = {};
  const size_t n = tokens_.size();
  if (n < least_length + 1) return;
  const auto found = latest_.find(end_at(n));
  if (found == latest_.end()) return;
  int compared = 0;
  for (uint32_t at = found->second; at != no_position && compared < most_occurrences;
       at = earlier_[at], ++compared) {
    uint32_t length = least_length;
    const uint32_t most = std::min(most_length, at);
    while (length < most && tokens_[at - 1 - length] == tokens_[n - 1 - length]) ++length;
    if (length > match_.length) match_ = {at, length};
    if (length == most_length) return;
  }
}

void TextDrafter::follow(std::span<const uint32_t> tokens, size_t forced) {
  const bool goes_on =
      tokens_.size() <= tokens.size() && std::ranges::equal(tokens_, tokens.first(tokens_.size()));
  if (!goes_on) {
    tokens_.clear();
    earlier_.clear();
    latest_.clear();
    match_ = {};
  }
  const bool first = tokens_.empty();
  for (const uint32_t token : tokens.subspan(tokens_.size())) {
    const bool drawn = tokens.size() - tokens_.size() > forced;
    if (match_.length && drawn) rates_[rate_of(match_.length)].learn(tokens_[match_.next] == token);
    add(token);
    if (!first) find(); // what was there from the start says nothing of guesses
  }
  if (first) find();
}

std::vector<uint32_t> TextDrafter::draft(size_t most) const {
  std::vector<uint32_t> drafted;
  for (size_t at = match_.next; match_.length && drafted.size() < most; ++at)
    drafted.push_back(at < tokens_.size() ? tokens_[at] : drafted[at - tokens_.size()]);
  return drafted;
}

} // namespace pumice
