#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "kernel/cache_layout.h"
#include "kernel/sampling/sampling.h"
#include "step/prompt_embeddings.h"

namespace pumice {

// One layer in a snapshot.
struct SnapshotLayer {
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;
  uint32_t capacity = 0; // positions that the saved session had room for
  uint64_t bytes = 0;    // of its keys and values
  std::span<const std::byte> data;
};

// A conversation in a file: everything that its continuation depends on. Numbers are little-endian:
//   magic, version, bytes of the file, the fields below in their order with a count before each list, the
//   layers' data one after the other, and a checksum of everything before it.
struct Snapshot {
  uint64_t model = 0; // Model::identity()
  CacheType cache = CacheType::f16;
  uint32_t cached = 0;      // leading tokens whose keys and values are there
  uint32_t written_end = 0; // after the last position that was written to the caches
  SamplingParams sampling;
  std::vector<uint32_t> tokens;
  PromptEmbeddings pictures; // those of the tokens that are their rows
  std::vector<SnapshotLayer> layers;
};

// Fills `piece` with the data of a layer from byte `offset` on.
using LayerReader = std::function<Status(size_t layer, uint64_t offset, std::span<std::byte> piece)>;

// Takes the bytes of a state file, in order.
using StateSink = std::function<Status(std::span<const std::byte> bytes)>;
Status write_state(const Snapshot& snapshot, const LayerReader& read, const StateSink& sink);

// Writes a file, as OutputFile does it.
Status write_state_file(const std::filesystem::path& path, const Snapshot& snapshot, const LayerReader& read);

// Reads the bytes of a whole file; the layers' data points into them. `name` is the file's name for error
// messages.
Result<Snapshot> parse_state_file(std::span<const std::byte> bytes, const std::string& name);

} // namespace pumice
