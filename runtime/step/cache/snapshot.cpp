#include "step/cache/snapshot.h"

#include <algorithm>

#include <fmt/format.h>

#include "step/cache/cache_transfer.h"
#include "step/prompt_embeddings.h"

namespace pumice {

namespace {

uint64_t sum_of(const std::vector<CacheRange>& ranges) {
  uint64_t sum = 0;
  for (const CacheRange& range : ranges) sum += range.bytes;
  return sum;
}

// Of so many positions of a sequence in a layer.
uint64_t cached_bytes(const CacheLayout& layout, uint32_t positions) {
  const uint64_t values = layout.values_are_keys ? 0 : layout.value_tile_bytes();
  return uint64_t{positions} / 8 * layout.kv_heads * (layout.key_tile_bytes() + values);
}

class Checker {
public:
  explicit Checker(std::string file) : file_(std::move(file)) {}

  template <class T>
  void equal(const std::string& field, const T& expected, const T& found) {
    if (expected != found) fail(field, fmt::format("{}", expected), fmt::format("{}", found));
  }
  void at_most(const std::string& field, uint64_t most, uint64_t found, const char* why) {
    if (found > most) fail(field, fmt::format("at most {}, {}", most, why), std::to_string(found));
  }
  void fail(const std::string& field, const std::string& expected, const std::string& found) {
    if (status_.ok()) {
      status_ = Error{Code::invalid_file,
                      fmt::format("{}: field '{}': expected {}; found {}", file_, field, expected, found)};
    }
  }
  bool ok() const { return status_.ok(); }
  Status status() const { return status_; }

private:
  std::string file_;
  Status status_;
};

// Whether positions have the same places in caches of these capacities: in a ring that has wrapped around,
// the place of a position depends on the length of the ring.
bool keeps_places(uint32_t from, uint32_t to, uint32_t written_end) {
  return from == to || written_end <= std::min(from, to);
}

void check_layer(Checker& check, size_t index, const Snapshot& snapshot, const CacheRef& cache) {
  const SnapshotLayer& layer = snapshot.layers[index];
  const auto name = [&](const char* field) { return fmt::format("layer {} {}", index, field); };
  const CacheLayout& layout = cache.layout;
  check.equal(name("kv_heads"), layout.kv_heads, layer.kv_heads);
  check.equal(name("head_dim"), layout.head_dim, layer.head_dim);
  const uint32_t positions = positions_in_use(layer.capacity, snapshot.cached, snapshot.written_end);
  if (!keeps_places(layer.capacity, layout.capacity, snapshot.written_end)) {
    check.equal(name("capacity"), layout.capacity, layer.capacity);
  }
  check.at_most(name("positions"), layout.capacity, positions, "the session's capacity");
  if (check.ok()) check.equal(name("bytes"), cached_bytes(layout, positions), layer.bytes);
}

// The rows of a snapshot's pictures: none, or as many as its tokens have places for.
void check_pictures(Checker& check, const Snapshot& snapshot) {
  const auto rows = static_cast<size_t>(std::ranges::count_if(snapshot.tokens, is_prompt_row));
  const size_t numbers = snapshot.pictures.values.size();
  if (rows > 0 ? numbers > 0 && numbers % rows == 0 : numbers == 0) return;
  check.fail("rows of pictures", fmt::format("numbers for {} rows", rows), fmt::format("{}", numbers));
}

// A state in a snapshot: the one after the cached tokens.
SnapshotLayer state_layer(const StateRef& state, uint32_t cached) {
  return {0, state.layout.floats, 0, cached ? state.layout.state_bytes() : 0, {}};
}

Status check_fits(const Snapshot& snapshot, const Runner& runner, const std::string& file) {
  Checker check(file);
  const uint64_t model = runner.model().identity();
  if (snapshot.model != model) {
    check.fail("model", fmt::format("{:016x}, {}", model, runner.model().file().path()),
               fmt::format("{:016x}, another one", snapshot.model));
  }
  if (const CacheType type = runner.size().cache; snapshot.cache != type) {
    check.fail("cache type", to_string(type), to_string(snapshot.cache));
  }
  check.at_most("tokens", runner.size().context, snapshot.tokens.size(), "the session's context");
  const uint32_t vocabulary = runner.model().shape().vocabulary;
  for (size_t i = 0; i < snapshot.tokens.size(); ++i) {
    if (runner.model().shape().pictures && is_prompt_row(snapshot.tokens[i])) continue;
    check.at_most(fmt::format("token {}", i), vocabulary - 1, snapshot.tokens[i], "the vocabulary's last");
  }
  check_pictures(check, snapshot);
  const std::span<const CacheRef> caches = runner.caches();
  const std::span<const StateRef> states = runner.states();
  check.equal("layers", caches.size() + states.size(), snapshot.layers.size());
  for (size_t i = 0; i < caches.size() && check.ok(); ++i) check_layer(check, i, snapshot, caches[i]);
  for (size_t i = 0; i < states.size() && check.ok(); ++i) {
    const SnapshotLayer expected = state_layer(states[i], snapshot.cached);
    const SnapshotLayer& found = snapshot.layers[caches.size() + i];
    check.equal(fmt::format("state {} floats", i), expected.head_dim, found.head_dim);
    check.equal(fmt::format("state {} bytes", i), expected.bytes, found.bytes);
  }
  return check.status();
}

// Where the data of a snapshot's layer lies in a runner's caches. The caches come first, then the states.
std::vector<CacheRange> layer_ranges(const Runner& runner, const CachePiece& layer) {
  const size_t caches = runner.caches().size();
  if (layer.layer >= caches)
    return state_ranges(runner.states()[layer.layer - caches], layer.sequence, layer.cached);
  return cache_ranges(runner.caches()[layer.layer], layer.sequence,
                      positions_in_use(layer.capacity, layer.cached, layer.written_end),
                      runner.pages(layer.sequence));
}

// Where so many bytes of a piece lie.
std::vector<BufferPiece> buffer_pieces(const Runner& runner, const CachePiece& piece, uint64_t bytes) {
  std::vector<BufferPiece> pieces;
  uint64_t offset = piece.offset;
  for (const CacheRange& range : layer_ranges(runner, piece)) {
    if (offset < range.bytes && bytes > 0) {
      const uint64_t count = std::min(range.bytes - offset, bytes);
      pieces.push_back({&runner.cache_allocation(range.allocation), range.offset + offset, count});
      bytes -= count;
      offset += count;
    }
    offset -= std::min(offset, range.bytes);
  }
  return pieces;
}

Status read_piece(const Runner& runner, CacheTransfer& transfer, const CachePiece& piece,
                  std::span<std::byte> to) {
  if (runner.staged() && !runner.holds(piece.layer)) return runner.upstream().read_cached(piece, to);
  return transfer.read(buffer_pieces(runner, piece, to.size()), to);
}

Status write_piece(const Runner& runner, CacheTransfer& transfer, const CachePiece& piece,
                   std::span<const std::byte> from) {
  if (runner.staged() && !runner.holds(piece.layer)) return runner.upstream().write_cached(piece, from);
  return transfer.write(from, buffer_pieces(runner, piece, from.size()));
}

Result<bool> has_piece(const Runner& runner, const CachePiece& piece, uint64_t bytes) {
  const size_t caches = runner.caches().size();
  const bool known =
      piece.layer < caches + runner.states().size() && piece.sequence < runner.size().sequences;
  if (known && !runner.holds(piece.layer)) return false;
  bool fits = known && piece.written_end >= piece.cached;
  if (fits && piece.layer < caches) {
    const CacheLayout& layout = runner.caches()[piece.layer].layout;
    fits = positions_in_use(piece.capacity, piece.cached, piece.written_end) <= layout.capacity;
  }
  if (fits) {
    const uint64_t all = sum_of(layer_ranges(runner, piece));
    fits = piece.offset <= all && bytes <= all - piece.offset;
  }
  if (fits) return true;
  return Error{Code::internal, fmt::format("{}: {} bytes of layer {} of sequence {} are not in its caches",
                                           runner.model().file().path(), bytes, piece.layer, piece.sequence)};
}

// Completes a snapshot of these caches, and calls write(snapshot, reader) with it and a reader of its data.
template <class Write>
Status write_snapshot(const Runner& runner, uint32_t sequence, Snapshot snapshot, const Write& write) {
  snapshot.model = runner.model().identity();
  snapshot.cache = runner.size().cache;
  const auto piece_of = [&](size_t layer, uint64_t offset) {
    return CachePiece{sequence,        static_cast<uint32_t>(layer), snapshot.layers[layer].capacity,
                      snapshot.cached, snapshot.written_end,         offset};
  };
  for (size_t i = 0; i < runner.caches().size(); ++i) {
    const CacheLayout& layout = runner.caches()[i].layout;
    snapshot.layers.push_back({layout.kv_heads, layout.head_dim, layout.capacity, 0, {}});
    snapshot.layers.back().bytes = sum_of(layer_ranges(runner, piece_of(i, 0)));
  }
  for (const StateRef& state : runner.states())
    snapshot.layers.push_back(state_layer(state, snapshot.cached));
  CacheTransfer transfer(runner.model().context().device);
  return write(snapshot, [&](size_t layer, uint64_t offset, std::span<std::byte> bytes) {
    return read_piece(runner, transfer, piece_of(layer, offset), bytes);
  });
}

} // namespace

Status save_snapshot(const std::filesystem::path& path, const Runner& runner, uint32_t sequence,
                     Snapshot snapshot) {
  return write_snapshot(
      runner, sequence, std::move(snapshot),
      [&](const Snapshot& whole, const LayerReader& read) { return write_state_file(path, whole, read); });
}

Status save_snapshot(const StateSink& sink, const Runner& runner, uint32_t sequence, Snapshot snapshot) {
  return write_snapshot(
      runner, sequence, std::move(snapshot),
      [&](const Snapshot& whole, const LayerReader& read) { return write_state(whole, read, sink); });
}

Result<OpenedSnapshot> open_snapshot(MappedFile file, const Runner& runner) {
  PUMICE_TRY(Snapshot snapshot, parse_state_file(file.bytes(), file.path()));
  PUMICE_CHECK(check_fits(snapshot, runner, file.path()));
  return OpenedSnapshot{std::move(file), std::move(snapshot)};
}

Status restore_caches(const OpenedSnapshot& opened, const Runner& runner, uint32_t sequence) {
  const Snapshot& snapshot = opened.snapshot;
  CacheTransfer transfer(runner.model().context().device);
  for (size_t i = 0; i < snapshot.layers.size(); ++i) {
    const SnapshotLayer& layer = snapshot.layers[i];
    const CachePiece piece{sequence,        static_cast<uint32_t>(i), layer.capacity,
                           snapshot.cached, snapshot.written_end,     0};
    PUMICE_CHECK(write_piece(runner, transfer, piece, layer.data));
  }
  return {};
}

Result<bool> read_cached(const Runner& runner, const CachePiece& piece, std::span<std::byte> to) {
  PUMICE_TRY(const bool here, has_piece(runner, piece, to.size()));
  if (!here) return false;
  CacheTransfer transfer(runner.model().context().device);
  PUMICE_CHECK(read_piece(runner, transfer, piece, to));
  return true;
}

Result<bool> write_cached(const Runner& runner, const CachePiece& piece, std::span<const std::byte> from) {
  PUMICE_TRY(const bool here, has_piece(runner, piece, from.size()));
  if (!here) return false;
  CacheTransfer transfer(runner.model().context().device);
  PUMICE_CHECK(write_piece(runner, transfer, piece, from));
  return true;
}

Result<bool> copy_caches(const CachedSequence& from, const CachedSequence& to, uint32_t cached,
                         uint32_t written_end, bool pages) {
  if (from.runner.staged() || to.runner.staged()) return false;
  std::vector<BufferCopy> copies;
  // The two may be divided into other parts.
  const auto add = [&](std::vector<CacheRange> ranges, std::vector<CacheRange> places) {
    for (size_t i = 0, j = 0; i < ranges.size();) {
      CacheRange &range = ranges[i], &place = places[j];
      const uint64_t bytes = std::min(range.bytes, place.bytes);
      copies.push_back({from.runner.cache_allocation(range.allocation).handle(),
                        to.runner.cache_allocation(place.allocation).handle(),
                        {range.offset, place.offset, bytes}});
      for (CacheRange* each : {&range, &place}) {
        each->offset += bytes;
        each->bytes -= bytes;
      }
      if (range.bytes == 0) ++i;
      if (place.bytes == 0) ++j;
    }
  };
  for (size_t layer = 0; layer < from.runner.caches().size(); ++layer) {
    const CacheRef &source = from.runner.caches()[layer], &target = to.runner.caches()[layer];
    if (!pages && source.layout.pages > 0) continue;
    const uint32_t capacity = source.layout.capacity;
    if (!keeps_places(capacity, target.layout.capacity, written_end)) return false;
    const uint32_t positions = positions_in_use(capacity, cached, written_end);
    add(cache_ranges(source, from.sequence, positions, from.runner.pages(from.sequence)),
        cache_ranges(target, to.sequence, positions, to.runner.pages(to.sequence)));
  }
  for (size_t i = 0; i < from.runner.states().size(); ++i) {
    add(state_ranges(from.runner.states()[i], from.sequence, cached),
        state_ranges(to.runner.states()[i], to.sequence, cached));
  }
  if (!copies.empty()) PUMICE_CHECK(copy_and_wait(to.runner.model().context().device, copies));
  return true;
}

Status copy_page(const Runner& runner, uint32_t from, uint32_t to) {
  std::vector<BufferCopy> copies;
  for (const CacheRef& cache : runner.caches()) {
    if (cache.layout.pages == 0 || cache.layout.kv_heads == 0) continue;
    const std::vector<CacheRange> source = page_ranges(cache, from), target = page_ranges(cache, to);
    for (size_t i = 0; i < source.size(); ++i) {
      copies.push_back({runner.cache_allocation(source[i].allocation).handle(),
                        runner.cache_allocation(target[i].allocation).handle(),
                        {source[i].offset, target[i].offset, source[i].bytes}});
    }
  }
  return copies.empty() ? Status() : copy_and_wait(runner.model().context().device, copies);
}

} // namespace pumice
