#include "form/characters.h"

#include <algorithm>

#include "text/unicode/unicode.h"

namespace pumice::form {

namespace {

constexpr char32_t first_surrogate = 0xD800, last_surrogate = 0xDFFF;

std::string utf8(char32_t value) {
  std::string text;
  text::append_code_point(text, value);
  return text;
}

// Cuts a range until its first and last character differ only in bytes that take every continuation.
void add(CharacterRange range, std::vector<ByteSequence>& sequences) {
  for (const char32_t limit : {0x7FU, 0x7FFU, 0xFFFFU}) {
    if (range.first <= limit && range.last > limit) {
      add({range.first, limit}, sequences);
      add({limit + 1, range.last}, sequences);
      return;
    }
  }
  for (uint32_t bits = 6; bits <= 18 && range.first > 0x7F; bits += 6) {
    const char32_t low = (char32_t{1} << bits) - 1;
    if ((range.first & ~low) == (range.last & ~low)) continue;
    if ((range.first & low) != 0) {
      add({range.first, range.first | low}, sequences);
      add({(range.first | low) + 1, range.last}, sequences);
      return;
    }
    if ((range.last & low) != low) {
      add({range.first, (range.last & ~low) - 1}, sequences);
      add({range.last & ~low, range.last}, sequences);
      return;
    }
  }
  const std::string first = utf8(range.first), last = utf8(range.last);
  ByteSequence bytes;
  for (size_t i = 0; i < first.size(); ++i) {
    bytes.push_back({static_cast<uint8_t>(first[i]), static_cast<uint8_t>(last[i])});
  }
  sequences.push_back(std::move(bytes));
}

} // namespace

std::string special_bytes(uint32_t token) {
  return token > last_special - first_special ? "" : utf8(first_special + token);
}

bool is_special(std::string_view bytes) {
  return bytes.size() == 4 && static_cast<uint8_t>(bytes[0]) >= 0xF4 &&
         (static_cast<uint8_t>(bytes[0]) > 0xF4 || static_cast<uint8_t>(bytes[1]) >= 0x90);
}

Characters any_character() {
  return united({{0, last_character}});
}

Characters united(std::vector<CharacterRange> ranges) {
  std::vector<CharacterRange> cut;
  for (const CharacterRange& range : ranges) {
    const char32_t before = std::min(range.last, char32_t{first_surrogate - 1});
    const char32_t after = std::max(range.first, char32_t{last_surrogate + 1});
    if (range.first <= before) cut.push_back({range.first, before});
    if (after <= range.last) cut.push_back({after, std::min(range.last, last_character)});
  }
  std::ranges::sort(cut, {}, &CharacterRange::first);
  Characters result;
  for (const CharacterRange& range : cut) {
    if (!result.empty() && range.first <= result.back().last + 1) {
      result.back().last = std::max(result.back().last, range.last);
    } else {
      result.push_back(range);
    }
  }
  return result;
}

Characters all_but(const Characters& left_out) {
  std::vector<CharacterRange> rest;
  char32_t next = 0;
  for (const CharacterRange& range : left_out) {
    if (range.first > next) rest.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= last_character) rest.push_back({next, last_character});
  return united(std::move(rest));
}

Characters common(const Characters& a, const Characters& b) {
  std::vector<CharacterRange> both;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const CharacterRange range{std::max(a[i].first, b[j].first), std::min(a[i].last, b[j].last)};
    if (range.first <= range.last) both.push_back(range);
    a[i].last < b[j].last ? ++i : ++j;
  }
  return united(std::move(both));
}

std::vector<ByteSequence> utf8_of(const Characters& characters) {
  std::vector<ByteSequence> sequences;
  for (const CharacterRange& range : characters) add(range, sequences);
  return sequences;
}

} // namespace pumice::form
