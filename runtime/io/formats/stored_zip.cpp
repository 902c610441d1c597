#include "io/formats/stored_zip.h"

#include <algorithm>

#include <fmt/format.h>

#include "io/bytes.h"

namespace pumice {

namespace {

using Bytes = std::span<const std::byte>;

constexpr uint64_t end_bytes = 22, locator_bytes = 20, most_comment = 0xffff;
constexpr uint32_t end_mark = 0x06054b50, locator_mark = 0x07064b50, end64_mark = 0x06064b50,
                   entry_mark = 0x02014b50, local_mark = 0x04034b50;
constexpr uint32_t elsewhere = 0xffffffff; // a number is in the entry's 64-bit field

// A number at a place that may lie outside; then 0.
template <class T>
T number_at(Bytes bytes, uint64_t at) {
  T value = 0;
  if (at <= bytes.size() && bytes.size() - at >= sizeof(T)) std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

struct Directory {
  uint64_t at = 0, entries = 0;
};

Result<Directory> find_directory(Bytes bytes, const std::string& file) {
  const uint64_t first =
      bytes.size() > end_bytes + most_comment ? bytes.size() - end_bytes - most_comment : 0;
  for (uint64_t at = bytes.size() >= end_bytes ? bytes.size() - end_bytes + 1 : 0; at-- > first;) {
    if (number_at<uint32_t>(bytes, at) != end_mark) continue;
    Directory found = {number_at<uint32_t>(bytes, at + 16), number_at<uint16_t>(bytes, at + 10)};
    if (at >= locator_bytes && number_at<uint32_t>(bytes, at - locator_bytes) == locator_mark) {
      const uint64_t end64 = number_at<uint64_t>(bytes, at - locator_bytes + 8);
      if (number_at<uint32_t>(bytes, end64) == end64_mark)
        found = {number_at<uint64_t>(bytes, end64 + 48), number_at<uint64_t>(bytes, end64 + 32)};
    }
    return found;
  }
  return Error{Code::invalid_file, fmt::format("{}: the archive has no end: the file is not complete", file)};
}

struct Member {
  uint64_t bytes = 0, packed = 0, at = 0;
};

// Numbers of more than 32 bits are in a field of their own, in this order, those that are needed.
void read_large(Bytes extra, Member& member) {
  for (uint64_t at = 0; at + 4 <= extra.size();) {
    const uint16_t kind = number_at<uint16_t>(extra, at), length = number_at<uint16_t>(extra, at + 2);
    uint64_t from = at += 4;
    at += length;
    if (kind != 1) continue;
    for (uint64_t* each : {&member.bytes, &member.packed, &member.at}) {
      if (*each != elsewhere) continue;
      *each = number_at<uint64_t>(extra, from);
      from += 8;
    }
  }
}

} // namespace

Result<std::map<std::string, Bytes>> read_stored_zip(Bytes bytes, const std::string& file) {
  const auto error = [&](std::string_view what, Code code = Code::invalid_file) {
    return Error{code, fmt::format("{}: {}", file, what)};
  };
  PUMICE_TRY(const Directory directory, find_directory(bytes, file));
  if (directory.at > bytes.size()) return error("the archive is not complete");
  ByteReader in(bytes.subspan(directory.at));
  std::map<std::string, Bytes> members;
  for (uint64_t i = 0; i < directory.entries; ++i) {
    Bytes head, name, extra, comment;
    const bool complete = in.take(46, head) && number_at<uint32_t>(head, 0) == entry_mark &&
                          in.take(number_at<uint16_t>(head, 28), name) &&
                          in.take(number_at<uint16_t>(head, 30), extra) &&
                          in.take(number_at<uint16_t>(head, 32), comment);
    if (!complete) return error("the archive's list of members is not complete");
    Member member = {number_at<uint32_t>(head, 24), number_at<uint32_t>(head, 20),
                     number_at<uint32_t>(head, 42)};
    read_large(extra, member);
    if (number_at<uint16_t>(head, 10) != 0 || member.bytes != member.packed)
      return error(fmt::format("member {} is compressed: expected it stored", in_quotes(as_text(name))),
                   Code::unsupported);
    const uint64_t names =
        number_at<uint16_t>(bytes, member.at + 26) + uint64_t{number_at<uint16_t>(bytes, member.at + 28)};
    const uint64_t begin = member.at + 30 + names;
    if (member.at > bytes.size() || number_at<uint32_t>(bytes, member.at) != local_mark ||
        begin > bytes.size() || bytes.size() - begin < member.bytes)
      return error(fmt::format("member {} is not complete", in_quotes(as_text(name))));
    members.emplace(as_text(name), bytes.subspan(begin, member.bytes));
  }
  return members;
}

} // namespace pumice
