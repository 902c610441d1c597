#include "text/unicode/character_map.h"

#include <algorithm>

#include <fmt/format.h>
#include <utf8proc.h>

#include "text/unicode/unicode.h"

namespace pumice::text {

namespace {

// A unit of the trie. Bits 0 to 7: the byte that leads here. Bit 8: whether a string ends here. Bits 10 to
// 30: the offset to the children (times 256 if bit 9 is set). If bit 31 is set, the unit is a value.
constexpr uint32_t kValue = 1u << 31;

bool has_value(uint32_t unit) {
  return (unit >> 8 & 1) != 0;
}
uint32_t label(uint32_t unit) {
  return unit & (kValue | 0xFF);
}
uint32_t offset(uint32_t unit) {
  return (unit >> 10) << ((unit >> 9 & 1) * 8);
}

uint32_t read_u32(std::string_view bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value |= uint32_t{static_cast<unsigned char>(bytes[at + i])} << 8 * i;
  return value;
}

size_t grapheme_length(std::string_view text) {
  CodePoint point = first_code_point(text);
  size_t length = point.length;
  utf8proc_int32_t state = 0;
  while (length < text.size()) {
    const CodePoint next = first_code_point(text.substr(length));
    if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(point.value),
                                         static_cast<utf8proc_int32_t>(next.value), &state))
      break;
    length += next.length;
    point = next;
  }
  return length;
}

class GraphemeMap final : public Normalizer {
public:
  explicit GraphemeMap(CharacterMap map) : map_(std::move(map)) {}

  void apply(std::string& escaped) const override {
    std::string out;
    out.reserve(escaped.size());
    for (std::string_view rest = escaped; !rest.empty();) {
      const size_t length = grapheme_length(rest);
      append(out, rest.substr(0, length));
      rest.remove_prefix(length);
    }
    escaped = std::move(out);
  }
  double growth() const override {
    return std::max<double>(1, static_cast<double>(map_.longest_replacement()));
  }

private:
  void append(std::string& out, std::string_view grapheme) const {
    if (grapheme.size() < 6) {
      if (auto match = map_.shortest(grapheme)) {
        out += match->with;
        return;
      }
    }
    while (!grapheme.empty()) {
      const std::string_view character = grapheme.substr(0, first_code_point(grapheme).length);
      const auto match = map_.shortest(character);
      out += match ? match->with : character;
      grapheme.remove_prefix(character.size());
    }
  }

  CharacterMap map_;
};

class LongestMap final : public Normalizer {
public:
  explicit LongestMap(CharacterMap map) : map_(std::move(map)) {}

  void apply(std::string& escaped) const override {
    std::string out;
    out.reserve(escaped.size());
    for (std::string_view rest = escaped; !rest.empty();) {
      size_t length = first_code_point(rest).length;
      if (auto match = map_.longest(rest)) {
        out += match->with;
        length = match->length;
      } else {
        out += rest.substr(0, length);
      }
      rest.remove_prefix(length);
    }
    escaped = std::move(out);
  }
  double growth() const override {
    return std::max<double>(1, static_cast<double>(map_.longest_replacement()));
  }

private:
  CharacterMap map_;
};

} // namespace

Result<CharacterMap> CharacterMap::parse(std::string_view bytes, const std::string& where) {
  auto bad = [&](const std::string& what) {
    return Error{Code::invalid_file, fmt::format("{}: the character map is damaged: {}", where, what)};
  };
  if (bytes.size() < 4) return bad(fmt::format("expected at least 4 bytes, found {}", bytes.size()));
  const size_t length = read_u32(bytes, 0);
  if (length > bytes.size() - 4 || length % 1024 != 0 || length == 0)
    return bad(
        fmt::format("expected a trie of blocks of 1024 bytes within {}, found {}", bytes.size() - 4, length));
  CharacterMap map;
  map.replacements_ = bytes.substr(4 + length);
  const std::string& replacements = map.replacements_;
  if (!replacements.ends_with('\0')) return bad("expected replacements that end with a NUL");
  if (!is_valid_utf8(replacements)) return bad("expected replacements in UTF-8");
  for (size_t at = 4; at < 4 + length; at += 4) map.units_.push_back(read_u32(bytes, at));
  if (map.units_[0] & kValue) return bad("it begins with a value");
  for (size_t i = 0; i < map.units_.size(); ++i) {
    const uint32_t unit = map.units_[i];
    if (unit & kValue) {
      if ((unit & ~kValue) >= replacements.size())
        return bad(fmt::format("unit {} points beyond the replacements", i));
    } else if (((i ^ offset(unit)) | 0xFF) >= map.units_.size()) {
      return bad(fmt::format("unit {} points beyond the trie", i));
    } else if (has_value(unit) && !(map.units_[i ^ offset(unit)] & kValue)) {
      return bad(fmt::format("unit {} has no value", i));
    }
  }
  for (size_t at = 0; at < replacements.size();) {
    const size_t end = replacements.find('\0', at);
    map.longest_replacement_ = std::max(map.longest_replacement_, end - at);
    at = end + 1;
  }
  return map;
}

std::optional<CharacterMap::Match> CharacterMap::find(std::string_view text, bool longest) const {
  std::optional<Match> match;
  size_t node = offset(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const uint32_t byte = static_cast<unsigned char>(text[i]);
    if (byte == 0) break;
    node ^= byte;
    const uint32_t unit = units_[node];
    if (label(unit) != byte) break;
    node ^= offset(unit);
    if (!has_value(unit)) continue;
    match = {i + 1, replacements_.c_str() + (units_[node] & ~kValue)};
    if (!longest) break;
  }
  return match;
}

NormalizerPtr make_grapheme_map(CharacterMap map) {
  return std::make_unique<GraphemeMap>(std::move(map));
}
NormalizerPtr make_longest_map(CharacterMap map) {
  return std::make_unique<LongestMap>(std::move(map));
}

} // namespace pumice::text
