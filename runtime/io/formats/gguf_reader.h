#pragma once

#include "base/result.h"
#include "io/bytes.h"

#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace pumice {

struct GgufFile;

// The GGUF parser's cursor. Its reads return errors that name the file and the position. `what` names the
// item that is read.
class GgufReader {
public:
  GgufReader(std::span<const std::byte> bytes, std::string file) : bytes_(bytes), file_(std::move(file)) {}

  ByteReader& bytes() { return bytes_; }

  Error invalid(std::string_view what) const {
    return {Code::invalid_file, fmt::format("{}: {}", file_, what)};
  }
  Error unsupported(std::string_view what) const {
    return {Code::unsupported, fmt::format("{}: {}", file_, what)};
  }

  Error cut_short(std::string_view what, uint64_t need) const {
    return invalid(fmt::format("{}: expected {} bytes at byte {}, found {} before the end of the file", what,
                               need, bytes_.position(), bytes_.remaining()));
  }

  template <class T>
  Result<T> number(std::string_view what) {
    T value;
    if (!bytes_.read(value)) return cut_short(what, sizeof(T));
    return value;
  }

  // Reads a 64-bit length, then that many bytes.
  Result<std::string_view> string(std::string_view what) {
    uint64_t length = 0;
    if (!bytes_.read(length)) return cut_short(what, sizeof(length));
    std::span<const std::byte> text;
    if (!bytes_.take(length, text)) return cut_short(what, length);
    return as_text(text);
  }

private:
  ByteReader bytes_;
  std::string file_;
};

// Reads `count` key-value pairs into the file's metadata and arrays.
Status read_gguf_metadata(GgufReader& reader, uint64_t count, GgufFile& file);

// Bytes of one element; 0 for strings and arrays, whose size varies.
uint64_t gguf_type_bytes(uint32_t type);

} // namespace pumice
