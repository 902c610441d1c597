#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// A SentencePiece model file, byte by byte.
class SentencePieceBuilder {
public:
  enum Type { normal = 1, unknown = 2, control = 3, user_defined = 4, byte = 6 };

  void add(std::string_view text, float score, Type type = normal) {
    std::string piece = bytes(1, text);
    piece += varint(2 << 3 | 5);
    for (int shift = 0; shift < 32; shift += 8)
      piece.push_back(static_cast<char>(std::bit_cast<uint32_t>(score) >> shift));
    if (type != normal) piece += number(3, type);
    pieces_ += bytes(1, piece);
  }

  std::string character_map;
  int kind = 1; // 1: unigram, 2: BPE
  bool add_prefix = true;
  bool remove_extra = true;
  std::string extra; // fields of the whole file

  std::string build() const {
    std::string normalizer = bytes(1, "test");
    if (!character_map.empty()) normalizer += bytes(2, character_map);
    normalizer += number(3, add_prefix) + number(4, remove_extra);
    return pieces_ + bytes(2, number(3, static_cast<uint64_t>(kind))) + bytes(3, normalizer) + extra;
  }

  static std::string varint(uint64_t value) {
    std::string out;
    for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
    out.push_back(static_cast<char>(value));
    return out;
  }
  static std::string number(uint64_t field, uint64_t value) { return varint(field << 3) + varint(value); }
  static std::string bytes(uint64_t field, std::string_view value) {
    return varint(field << 3 | 2) + varint(value.size()) + std::string(value);
  }

private:
  std::string pieces_;
};
