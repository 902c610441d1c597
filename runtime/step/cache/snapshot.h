#pragma once

#include <filesystem>

#include "io/mapped_file.h"
#include "step/cache/state_file.h"
#include "step/runner.h"

namespace pumice {

// Writes the keys and values of a sequence, with the other fields of the snapshot, to a file. Its model,
// cache type and layers are filled in here.
Status save_snapshot(const std::filesystem::path& path, const Runner& runner, uint32_t sequence,
                     Snapshot snapshot);

// The same, into whatever takes the bytes.
Status save_snapshot(const StateSink& sink, const Runner& runner, uint32_t sequence, Snapshot snapshot);

struct OpenedSnapshot {
  MappedFile file; // the memory that the snapshot's data points into
  Snapshot snapshot;
};
// Opens a snapshot. A file that is damaged or does not fit the runner is an error.
Result<OpenedSnapshot> open_snapshot(MappedFile file, const Runner& runner);
// Copies its keys and values into the caches of a sequence.
Status restore_caches(const OpenedSnapshot& opened, const Runner& runner, uint32_t sequence);

// Of a stage that is not the last one: a piece of what its layers keep. False, and nothing is done, where the
// layer is another stage's.
Result<bool> read_cached(const Runner& runner, const CachePiece& piece, std::span<std::byte> to);
Result<bool> write_cached(const Runner& runner, const CachePiece& piece, std::span<const std::byte> from);

// A sequence in a runner's caches.
struct CachedSequence {
  const Runner& runner;
  uint32_t sequence = 0;
};
// Copies the keys and values of the first `cached` positions, and the states after them, from one sequence to
// another, from buffer to buffer on the device, and waits. All positions before `written_end` were written.
// Both runners have the same model, on the same device, and the same cache type. Returns false, and copies
// nothing, where the position's places differ: a layer's ring has wrapped around and has another length
// there. So it does where the model is in stages. `pages`: false: without layers whose positions are in
// pages.
Result<bool> copy_caches(const CachedSequence& from, const CachedSequence& to, uint32_t cached,
                         uint32_t written_end, bool pages = true);
// Copies what a page of the pool holds into another one, and waits.
Status copy_page(const Runner& runner, uint32_t from, uint32_t to);

} // namespace pumice
