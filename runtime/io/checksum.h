#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace pumice {

// A 64-bit checksum of bytes that come in pieces, in any cut the same: against damage, not against malice.
// FNV-1a over words of eight bytes with their high bits folded in, so that any change within one word always
// shows.
class Checksum {
public:
  void add(std::span<const std::byte> bytes) {
    total_ += bytes.size();
    while (!bytes.empty()) {
      if (held_ == 0 && bytes.size() >= 8) {
        uint64_t word;
        std::memcpy(&word, bytes.data(), 8);
        mix(word);
        bytes = bytes.subspan(8);
        continue;
      }
      partial_ |= static_cast<uint64_t>(bytes[0]) << (8 * held_);
      bytes = bytes.subspan(1);
      if (++held_ < 8) continue;
      mix(partial_);
      partial_ = 0;
      held_ = 0;
    }
  }
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }
  void add(uint64_t number) { add(std::as_bytes(std::span(&number, 1))); }

  uint64_t value() const {
    Checksum end = *this;
    end.mix(partial_);
    end.mix(total_); // zeros at the end count
    return end.hash_;
  }

private:
  void mix(uint64_t word) {
    hash_ = (hash_ ^ word) * 0x100000001b3u;
    hash_ ^= hash_ >> 32;
  }

  uint64_t hash_ = 0xcbf29ce484222325u;
  uint64_t partial_ = 0; // bytes of a word that is not whole yet
  uint64_t total_ = 0;
  int held_ = 0;
};

} // namespace pumice
