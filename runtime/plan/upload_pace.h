#pragma once

#include <cstdint>

namespace pumice {

// The most that an upload takes between two reports of its progress. 0: no limit of its own.
struct UploadBudget {
  double seconds = 0; // of the device for copies; where the host writes to the device's memory, of the host
  uint64_t bytes = 0;

  bool limits() const { return seconds > 0 || bytes > 0; }
};

// How many bytes are uploaded at a time, so that they keep to a budget, by what earlier ones took. It begins
// with few.
class UploadPace {
public:
  // `least`: bytes that are uploaded at a time however long that takes; `most`: that ever are.
  UploadPace(const UploadBudget& budget, uint64_t least, uint64_t most);

  bool timed() const { return budget_ > 0; }
  uint64_t bytes() const { return bytes_; } // of the next upload
  void took(uint64_t bytes, double seconds);

private:
  double budget_; // seconds; 0: none
  uint64_t least_, most_, bytes_;
};

} // namespace pumice
