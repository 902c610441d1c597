#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

// Bytes for a test to write a file of: numbers little-endian, as the host has them.
class ByteWriter {
public:
  template <class T>
  ByteWriter& number(T value) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), bytes, bytes + sizeof(T));
    return *this;
  }
  ByteWriter& text(std::string_view text) { return raw(std::as_bytes(std::span(text))); }
  ByteWriter& raw(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  ByteWriter& pad_to(size_t multiple) {
    bytes_.resize((bytes_.size() + multiple - 1) / multiple * multiple);
    return *this;
  }

  size_t size() const { return bytes_.size(); }
  const std::vector<std::byte>& bytes() const { return bytes_; }

private:
  std::vector<std::byte> bytes_;
};
