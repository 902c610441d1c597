#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

// A compiled character map (precompiled_charsmap) of a few entries, as SentencePiece writes them: see
// text/unicode/character_map.h.
inline std::string character_map(const std::map<std::string, std::string>& entries) {
  std::string replacements;
  std::vector<uint32_t> units(256);
  // One block of 256 units for each beginning of an entry: its children are where their bytes lead from it.
  std::map<std::string, uint32_t> blocks = {{"", 0}};
  const auto leads_to = [](uint32_t from, uint32_t to) { return (from ^ to) << 10; };
  std::set<std::string> beginnings;
  for (const auto& [text, with] : entries)
    for (size_t length = 1; length <= text.size(); ++length) beginnings.insert(text.substr(0, length));
  for (const std::string& beginning : beginnings) {
    blocks[beginning] = static_cast<uint32_t>(units.size());
    units.resize(units.size() + 256);
  }
  for (const std::string& beginning : beginnings) {
    const auto byte = static_cast<uint8_t>(beginning.back());
    const uint32_t at = blocks[beginning.substr(0, beginning.size() - 1)] ^ byte;
    units[at] = leads_to(at, blocks[beginning]) | byte;
    if (const auto found = entries.find(beginning); found != entries.end()) {
      units[at] |= 1u << 8;
      units[blocks[beginning]] = 1u << 31 | static_cast<uint32_t>(replacements.size());
      replacements.append(found->second).push_back('\0');
    }
  }
  std::string bytes;
  const auto put = [&bytes](uint32_t value) {
    for (int shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<char>(value >> shift));
  };
  put(static_cast<uint32_t>(4 * units.size()));
  for (uint32_t unit : units) put(unit);
  return bytes + replacements;
}
