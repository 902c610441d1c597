#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace pumice {

// The file formats read here are little-endian, and so is every host this is built for; bytes are copied as
// they are.
static_assert(std::endian::native == std::endian::little, "pumice's file readers need a little-endian host");

// A cursor over untrusted bytes. A read that does not fit returns false and moves nothing.
class ByteReader {
public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  uint64_t position() const { return position_; }
  uint64_t remaining() const { return bytes_.size() - position_; }

  // The number at the cursor, which need not be aligned.
  template <class T>
  bool read(T& value) {
    if (remaining() < sizeof(T)) return false;
    std::memcpy(&value, bytes_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return true;
  }

  // A view of the next `count` bytes.
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

// a * b, or false where that does not fit 64 bits.
inline bool multiply(uint64_t a, uint64_t b, uint64_t& product) {
  product = a * b;
  return a == 0 || product / a == b;
}

// Text from a file made fit for an error message: control and non-ASCII bytes as \xNN, cut after `limit`
// bytes.
std::string printable(std::string_view text, size_t limit = 120);

// The same between single quotes: what messages put around names that a file gave.
std::string in_quotes(std::string_view text, size_t limit = 120);

// "[2, 3]"; long ones are cut.
std::string shape_text(std::span<const uint64_t> shape);

} // namespace pumice
