#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "stage/hop.h"
#include "step/upstream_steps.h"

namespace pumice {

enum class MessageKind : uint32_t {
  hello,   // the first one: what all stages must agree on, and where they are
  begin,   // a session, with what its runners are made from
  step,    // its rows, then what the stage before has computed, or what the first one's encoder reads
  placed,  // its rows, then the place of HopBuffers that has what the stage before has computed
  block,   // of a session: pieces of the step block, see UpstreamSteps::write_block()
  read,    // of a session: a CachePiece, then room for it, which the stage that has it fills
  write,   // the same with what is written
  prepare, // compile all kernels of a session
  end,     // a session
  ask,     // of plan-split, between processes that have no sessions
  answer,  // to that, unless it is `failed`
  failed,  // a stage has an error: its code and its sentence
  quit,    // all of it
};

// The beginning of every message. All numbers are little-endian.
struct MessageHeader {
  MessageKind kind = MessageKind::quit;
  uint32_t session = 0;
  // Of a step; of a hello: the largest Upstream::position_block() so far; of a begin: the bytes of the
  // longest step message that the sender will send.
  uint32_t tokens = 0;
  uint32_t bytes = 0; // after the header
};

// A message as it was received. Its bytes lie in the hop.
struct Message {
  MessageHeader header;
  std::span<const std::byte> bytes;
};

// Checks that what was received on a hop has the length that its header says.
Result<Message> message_of(std::span<const std::byte> received, const Hop& hop);
// Begins a message; returns the room for its bytes. Hop::send() sends it.
Result<std::span<std::byte>> begin_message(Hop& hop, MessageHeader header);
Status send_message(Hop& hop, MessageHeader header, std::span<const std::byte> bytes = {},
                    std::span<const std::byte> more = {});

// What a session's runners are made from, as the bytes of a message.
std::vector<std::byte> to_bytes(const StageSteps& steps);
Result<StageSteps> stage_steps_from(std::span<const std::byte> bytes);

std::vector<std::byte> to_bytes(const Error& error);
Error error_from(std::span<const std::byte> bytes);

// The error of a session whose steps have other lengths than the stage before has planned; none if both
// agree.
Status check_step_bytes(const MessageHeader& begin, uint64_t expected, const Hop& hop);

// What a step's message has after its rows, which take so many bytes.
Result<StageResults> results_of(const Message& message, uint64_t row_bytes);

// Bytes of a step's message beside those that the stage before has computed.
uint64_t step_message_bytes(uint32_t tokens);

} // namespace pumice
