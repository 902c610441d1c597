#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "stage/hop.h"

namespace pumice {

// A hop between two threads of a process. It has two places: while the receiver uses one, the sender fills
// the other.
class MemoryHop : public Hop {
public:
  // `import_alignment`: of memory that the devices of both ends can import; 0: they cannot.
  explicit MemoryHop(uint64_t import_alignment = 0) : import_alignment_(import_alignment) {}

  Status reserve(size_t) override { return {}; }
  Result<std::span<std::byte>> begin(size_t bytes) override;
  Status send() override;
  Result<std::span<const std::byte>> receive() override;
  void close(Error error) override;
  uint64_t import_alignment() const override { return import_alignment_; }
  void offer(uint32_t session, std::shared_ptr<HopBuffers> places) override;
  std::shared_ptr<HopBuffers> offered(uint32_t session) override;

private:
  const uint64_t import_alignment_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<std::vector<std::byte>, 2> places_;
  uint64_t sent_ = 0, received_ = 0; // messages; the one that was received last still takes its place
  bool reading_ = false;
  std::optional<Error> closed_;
  std::map<uint32_t, std::shared_ptr<HopBuffers>> offered_; // by session
};

} // namespace pumice
