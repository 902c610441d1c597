#include "step/cache/state_file.h"

#include <algorithm>

#include <fmt/format.h>

#include "io/bytes.h"
#include "io/checksum.h"
#include "io/output_file.h"
#include "kernel/sampling/filter_order.h"

namespace pumice {

namespace {

constexpr std::string_view magic = "PUMICEKV";
// Version 1 has nine sampling options. Increase the version when an option is added.
constexpr uint32_t sampling_options = 0
#define OPTION(...) +1
#include "kernel/sampling_options.def"
    ;
constexpr uint32_t current_version = sampling_options - 6; // and two for the filters' order and pictures
constexpr uint64_t header_bytes = 8 + 4 + 8;               // magic, version, bytes of the file
constexpr uint64_t checksum_bytes = 8;
constexpr uint64_t piece_bytes = uint64_t{4} << 20;

// The fields in their order, once for writing and reading: visit(name, field) for each.
template <class Sampling, class Visit>
void visit_sampling(Sampling& sampling, const Visit& visit) {
  // This does not compile unless it names every field.
  auto& [
#define OPTION(field, ...) field,
#include "kernel/sampling_options.def"
      logit_biases, stop_tokens, dry_breakers, order, log_probabilities, seed] = sampling;
#define OPTION(field, ...) visit(#field, field);
#include "kernel/sampling_options.def"
  visit("logit_biases", logit_biases);
  visit("stop_tokens", stop_tokens);
  visit("dry_breakers", dry_breakers);
  visit("order", order);
  visit("log_probabilities", log_probabilities);
  visit("seed", seed);
}

template <class Layer, class Visit>
void visit_layer(Layer& layer, const Visit& visit) {
  visit("kv_heads", layer.kv_heads);
  visit("head_dim", layer.head_dim);
  visit("capacity", layer.capacity);
  visit("bytes", layer.bytes);
}

template <class AnySnapshot, class Visit>
void visit_fields(AnySnapshot& snapshot, const Visit& visit) {
  visit("model", snapshot.model);
  visit("cache type", snapshot.cache);
  visit("cached tokens", snapshot.cached);
  visit("written end", snapshot.written_end);
  visit_sampling(snapshot.sampling, visit);
  visit("tokens", snapshot.tokens);
  visit("rows of pictures", snapshot.pictures.values);
  visit("sizes of pictures", snapshot.pictures.grids);
  visit("layers", snapshot.layers);
}

// The fields as bytes.
class FieldWriter {
public:
  template <class T>
  void operator()(std::string_view, const T& value) {
    append(std::as_bytes(std::span(&value, 1)));
  }
  template <class T>
  void operator()(std::string_view, const std::vector<T>& values) {
    (*this)("", static_cast<uint32_t>(values.size()));
    append(std::as_bytes(std::span(values)));
  }
  void operator()(std::string_view, const std::vector<SnapshotLayer>& layers) {
    (*this)("", static_cast<uint32_t>(layers.size()));
    for (const SnapshotLayer& layer : layers) {
      visit_layer(layer, [this](std::string_view name, const auto& field) { (*this)(name, field); });
    }
  }
  void append(std::span<const std::byte> more) { bytes_.insert(bytes_.end(), more.begin(), more.end()); }
  std::vector<std::byte>& bytes() { return bytes_; }

private:
  std::vector<std::byte> bytes_;
};

class FieldReader {
public:
  FieldReader(std::span<const std::byte> bytes, const std::string& file) : reader_(bytes), file_(file) {}

  template <class T>
  void operator()(std::string_view name, T& value) {
    if (!failed_ && !reader_.read(value)) fail(name, sizeof(T));
  }
  template <class T>
  void operator()(std::string_view name, std::vector<T>& values) {
    uint32_t count = 0;
    (*this)(name, count);
    const uint64_t size = uint64_t{count} * sizeof(T);
    std::span<const std::byte> bytes;
    if (failed_ || !reader_.take(size, bytes)) return fail(name, size);
    values.resize(count);
    if (count) std::memcpy(values.data(), bytes.data(), bytes.size());
  }
  void operator()(std::string_view name, std::vector<SnapshotLayer>& layers) {
    uint32_t count = 0;
    (*this)(name, count);
    for (uint32_t i = 0; i < count && !failed_; ++i) {
      SnapshotLayer& layer = layers.emplace_back();
      visit_layer(layer, [&](std::string_view field, auto& value) {
        (*this)(fmt::format("layer {} {}", i, field), value);
      });
    }
  }
  void take_data(std::vector<SnapshotLayer>& layers) {
    for (size_t i = 0; i < layers.size() && !failed_; ++i) {
      if (!reader_.take(layers[i].bytes, layers[i].data))
        fail(fmt::format("layer {} data", i), layers[i].bytes);
    }
    if (!failed_ && reader_.remaining()) {
      failed_ =
          Error{Code::invalid_file, fmt::format("{}: expected nothing after the layers' data; found {} bytes",
                                                file_, reader_.remaining())};
    }
  }
  Status status() const { return failed_ ? Status(*failed_) : Status(); }

private:
  void fail(std::string_view name, uint64_t bytes) {
    if (failed_) return;
    failed_ = Error{Code::invalid_file,
                    fmt::format("{}: field '{}': expected {} bytes at offset {}; found {}", file_, name,
                                bytes, reader_.position() + header_bytes, reader_.remaining())};
  }

