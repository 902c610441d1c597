#include "step/forms/form_tables.h"

#include <algorithm>

#include "kernel/sampling/form_words.h"

namespace pumice {

std::optional<uint32_t> FormTables::use(const std::shared_ptr<const FormTable>& table) {
  auto placed = std::ranges::find(placed_, table, &Placed::table);
  if (placed == placed_.end()) {
    const std::vector<uint32_t> words = form_words(*table);
    const std::optional<size_t> begin = find_room(words.size());
    if (!begin) return {};
    std::ranges::copy(words, memory_.begin() + static_cast<std::ptrdiff_t>(*begin));
    placed = placed_.insert(std::ranges::upper_bound(placed_, *begin, {}, &Placed::begin),
                            {table, *begin, *begin + words.size()});
  }
  ++placed->users;
  placed->used = ++uses_;
  return static_cast<uint32_t>(placed->begin);
}

void FormTables::release(const FormTable& table) {
  const auto placed = std::ranges::find(placed_, &table, [](const Placed& each) { return each.table.get(); });
  if (placed != placed_.end()) --placed->users;
}

// Tables that no text uses go, those first that were used longest ago, until there is room.
std::optional<size_t> FormTables::find_room(size_t words) {
  if (words > memory_.size()) return {};
  for (;;) {
    size_t begin = 0;
    for (const Placed& each : placed_) {
      if (each.begin - begin >= words) return begin;
      begin = each.end;
    }
    if (memory_.size() - begin >= words) return begin;
    const auto free = [](const Placed& each) { return each.users > 0 ? UINT64_MAX : each.used; };
    const auto oldest = std::ranges::min_element(placed_, {}, free);
    if (oldest == placed_.end() || oldest->users > 0) return {};
    placed_.erase(oldest);
  }
}

} // namespace pumice
