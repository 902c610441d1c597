#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>

namespace pumice::serve {

// What the requests with a key may use in a minute. 0: any number.
struct KeyLimits {
  uint64_t requests = 0, tokens = 0;
};

// What they have used. A minute begins with the first request after the last one's end.
class KeyUse {
public:
  explicit KeyUse(KeyLimits limits) : limits_(limits) {}

  // Counts a request. Seconds after which it may be sent again; 0: it is welcome.
  int begin() {
    const std::lock_guard lock(mutex_);
    const Clock::time_point now = Clock::now();
    if (now >= end_) {
      requests_ = tokens_ = 0;
      end_ = now + std::chrono::minutes(1);
    }
    const bool spent =
        (limits_.requests && requests_ >= limits_.requests) || (limits_.tokens && tokens_ >= limits_.tokens);
    if (spent) return 1 + static_cast<int>(std::chrono::duration<double>(end_ - now).count());
    ++requests_;
    return 0;
  }
  // Tokens that were read or written for a request. What is under way comes to its end.
  void add_tokens(uint64_t count) {
    const std::lock_guard lock(mutex_);
    tokens_ += count;
  }
  KeyLimits limits() {
    const std::lock_guard lock(mutex_);
    return limits_;
  }
  void set_limits(KeyLimits limits) {
    const std::lock_guard lock(mutex_);
    limits_ = limits;
  }

private:
  using Clock = std::chrono::steady_clock;
  std::mutex mutex_;
  KeyLimits limits_;
  uint64_t requests_ = 0, tokens_ = 0;
  Clock::time_point end_ = {};
};

} // namespace pumice::serve
