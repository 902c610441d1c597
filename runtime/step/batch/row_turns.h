#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

namespace pumice {

// How many of the texts that go on have a row in the next step, by what steps took so far. A step of one more
// row may take so much longer that all texts together get fewer tokens a second, because another kernel takes
// it or many of its rows are padding. Then some texts wait for a step, in turn.
class RowTurns {
public:
  RowTurns() = default;
  // `sizes`: of the steps that there are plans for, smallest first; a step takes the smallest that it fits.
  explicit RowTurns(std::vector<uint32_t> sizes) : sizes_(std::move(sizes)) {}

  // A step that only went on with so many texts, and what it took: processor time, because on a busy machine
  // a step lasts any time.
  void took(uint32_t rows, double seconds);
  // Of so many texts: `texts`, unless fewer were measured to get clearly more tokens a second, or are likely
  // to before anything was measured. A step of all, one without padding, and later the largest power of two
  // below what is best, are tried for a few steps, and again after a while: something else may have run.
  uint32_t rows(uint32_t texts);

private:
  struct Steps {
    std::deque<double> seconds; // of the last few, without the first one, which may compile its kernels
    uint64_t latest = 0;        // the number of the last one
    bool began = false;
    double typical() const; // 0: too few were measured
  };
  uint32_t size_of(uint32_t rows) const;
  double recent(uint32_t size); // typical(), unless that was long ago

  std::vector<uint32_t> sizes_;
  std::map<uint32_t, Steps> measured_; // by size
  uint64_t steps_ = 0;
};

} // namespace pumice
