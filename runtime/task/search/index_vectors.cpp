#include "task/search/index_vectors.h"

#include <algorithm>

#include <fmt/format.h>

#include "io/formats/safetensors_writer.h"

namespace pumice {

namespace {

using Entry = SafetensorsFile::Entry;

template <class T>
Entry entry_of(const char* name, const char* dtype, const std::vector<T>& values) {
  return {name, dtype, {values.size()}, std::as_bytes(std::span(values))};
}

Error wrong(const std::filesystem::path& path) {
  return {Code::invalid_file, fmt::format("{}: expected the sparse vectors of an index", path_text(path))};
}

} // namespace

void SparseVectors::add(std::span<const float> values) {
  for (uint32_t token = 0; token < values.size(); ++token) {
    if (values[token] == 0) continue;
    tokens_.push_back(token);
    weights_.push_back(values[token]);
  }
  begins_.push_back(static_cast<int64_t>(tokens_.size()));
}

void SparseVectors::add(const SparseVectors& from, size_t index) {
  const auto begin = static_cast<ptrdiff_t>(from.begins_[index]),
             end = static_cast<ptrdiff_t>(from.begins_[index + 1]);
  tokens_.insert(tokens_.end(), from.tokens_.begin() + begin, from.tokens_.begin() + end);
  weights_.insert(weights_.end(), from.weights_.begin() + begin, from.weights_.begin() + end);
  begins_.push_back(static_cast<int64_t>(tokens_.size()));
}

float SparseVectors::product(size_t index, std::span<const float> values) const {
  float sum = 0;
  for (auto at = static_cast<size_t>(begins_[index]), end = static_cast<size_t>(begins_[index + 1]); at < end;
       ++at)
    sum += weights_[at] * values[tokens_[at]];
  return sum;
}

Status SparseVectors::write(OutputFile& file, const std::filesystem::path& path) const {
  const Entry entries[] = {entry_of("begins", "I64", begins_), entry_of("tokens", "U32", tokens_),
                           entry_of("weights", "F32", weights_)};
  return begin_safetensors(file, path, entries);
}

Result<SparseVectors> SparseVectors::read(const std::filesystem::path& path, uint32_t columns) {
  PUMICE_TRY(const SafetensorsFile file, SafetensorsFile::open(path));
  const Entry *begins = file.find("begins"), *tokens = file.find("tokens"), *weights = file.find("weights");
  if (!begins || !tokens || !weights) return wrong(path);
  SparseVectors vectors;
  PUMICE_TRY(vectors.begins_, SafetensorsFile::integers(*begins));
  PUMICE_TRY(const std::vector<int64_t> ids, SafetensorsFile::integers(*tokens));
  PUMICE_TRY(vectors.weights_, SafetensorsFile::floats(*weights));
  const bool in_order = !vectors.begins_.empty() && vectors.begins_.front() == 0 &&
                        std::ranges::is_sorted(vectors.begins_) &&
                        static_cast<size_t>(vectors.begins_.back()) == ids.size();
  if (!in_order || vectors.weights_.size() != ids.size()) return wrong(path);
  for (int64_t id : ids) {
    if (id < 0 || id >= columns) return wrong(path);
    vectors.tokens_.push_back(static_cast<uint32_t>(id));
  }
  return vectors;
}

Error IndexVectors::not_together() const {
  return {Code::invalid_file,
          fmt::format("{}: its files do not belong together: make it again with --rebuild",
                      path_text(path_.parent_path()))};
}

Status IndexVectors::read(uint64_t count) {
  if (sparse_) {
    PUMICE_TRY(old_sparse_, SparseVectors::read(path_, columns_));
    return old_sparse_.count() == count ? Status() : not_together();
  }
  PUMICE_TRY(const SafetensorsFile file, SafetensorsFile::open(path_));
  const Entry* entry = file.find("embeddings");
  if (!entry || entry->shape != std::vector<uint64_t>{count, columns_}) return not_together();
  PUMICE_TRY(old_, SafetensorsFile::floats(*entry));
  return {};
}

Status IndexVectors::open() {
  return sparse_ ? OutputFile::check(path_) : file_.open(path_, columns_);
}

Status IndexVectors::keep(uint64_t first, uint32_t count) {
  if (!sparse_) return add(std::span(old_).subspan(first * columns_, uint64_t{count} * columns_));
  for (uint64_t index = first; index < first + count; ++index) new_sparse_.add(old_sparse_, index);
  return {};
}

Status IndexVectors::add(std::span<const float> values) {
  for (; !values.empty(); values = values.subspan(columns_)) {
    const std::span<const float> vector = values.first(columns_);
    if (sparse_) {
      new_sparse_.add(vector);
    } else {
      PUMICE_CHECK(file_.write({vector.begin(), vector.end()}));
    }
  }
  return {};
}

Status IndexVectors::flush() {
  return sparse_ ? new_sparse_.write(sparse_file_, path_) : file_.flush();
}

Status IndexVectors::finish() {
  return sparse_ ? sparse_file_.finish() : file_.finish();
}

} // namespace pumice