  ByteReader reader_;
  std::string file_;
  std::optional<Error> failed_;
};

Error damaged(const std::string& file, const char* field, const std::string& expected,
              const std::string& found) {
  return {Code::invalid_file,
          fmt::format("{}: field '{}': expected {}; found {}", file, field, expected, found)};
}

// Checks the header, the length and the checksum.
Status check_frame(std::span<const std::byte> bytes, const std::string& file) {
  ByteReader reader(bytes);
  std::span<const std::byte> found_magic;
  uint32_t version = 0;
  uint64_t size = 0;
  if (!reader.take(magic.size(), found_magic) || as_text(found_magic) != magic) {
    const std::string_view start = as_text(bytes.first(std::min(bytes.size(), magic.size())));
    return damaged(file, "magic", fmt::format("a saved session, which begins with '{}'", magic),
                   in_quotes(start));
  }
  if (!reader.read(version) || !reader.read(size) || reader.remaining() < checksum_bytes) {
    return damaged(file, "bytes", "a whole header", fmt::format("a file of {} bytes", bytes.size()));
  }
  if (version != current_version) {
    return damaged(file, "version", std::to_string(current_version), std::to_string(version));
  }
  if (size != bytes.size()) {
    return damaged(file, "bytes", fmt::format("a file of {} bytes, as it says", size),
                   fmt::format("{} bytes", bytes.size()));
  }
  Checksum checksum;
  checksum.add(bytes.first(bytes.size() - checksum_bytes));
  uint64_t stored = 0;
  std::memcpy(&stored, bytes.data() + bytes.size() - checksum_bytes, checksum_bytes);
  if (stored != checksum.value()) {
    return damaged(file, "checksum", fmt::format("{:016x}, as it says: the file is damaged", stored),
                   fmt::format("{:016x}", checksum.value()));
  }
  return {};
}

// Checks what must be true of every snapshot, whatever runner it is for.
Status check_fields(const Snapshot& snapshot, const std::string& file) {
  if (snapshot.cached > snapshot.tokens.size()) {
    return damaged(file, "cached tokens",
                   fmt::format("at most {}, the tokens there are", snapshot.tokens.size()),
                   std::to_string(snapshot.cached));
  }
  if (snapshot.written_end < snapshot.cached) {
    return damaged(file, "written end", fmt::format("at least {}, the cached tokens", snapshot.cached),
                   std::to_string(snapshot.written_end));
  }
  if (!is_filter_order(snapshot.sampling.order)) {
    return damaged(file, "order", "filters of samplers, each once at most",
                   fmt::format("{:#x}", snapshot.sampling.order));
  }
  return {};
}

} // namespace

Status write_state(const Snapshot& snapshot, const LayerReader& read, const StateSink& sink) {
  FieldWriter fields;
  visit_fields(snapshot, [&](std::string_view name, const auto& value) { fields(name, value); });
  uint64_t size = header_bytes + fields.bytes().size() + checksum_bytes;
  for (const SnapshotLayer& layer : snapshot.layers) size += layer.bytes;

  Checksum checksum;
  const auto put = [&](std::span<const std::byte> bytes) {
    checksum.add(bytes);
    return sink(bytes);
  };
  PUMICE_CHECK(put(std::as_bytes(std::span(magic))));
  PUMICE_CHECK(put(std::as_bytes(std::span(&current_version, 1))));
  PUMICE_CHECK(put(std::as_bytes(std::span(&size, 1))));
  PUMICE_CHECK(put(fields.bytes()));
  std::vector<std::byte> piece;
  for (size_t layer = 0; layer < snapshot.layers.size(); ++layer) {
    for (uint64_t done = 0; done < snapshot.layers[layer].bytes; done += piece.size()) {
      piece.resize(std::min(piece_bytes, snapshot.layers[layer].bytes - done));
      PUMICE_CHECK(read(layer, done, piece));
      PUMICE_CHECK(put(piece));
    }
  }
  const uint64_t sum = checksum.value();
  return sink(std::as_bytes(std::span(&sum, 1)));
}

Status write_state_file(const std::filesystem::path& path, const Snapshot& snapshot,
                        const LayerReader& read) {
  OutputFile file;
  PUMICE_CHECK(file.open(path));
  PUMICE_CHECK(
      write_state(snapshot, read, [&](std::span<const std::byte> bytes) { return file.write(bytes); }));
  return file.finish();
}

Result<Snapshot> parse_state_file(std::span<const std::byte> bytes, const std::string& name) {
  PUMICE_CHECK(check_frame(bytes, name));
  Snapshot snapshot;
  FieldReader reader(bytes.subspan(header_bytes, bytes.size() - header_bytes - checksum_bytes), name);
  visit_fields(snapshot, [&](std::string_view field, auto& value) { reader(field, value); });
  reader.take_data(snapshot.layers);
  PUMICE_CHECK(reader.status());
  PUMICE_CHECK(check_fields(snapshot, name));
  return snapshot;
}

} // namespace pumice
