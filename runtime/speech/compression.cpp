#include "speech/compression.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <unordered_map>
#include <vector>

namespace pumice {

namespace {

// RFC 1951.
constexpr size_t least_match = 3, most_match = 258, furthest = 32768;
constexpr size_t literals = 256, end_of_block = 256, first_length = 257;
constexpr double wrapper_bytes = 6; // zlib's header and checksum
constexpr size_t most_tried = 128;  // earlier places of the same three bytes

struct Symbol {
  uint32_t code = 0, extra_bits = 0;
};

Symbol length_symbol(size_t length) {
  if (length == most_match) return {28, 0};
  const auto rest = static_cast<uint32_t>(length - least_match);
  if (rest < 8) return {rest, 0};
  const uint32_t extra = static_cast<uint32_t>(std::bit_width(rest)) - 3;
  return {4 * extra + 4 + (rest >> extra & 3), extra};
}

Symbol distance_symbol(size_t distance) {
  const auto rest = static_cast<uint32_t>(distance - 1);
  if (rest < 4) return {rest, 0};
  const uint32_t extra = static_cast<uint32_t>(std::bit_width(rest)) - 2;
  return {2 * extra + 2 + (rest >> extra & 1), extra};
}

// What is written, by symbol.
struct Counts {
  std::array<uint32_t, 286> literals_and_lengths{};
  std::array<uint32_t, 30> distances{};
  double extra_bits = 0;

  void literal(char byte) { ++literals_and_lengths[static_cast<unsigned char>(byte)]; }
  void match(size_t length, size_t distance) {
    const Symbol of_length = length_symbol(length), of_distance = distance_symbol(distance);
    ++literals_and_lengths[first_length + of_length.code];
    ++distances[of_distance.code];
    extra_bits += of_length.extra_bits + of_distance.extra_bits;
  }
};

class Matches {
public:
  explicit Matches(std::string_view text) : text_(text) {}

  struct Match {
    size_t length = 0, distance = 0;
  };
  // The longest earlier text that goes on like the one at `at`.
  Match longest(size_t at) const {
    Match best;
    if (at + least_match > text_.size()) return best;
    const auto found = places_.find(key(at));
    if (found == places_.end()) return best;
    const std::vector<size_t>& places = found->second;
    const size_t most = std::min(most_match, text_.size() - at);
    for (size_t i = places.size(); i-- > 0 && places.size() - i <= most_tried;) {
      const size_t from = places[i];
      if (at - from > furthest) break;
      size_t length = 0;
      while (length < most && text_[from + length] == text_[at + length]) ++length;
      if (length > best.length) best = {length, at - from};
    }
    return best.length >= least_match ? best : Match();
  }
  void add(size_t at) {
    if (at + least_match <= text_.size()) places_[key(at)].push_back(at);
  }

private:
  uint32_t key(size_t at) const {
    const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(text_[i])); };
    return byte(at) << 16 | byte(at + 1) << 8 | byte(at + 2);
  }

  std::string_view text_;
  std::unordered_map<uint32_t, std::vector<size_t>> places_;
};

Counts count_symbols(std::string_view text) {
  Counts counts;
  Matches matches(text);
  for (size_t at = 0; at < text.size();) {
    const Matches::Match match = matches.longest(at);
    matches.add(at);
    // A longer match one byte later is better.
    if (match.length == 0 || (at + 1 < text.size() && matches.longest(at + 1).length > match.length)) {
      counts.literal(text[at++]);
      continue;
    }
    counts.match(match.length, match.distance);
    for (size_t i = 1; i < match.length; ++i) matches.add(at + i);
    at += match.length;
  }
  counts.literals_and_lengths[end_of_block] = 1;
  return counts;
}

double fixed_bits(const Counts& counts) {
  double bits = counts.extra_bits;
  for (size_t i = 0; i < counts.literals_and_lengths.size(); ++i) {
    const int length = i < 144 ? 8 : i < literals ? 9 : i < 280 ? 7 : 8;
    bits += double{1} * counts.literals_and_lengths[i] * length;
  }
  for (uint32_t count : counts.distances) bits += 5.0 * count;
  return bits;
}

// By the entropy of the symbols, and about what the table of their codes takes.
double own_bits(std::span<const uint32_t> counts) {
  constexpr double code_bits = 3.3, gap_bits = 7;
  double all = 0, bits = 0;
  for (uint32_t count : counts) all += count;
  bool in_gap = false;
  for (uint32_t count : counts) {
    if (count > 0) bits += count * std::max(1.0, std::log2(all / count)) + code_bits;
    if (count == 0 && !in_gap) bits += gap_bits;
    in_gap = count == 0;
  }
  return bits;
}

} // namespace

double compression_ratio(std::string_view text) {
  if (text.empty()) return 0;
  constexpr double block_bits = 3, table_bits = 14 + 3 * 17;
  const Counts counts = count_symbols(text);
  const double own =
      table_bits + counts.extra_bits + own_bits(counts.literals_and_lengths) + own_bits(counts.distances);
  const double bits = block_bits + std::min(fixed_bits(counts), own);
  return static_cast<double>(text.size()) / (wrapper_bytes + std::ceil(bits / 8));
}

} // namespace pumice
