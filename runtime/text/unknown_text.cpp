#include "text/unknown_text.h"

#include <fmt/format.h>

#include "text/unicode/unicode.h"

namespace pumice::text {

UnknownText::UnknownText(const Vocabulary& vocabulary, bool byte_fallback, std::optional<uint32_t> unknown,
                         bool fuse)
    : unknown_(unknown), byte_fallback_(byte_fallback), fuse_(fuse) {
  for (size_t byte = 0; byte_fallback && byte < bytes_.size(); ++byte) {
    bytes_[byte] = vocabulary.find(fmt::format("<0x{:02X}>", byte));
  }
}

bool UnknownText::append(std::string_view escaped, bool after_unknown, std::vector<uint32_t>& ids) const {
  if (byte_fallback_ && append_bytes(escaped, ids)) return false;
  if (unknown_ && !(fuse_ && after_unknown)) ids.push_back(*unknown_);
  return unknown_.has_value();
}

bool UnknownText::append_bytes(std::string_view escaped, std::vector<uint32_t>& ids) const {
  const size_t before = ids.size();
  for (char byte : unescape_bytes(escaped)) {
    std::optional<uint32_t> id = bytes_[static_cast<unsigned char>(byte)];
    if (!id) {
      ids.resize(before);
      return false;
    }
    ids.push_back(*id);
  }
  return true;
}

} // namespace pumice::text
