#include "input/line_message.h"

#include <algorithm>
#include <cstring>

namespace pumice::command {

namespace {

constexpr uint64_t most_bytes = uint64_t{1} << 32; // of a message

class Writer {
public:
  void number(uint64_t value) { bytes_.append(reinterpret_cast<const char*>(&value), sizeof value); }
  void text(const std::string& value) {
    number(value.size());
    bytes_ += value;
  }
  const std::string& bytes() const { return bytes_; }

private:
  std::string bytes_;
};

// Gives zeros after the end, which fits() tells.
class Reader {
public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  uint64_t number() {
    uint64_t value = 0;
    take(reinterpret_cast<char*>(&value), sizeof value);
    return value;
  }
  std::string text() {
    const uint64_t size = number();
    if (size > bytes_.size()) fits_ = false;
    std::string value(fits_ ? size : 0, '\0');
    take(value.data(), value.size());
    return value;
  }
  bool fits() const { return fits_; }
  bool done() const { return fits_ && bytes_.empty(); }

private:
  void take(char* to, size_t size) {
    fits_ = fits_ && size <= bytes_.size();
    if (!fits_) return;
    std::memcpy(to, bytes_.data(), size);
    bytes_.remove_prefix(size);
  }

  std::string_view bytes_;
  bool fits_ = true;
};

std::string packed(const LineMessage& message) {
  Writer writer;
  writer.number(static_cast<uint64_t>(message.kind));
  writer.number(message.flag);
  writer.number(message.number);
  writer.text(message.text);
  writer.number(message.lines.size());
  for (const Line& line : message.lines) {
    writer.number(line.number);
    writer.number(line.place.has_value());
    writer.number(line.place ? line.place->index : 0);
    writer.number(line.place ? line.place->seed : 0);
    writer.text(line.text);
    writer.text(line.kept);
  }
  return writer.bytes();
}

Result<LineMessage> unpacked(std::string_view bytes) {
  Reader reader(bytes);
  LineMessage message;
  const uint64_t kind = reader.number();
  message.kind = static_cast<LineMessage::Kind>(kind);
  message.flag = reader.number() != 0;
  message.number = reader.number();
  message.text = reader.text();
  const uint64_t lines = reader.number();
  for (uint64_t i = 0; i < lines && reader.fits(); ++i) {
    Line& line = message.lines.emplace_back();
    line.number = reader.number();
    const bool placed = reader.number() != 0;
    const RequestPlace place = {reader.number(), reader.number()};
    if (placed) line.place = place;
    line.text = reader.text();
    line.kept = reader.text();
  }
  if (!reader.done() || kind > static_cast<uint64_t>(LineMessage::Kind::end))
    return Error{Code::internal, "a message between copies of the model is damaged"};
  return message;
}

} // namespace

// Its number of bytes, then pieces of it.
Status send_line_message(Hop& hop, const LineMessage& message) {
  const std::string bytes = packed(message);
  const uint64_t size = bytes.size();
  PUMICE_TRY(const std::span<std::byte> first, hop.begin(sizeof size));
  std::memcpy(first.data(), &size, sizeof size);
  PUMICE_CHECK(hop.send());
  for (size_t sent = 0; sent < size;) {
    const size_t count = std::min(bytes.size() - sent, small_message_bytes);
    PUMICE_TRY(const std::span<std::byte> room, hop.begin(count));
    std::memcpy(room.data(), bytes.data() + sent, count);
    PUMICE_CHECK(hop.send());
    sent += count;
  }
  return {};
}

Result<LineMessage> receive_line_message(Hop& hop) {
  PUMICE_TRY(const std::span<const std::byte> first, hop.receive());
  uint64_t size = most_bytes + 1;
  if (first.size() == sizeof size) std::memcpy(&size, first.data(), sizeof size);
  if (size > most_bytes) return Error{Code::internal, "a message between copies of the model has no length"};
  std::string bytes;
  while (bytes.size() < size) {
    PUMICE_TRY(const std::span<const std::byte> piece, hop.receive());
    if (piece.empty() || piece.size() > size - bytes.size()) {
      return Error{Code::internal, "a message between copies of the model has another length than " +
                                       std::to_string(size) + " bytes"};
    }
    bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
  return unpacked(bytes);
}

} // namespace pumice::command
