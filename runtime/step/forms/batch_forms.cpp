// What a batch does for texts whose form the host follows.
#include <algorithm>

#include "step/batch.h"

namespace pumice {

// Whether the host says which tokens of some text may be drawn.
bool Batch::masks_by_host() const {
  return std::ranges::any_of(rows_,
                             [](const Sequence* row) { return row && row->form && !row->form->on_device(); });
}

// Writes which tokens the next step may draw.
Status Batch::write_masks() {
  for (Sequence* row : rows_) {
    if (row->form) PUMICE_CHECK(row->form->write_mask(sampling_state_, static_cast<uint32_t>(row->slot)));
  }
  return {};
}

} // namespace pumice
