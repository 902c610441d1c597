#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pumice::text {

// Maps a pair of ids to its rank in the list of merges and to the id of the joined token. A hash table with
// open addressing; a merge takes 16 to 32 bytes.
class MergeTable {
public:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Merge {
    uint32_t rank = kNone;
    uint32_t id = 0;
  };

  explicit MergeTable(size_t merges);
  void prepare(uint32_t left, uint32_t right) const; // several before as many set() wait for memory together
  void set(uint32_t left, uint32_t right, Merge merge); // replaces an earlier merge of the pair
  Merge find(uint32_t left, uint32_t right) const;      // rank is kNone if there is none

private:
  struct Slot {
    uint64_t key = 0;
    Merge merge;
  };
  size_t first_slot(uint64_t key) const;
  size_t slot_of(uint64_t key) const;

  std::vector<Slot> slots_;
  int shift_;
};

} // namespace pumice::text
