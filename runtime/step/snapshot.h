#pragma once

#include <filesystem>

#include "io/mapped_file.h"
#include "step/runner.h"
#include "step/state_file.h"

namespace pumice {

// Writes a sequence's part of the caches with what the snapshot says beside them. Its model, cache type and
// layers are filled in here.
Status save_snapshot(const std::filesystem::path& path, const Runner& runner, uint32_t sequence,
                     Snapshot snapshot);

// The same in the host's memory.
Result<std::vector<std::byte>> snapshot_bytes(const Runner& runner, uint32_t sequence, Snapshot snapshot);

struct OpenedSnapshot {
  MappedFile file; // that the snapshot's data points into
  Snapshot snapshot;
};
// A file with a snapshot that fits the runner; any other is refused with its reason.
Result<OpenedSnapshot> open_snapshot(MappedFile file, const Runner& runner);
// Puts its keys and values in a sequence's part of the caches.
Status restore_caches(const OpenedSnapshot& opened, const Runner& runner, uint32_t sequence);

} // namespace pumice
