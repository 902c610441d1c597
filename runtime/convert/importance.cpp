#include "convert/importance.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "io/bytes.h"
#include "io/formats/gguf.h"
#include "io/mapped_file.h"
#include "io/tensor_floats.h"

namespace pumice {

namespace {

constexpr std::string_view sums_suffix = ".in_sum2", counts_suffix = ".counts";

} // namespace

Result<Importance> Importance::open(const std::filesystem::path& path) {
  PUMICE_TRY(const MappedFile file, MappedFile::open(path));
  Importance all;
  all.path_ = file.path();
  const std::span<const std::byte> bytes = file.bytes();
  const bool gguf = bytes.size() >= 4 && as_text(bytes.first(4)) == "GGUF";
  PUMICE_CHECK(gguf ? all.read_gguf(bytes) : all.read_old(bytes));
  if (all.entries_.empty())
    return Error{Code::invalid_file,
                 fmt::format("{}: expected the means of a model's tensors, found none", all.path_)};
  return all;
}

Result<Importance::Entry> Importance::entry_of(const std::vector<float>& sums,
                                               const std::vector<float>& counts,
                                               std::string_view name) const {
  if (counts.empty() || sums.size() % counts.size() != 0 || sums.empty())
    return Error{Code::invalid_file,
                 fmt::format("{}: tensor '{}': expected sums of a whole number of columns for each of {} "
                             "matrices, found {}",
                             path_, name, counts.size(), sums.size())};
  Entry entry;
  const size_t columns = sums.size() / counts.size();
  for (size_t i = 0; i < sums.size(); ++i) {
    const float count = counts[i / columns], mean = count > 0 ? sums[i] / count : 1;
    if (!std::isfinite(mean) || mean < 0)
      return Error{Code::invalid_file,
                   fmt::format("{}: tensor '{}': expected sums of squares, found {} of {}", path_, name,
                               sums[i], count)};
    entry.means.push_back(std::max(mean, 1e-12f)); // what is multiplied by nothing still has a value
  }
  for (const float count : counts) entry.known.push_back(count > 0);
  return entry;
}

// NAME.in_sum2 [matrices, columns] and NAME.counts [matrices, 1].
Status Importance::read_gguf(std::span<const std::byte> bytes) {
  PUMICE_TRY(const GgufFile file, GgufFile::parse(bytes, path_));
  for (const TensorView& sums : file.tensors) {
    if (!sums.name.ends_with(sums_suffix)) continue;
    const std::string name = sums.name.substr(0, sums.name.size() - sums_suffix.size());
    const auto counts = std::ranges::find(file.tensors, name + std::string(counts_suffix), &TensorView::name);
    if (counts == file.tensors.end())
      return Error{Code::invalid_file, fmt::format("{}: expected a tensor '{}{}' beside '{}'", path_, name,
                                                   counts_suffix, sums.name)};
    PUMICE_TRY(Entry entry, entry_of(tensor_floats(sums), tensor_floats(*counts), name));
    entries_.emplace(name, std::move(entry));
  }
  return {};
}

// A count of entries, and of each the name, how often it was called, and the sums over all calls of what
// each call had on average.
Status Importance::read_old(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  const auto wrong = [&] {
    return Error{Code::invalid_file,
                 fmt::format("{}: expected a file of llama-imatrix, found something else at byte {}", path_,
                             reader.position())};
  };
  int32_t count = 0;
  if (!reader.read(count) || count < 1 || count > 1 << 20) return wrong();
  for (int32_t i = 0; i < count; ++i) {
    int32_t length = 0, calls = 0, values = 0;
    std::span<const std::byte> name, numbers;
    if (!reader.read(length) || length < 1 || length > 1024 || !reader.take(length, name)) return wrong();
    if (!reader.read(calls) || !reader.read(values) || values < 1) return wrong();
    if (!reader.take(uint64_t{4} * static_cast<uint32_t>(values), numbers)) return wrong();
    std::vector<float> sums(static_cast<size_t>(values));
    std::memcpy(sums.data(), numbers.data(), numbers.size());
    PUMICE_TRY(Entry entry, entry_of(sums, {static_cast<float>(calls)}, as_text(name)));
    entries_.emplace(std::string(as_text(name)), std::move(entry));
  }
  return {};
}

Result<const float*> Importance::of_row(std::string_view tensor, uint64_t row, uint64_t rows,
                                        uint64_t columns) const {
  const auto found = entries_.find(tensor);
  const float* nothing = nullptr;
  if (found == entries_.end()) return nothing;
  const Entry& entry = found->second;
  const uint64_t matrices = entry.means.size() / columns;
  if (entry.means.size() % columns != 0 || matrices == 0 || rows % matrices != 0)
    return Error{Code::invalid_file,
                 fmt::format("{}: tensor '{}': expected a mean for each of {} columns, found {}: it was made "
                             "of another model",
                             path_, tensor, columns, entry.means.size())};
  const uint64_t matrix = row / (rows / matrices);
  if (entry.known.size() == matrices && !entry.known[matrix]) return nothing;
  return entry.means.data() + matrix * columns;
}

} // namespace pumice
