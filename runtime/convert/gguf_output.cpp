#include "convert/gguf_output.h"

#include <algorithm>
#include <span>

#include <fmt/format.h>

#include "convert/importance.h"

namespace pumice {

namespace {

// What one file has.
using Part = std::span<const OutputTensor>;

uint64_t bytes_of(const OutputTensor& tensor) {
  return tensor_bytes(tensor.type, tensor.tensor.shape).value_or(0);
}

// As many neighbours in each part as fit into it, and at least one.
std::vector<Part> divided(const std::vector<OutputTensor>& tensors, uint64_t most) {
  std::vector<Part> parts;
  size_t first = 0;
  uint64_t bytes = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const uint64_t own = bytes_of(tensors[i]);
    if (most > 0 && i > first && bytes + own > most) {
      parts.push_back(Part(tensors).subspan(first, i - first));
      first = i;
      bytes = 0;
    }
    bytes += own;
  }
  parts.push_back(Part(tensors).subspan(first));
  return parts;
}

std::filesystem::path part_path(const std::filesystem::path& path, size_t part, size_t count) {
  if (count == 1) return path;
  std::filesystem::path name = path.stem();
  name += fmt::format("-{:05}-of-{:05}.gguf", part + 1, count);
  return path.parent_path() / name;
}

Status check_not_read(const ModelFile& source, const std::filesystem::path& part) {
  for (const std::filesystem::path& file : ModelFile::weight_files(path_of(source.path()))) {
    std::error_code ignored;
    if (std::filesystem::equivalent(file, part, ignored))
      return Error{Code::invalid_argument,
                   fmt::format("{}: it is one of the files of the model {}: choose another name",
                               path_text(part), source.path())};
  }
  return {};
}

Status write_tensor(const OutputTensor& tensor, const Importance* importance, const WriteBytes& write,
                    const Progress& progress, uint64_t& done, uint64_t total) {
  if (tensor.as_it_is) {
    std::span<const std::byte> rest = tensor.tensor.parts.front().tensor->data;
    constexpr size_t at_once = size_t{1} << 24;
    while (!rest.empty()) {
      const auto some = rest.first(std::min(at_once, rest.size()));
      PUMICE_CHECK(write(some));
      rest = rest.subspan(some.size());
      done += some.size();
      if (progress && !progress(done, total)) return Error{Code::cancelled, "stopped"};
    }
    return {};
  }
  PUMICE_TRY(const TensorRows rows, TensorRows::of(tensor.tensor));
  RowImportance of_row;
  if (importance && importance->has(tensor.tensor.name) && info(tensor.type).block_size > 1) {
    const auto find = [&](uint64_t row) {
      return importance->of_row(tensor.tensor.name, row, rows.rows(), rows.columns());
    };
    PUMICE_CHECK(find(0));
    of_row = [find](uint64_t row) { return *find(row); };
    return write_rows(rows, tensor.type, write, progress, done, total, of_row);
  }
  return write_rows(rows, tensor.type, write, progress, done, total);
}

} // namespace

Status write_gguf(const ModelFile& source, const std::filesystem::path& path,
                  const ConversionOptions& options, bool long_names,
                  const std::function<Status(GgufWriter&)>& add_settings,
                  const std::vector<OutputTensor>& tensors, const Progress& progress,
                  Conversion& conversion) {
  uint64_t total = 0, done = 0;
  for (const OutputTensor& tensor : tensors) {
    total += bytes_of(tensor);
    conversion.written.push_back(
        {tensor.tensor.name, tensor.tensor.shape, tensor.from, tensor.type, bytes_of(tensor)});
  }
  conversion.tensors = tensors.size();
  const std::vector<Part> parts = divided(tensors, options.split_bytes);
  for (size_t i = 0; i < parts.size() && parts.size() > 1; ++i)
    PUMICE_CHECK(check_not_read(source, part_path(path, i, parts.size())));
  for (size_t i = 0; i < parts.size(); ++i) {
    GgufWriter writer;
    if (long_names) writer.allow_long_names();
    if (i == 0) PUMICE_CHECK(add_settings(writer));
    if (parts.size() > 1) {
      writer.add("split.no", static_cast<uint16_t>(i));
      writer.add("split.count", static_cast<uint16_t>(parts.size()));
      writer.add("split.tensors.count", static_cast<int32_t>(tensors.size()));
    }
    for (const OutputTensor& tensor : parts[i])
      writer.add_tensor(tensor.tensor.name, tensor.tensor.shape, tensor.type);
    const std::filesystem::path file = part_path(path, i, parts.size());
    conversion.files.push_back(file);
    if (options.dry_run) {
      conversion.bytes += writer.tensor_bytes();
      continue;
    }
    PUMICE_CHECK(writer.open(file));
    const WriteBytes write = [&](std::span<const std::byte> bytes) { return writer.write(bytes); };
    for (const OutputTensor& tensor : parts[i])
      PUMICE_CHECK(write_tensor(tensor, options.importance, write, progress, done, total));
    PUMICE_CHECK(writer.finish());
    conversion.bytes += writer.file_bytes();
  }
  return {};
}

} // namespace pumice
