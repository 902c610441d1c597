#include "gpu/cache_folder/tuning_file.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "io/bytes.h"
#include "io/checksum.h"
#include "io/mapped_file.h"
#include "io/output_file.h"

namespace pumice {

namespace {

constexpr std::string_view tuning_magic = "PUMICET1";

uint64_t checksum_of_all(std::span<const std::byte> bytes) {
  Checksum checksum;
  checksum.add(bytes);
  return checksum.value();
}

void append(std::vector<std::byte>& to, std::span<const std::byte> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

void append_number(std::vector<std::byte>& to, uint64_t number) {
  append(to, std::as_bytes(std::span(&number, 1)));
}

} // namespace

// After the magic bytes: a size and a packed device file for each device; at the end a checksum.
Result<TuningFile> TuningFile::parse(std::span<const std::byte> bytes, const std::string& name) {
  const auto error = [&](const char* what) {
    return Error{Code::invalid_file,
                 fmt::format("{}: {}: write a new one with 'pumice tune --export'", name, what)};
  };
  if (bytes.size() < tuning_magic.size() || as_text(bytes.first(tuning_magic.size())) != tuning_magic) {
    return error("this is not a file of tuning results");
  }
  constexpr const char* damaged = "the tuning results are damaged";
  uint64_t checksum = 0;
  if (bytes.size() < tuning_magic.size() + sizeof checksum) return error(damaged);
  const std::span<const std::byte> all = bytes.first(bytes.size() - sizeof checksum);
  std::memcpy(&checksum, bytes.data() + all.size(), sizeof checksum);
  if (checksum != checksum_of_all(all)) return error(damaged);
  ByteReader reader(all.subspan(tuning_magic.size()));
  TuningFile file;
  while (reader.remaining() > 0) {
    uint64_t size = 0;
    std::span<const std::byte> entry;
    if (!reader.read(size) || !reader.take(size, entry)) return error(damaged);
    file.entries_.emplace_back(entry.begin(), entry.end());
  }
  return file;
}

Result<TuningFile> TuningFile::read(const std::filesystem::path& path) {
  PUMICE_TRY(const MappedFile file, MappedFile::open(path));
  return parse(file.bytes(), file.path());
}

Result<TuningFile> TuningFile::read_before_writing(const std::filesystem::path& path) {
  std::error_code ignored;
  const bool there = std::filesystem::is_regular_file(path, ignored);
  return there && std::filesystem::file_size(path, ignored) > 0 ? read(path) : TuningFile();
}

std::optional<TuningResults> TuningFile::find(const Capabilities& device,
                                              std::span<const KernelBinary> kernels) const {
  for (const std::vector<std::byte>& entry : entries_) {
    if (std::optional<DeviceFile> found = parse_device_file(entry, device, kernels)) {
      return std::move(found->tuning_results);
    }
  }
  return {};
}

void TuningFile::set(const Capabilities& device, const TuningResults& results,
                     std::span<const KernelBinary> kernels) {
  std::erase_if(entries_, [&](const auto& entry) { return is_of_device(entry, device); });
  entries_.push_back(pack_device_file(device, DeviceFile{results, {}}, kernels));
}

std::vector<std::byte> TuningFile::bytes() const {
  std::vector<std::byte> bytes;
  append(bytes, std::as_bytes(std::span(tuning_magic)));
  for (const std::vector<std::byte>& entry : entries_) {
    append_number(bytes, entry.size());
    append(bytes, entry);
  }
  append_number(bytes, checksum_of_all(bytes));
  return bytes;
}

Status add_to_tuning_file(const std::filesystem::path& path, const Capabilities& device,
                          const TuningResults& results) {
  PUMICE_TRY(TuningFile file, TuningFile::read_before_writing(path));
  file.set(device, results);
  OutputFile out;
  PUMICE_CHECK(out.open(path));
  PUMICE_CHECK(out.write(file.bytes()));
  return out.finish();
}

} // namespace pumice
