#pragma once

#include <chrono>

namespace pumice {

// For loops that wait for a text of slices. Calls are no measure there: one that finds enough slices in
// flight makes none.
class TimeLimit {
public:
  bool in_time() const { return std::chrono::steady_clock::now() < end_; }

private:
  std::chrono::steady_clock::time_point end_ = std::chrono::steady_clock::now() + std::chrono::minutes(2);
};

} // namespace pumice
