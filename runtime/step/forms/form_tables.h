#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "form/form_table.h"

namespace pumice {

// The tables of forms that a batch's device has in its memory, which texts with the same form share. Those
// that no text uses stay until others need their room. Used only while no step that samples is in flight.
class FormTables {
public:
  explicit FormTables(std::span<uint32_t> memory) : memory_(memory) {}

  // Returns the word at which a table begins; nothing: there is no room. To be released as often.
  std::optional<uint32_t> use(const std::shared_ptr<const FormTable>& table);
  void release(const FormTable& table);

private:
  struct Placed {
    std::shared_ptr<const FormTable> table;
    size_t begin = 0, end = 0;
    uint32_t users = 0;
    uint64_t used = 0; // when it was asked for last, in calls of use()
  };

  std::optional<size_t> find_room(size_t words);

  std::span<uint32_t> memory_;
  std::vector<Placed> placed_; // in the order of the memory
  uint64_t uses_ = 0;
};

} // namespace pumice
