#include "text/merge_table.h"

#include <bit>

#include "base/prefetch.h"

namespace pumice::text {

namespace {

uint64_t key_of(uint32_t left, uint32_t right) {
  return uint64_t{left} << 32 | right;
}

} // namespace

MergeTable::MergeTable(size_t merges)
    : slots_(std::bit_ceil(merges + merges / 3 + 2)), shift_(64 - std::countr_zero(slots_.size())) {}

size_t MergeTable::first_slot(uint64_t key) const {
  return static_cast<size_t>((key ^ key >> 29) * 0x9E3779B97F4A7C15u >> shift_);
}

size_t MergeTable::slot_of(uint64_t key) const {
  size_t mask = slots_.size() - 1;
  size_t slot = first_slot(key);
  while (slots_[slot].merge.rank != kNone && slots_[slot].key != key) slot = (slot + 1) & mask;
  return slot;
}

void MergeTable::prepare(uint32_t left, uint32_t right) const {
  prefetch(&slots_[first_slot(key_of(left, right))]);
}

void MergeTable::set(uint32_t left, uint32_t right, Merge merge) {
  uint64_t key = key_of(left, right);
  slots_[slot_of(key)] = {key, merge};
}

MergeTable::Merge MergeTable::find(uint32_t left, uint32_t right) const {
  return slots_[slot_of(key_of(left, right))].merge;
}

} // namespace pumice::text
