#include "stage/message.h"

#include <algorithm>

#include <fmt/format.h>

#include "io/bytes.h"
#include "step/step_rows.h"

namespace pumice {

namespace {

// A session's sizes in a message; the names of readable tensors follow, each with a zero after it.
struct SizeInMessage {
  uint32_t context, chunk, sequences, drafts, cache, beams, input_positions, encodes, caches, all_outputs,
      names;
};

constexpr uint32_t most_names = 4096;

Error damaged() {
  return Error{Code::internal, "a message between stages is damaged"};
}

} // namespace

Result<Message> message_of(std::span<const std::byte> bytes, const Hop& hop) {
  Message message;
  if (bytes.size() < sizeof message.header) return damaged();
  std::memcpy(&message.header, bytes.data(), sizeof message.header);
  message.bytes = bytes.subspan(sizeof message.header);
  if (message.header.kind > MessageKind::quit || message.bytes.size() != message.header.bytes) {
    return Error{Code::internal, fmt::format("a message from {} has {} bytes: expected {}", hop.sender(),
                                             message.bytes.size(), message.header.bytes)};
  }
  return message;
}

Result<std::span<std::byte>> begin_message(Hop& hop, MessageHeader header) {
  PUMICE_TRY(const std::span<std::byte> bytes, hop.begin(sizeof header + header.bytes));
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes.subspan(sizeof header);
}

Status send_message(Hop& hop, MessageHeader header, std::span<const std::byte> bytes,
                    std::span<const std::byte> more) {
  header.bytes = static_cast<uint32_t>(bytes.size() + more.size());
  PUMICE_TRY(const std::span<std::byte> room, begin_message(hop, header));
  std::ranges::copy(bytes, room.begin());
  std::ranges::copy(more, room.subspan(bytes.size()).begin());
  return hop.send();
}

std::vector<std::byte> to_bytes(const StageSteps& steps) {
  const SessionSize& size = steps.size;
  const SizeInMessage sizes = {size.context,
                               size.chunk,
                               size.sequences,
                               size.drafts,
                               static_cast<uint32_t>(size.cache),
                               size.beams,
                               size.input_positions,
                               steps.encodes,
                               steps.caches,
                               steps.all_outputs,
                               static_cast<uint32_t>(steps.readable.size())};
  std::vector<std::byte> bytes(sizeof sizes);
  std::memcpy(bytes.data(), &sizes, sizeof sizes);
  for (const std::string& name : steps.readable) {
    const auto* begin = reinterpret_cast<const std::byte*>(name.c_str());
    bytes.insert(bytes.end(), begin, begin + name.size() + 1);
  }
  return bytes;
}

Result<StageSteps> stage_steps_from(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  SizeInMessage sizes;
  if (!reader.read(sizes) || sizes.cache >= cache_types().size() || sizes.names > most_names) {
    return damaged();
  }
  StageSteps steps;
  steps.size = {sizes.context,
                sizes.chunk,
                sizes.sequences,
                sizes.drafts,
                static_cast<CacheType>(sizes.cache),
                sizes.beams != 0,
                0, // stages have no pages
                sizes.input_positions};
  steps.encodes = sizes.encodes != 0;
  steps.caches = sizes.caches;
  steps.all_outputs = sizes.all_outputs != 0;
  std::string_view names = as_text(bytes.subspan(reader.position()));
  for (uint32_t i = 0; i < sizes.names; ++i) {
    const size_t end = names.find('\0');
    if (end == std::string_view::npos) return damaged();
    steps.readable.emplace_back(names.substr(0, end));
    names.remove_prefix(end + 1);
  }
  return steps;
}

std::vector<std::byte> to_bytes(const Error& error) {
  const uint32_t code = static_cast<uint32_t>(error.code);
  const std::string text = error.text();
  std::vector<std::byte> bytes(sizeof code);
  std::memcpy(bytes.data(), &code, sizeof code);
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  bytes.insert(bytes.end(), begin, begin + std::min<size_t>(text.size(), small_message_bytes / 2));
  return bytes;
}

Error error_from(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  uint32_t code = 0;
  if (!reader.read(code) || code > static_cast<uint32_t>(Code::context_full)) return damaged();
  return Error{static_cast<Code>(code), std::string(as_text(bytes.subspan(reader.position())))};
}

Status check_step_bytes(const MessageHeader& begin, uint64_t expected, const Hop& hop) {
  if (begin.tokens == expected) return {};
  return Error{Code::internal, fmt::format("{} sends steps of up to {} bytes: expected {}", hop.sender(),
                                           begin.tokens, expected)};
}

Result<StageResults> results_of(const Message& message, uint64_t row_bytes) {
  if (message.bytes.size() < row_bytes) return Error{Code::internal, "a step between stages is too short"};
  StageResults results{message.bytes.subspan(row_bytes)};
  if (message.header.kind != MessageKind::placed) return results;
  uint32_t place = 0;
  if (results.bytes.size() != sizeof place) return damaged();
  std::memcpy(&place, results.bytes.data(), sizeof place);
  return StageResults{{}, place};
}

uint64_t step_message_bytes(uint32_t tokens) {
  return sizeof(MessageHeader) + uint64_t{packed_row_words(tokens)} * 4;
}

} // namespace pumice
