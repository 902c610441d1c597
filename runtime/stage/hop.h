#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace pumice {

class HopBuffers; // step/hop_buffers.h

// A way from one stage to the next, for messages in their order. One thread sends, and one receives. After an
// error it stays broken: all further calls return it.
class Hop {
public:
  virtual ~Hop() = default;

  // Makes room for messages of up to so many bytes. Both ends do it, before such a message comes; there is
  // room for `small_message_bytes` from the beginning.
  virtual Status reserve(size_t bytes) = 0;
  // Room for the next message. Waits while messages that were not received yet take all places.
  virtual Result<std::span<std::byte>> begin(size_t bytes) = 0;
  virtual Status send() = 0;

  // Who sends on it, for error messages.
  virtual std::string sender() const { return "the stage before"; }
  // Waits for the next message, which lies there until the next call.
  virtual Result<std::span<const std::byte>> receive() = 0;

  // Where both ends' devices import the host's memory, its alignment for both. Then the sender may offer
  // places to a session before its message "begin", and the receiver finds them when this has come.
  virtual uint64_t import_alignment() const { return 0; }
  virtual void offer(uint32_t /*session*/, std::shared_ptr<HopBuffers> /*places*/) {}
  virtual std::shared_ptr<HopBuffers> offered(uint32_t /*session*/) { return nullptr; }

  // Ends what both ends wait for, with this error. From any thread.
  virtual void close(Error error) = 0;
};

inline constexpr size_t small_message_bytes = size_t{64} << 10;

} // namespace pumice
