#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace pumice {

// Every file format read here is little-endian, and so is every host that is supported, so numbers are copied
// without conversion.
static_assert(std::endian::native == std::endian::little, "pumice's file readers need a little-endian host");

// A cursor over untrusted bytes. A read that goes beyond the end returns false and does not move the cursor.
class ByteReader {
public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  uint64_t position() const { return position_; }
  uint64_t remaining() const { return bytes_.size() - position_; }

  // Reads the number at the cursor, which need not be aligned.
  template <class T>
  bool read(T& value) {
    if (remaining() < sizeof(T)) return false;
    std::memcpy(&value, bytes_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return true;
  }

  // Gives a view of the next `count` bytes and moves past them.
  bool take(uint64_t count, std::span<const std::byte>& out) {
    if (remaining() < count) return false;
    out = bytes_.subspan(position_, count);
    position_ += count;
    return true;
  }

private:
  std::span<const std::byte> bytes_;
  size_t position_ = 0;
};

inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Multiplies a by b. Returns false if the product does not fit 64 bits.
inline bool multiply(uint64_t a, uint64_t b, uint64_t& product) {
  product = a * b;
  return a == 0 || product / a == b;
}

// Makes text from a file safe to print in an error message: control and non-ASCII bytes become \xNN, and the
// text is cut after `limit` bytes.
std::string printable(std::string_view text, size_t limit = 120);

// The same between single quotes. Messages use it for names that come from a file.
std::string in_quotes(std::string_view text, size_t limit = 120);

// A shape as text, "[2, 3]". Long ones are cut.
std::string shape_text(std::span<const uint64_t> shape);

} // namespace pumice
