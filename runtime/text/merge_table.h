#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pumice::text {

// Pairs of ids → where the pair stands in the list of merges, and the id it becomes. An open hash table: a
// merge costs 16 to 32 bytes.
class MergeTable {
public:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Merge {
    uint32_t rank = kNone;
    uint32_t id = 0;
  };

  explicit MergeTable(size_t merges);
  void set(uint32_t left, uint32_t right, Merge merge); // the last one set for a pair holds
  Merge find(uint32_t left, uint32_t right) const;      // rank kNone if there is none

private:
  struct Slot {
    uint64_t key = 0;
    Merge merge;
  };
  size_t slot_of(uint64_t key) const;

  std::vector<Slot> slots_;
  int shift_;
};

} // namespace pumice::text
