#include "io/formats/gguf.h"

#include "io/failed_download.h"
#include "io/formats/gguf_reader.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <unordered_set>

namespace pumice {
namespace {

constexpr uint64_t most_alignment = 1u << 20; // larger ones only pad

// The smallest possible entries: a one-letter key, a type and one byte; a one-letter name and one dimension.
// A file cannot have more entries than fit its size.
constexpr uint64_t min_pair_bytes = 8 + 1 + 4 + 1;
constexpr uint64_t min_tensor_bytes = 8 + 1 + 4 + 8 + 4 + 8;

// ggml's names of its types, for the message about a type that cannot be read. An empty name is a number that
// ggml has withdrawn.
constexpr std::array<std::string_view, 43> ggml_names = {
    "F32",   "F16",    "Q4_0",  "Q4_1", "",     "",        "Q5_0",   "Q5_1",    "Q8_0",  "Q8_1",   "Q2_K",
    "Q3_K",  "Q4_K",   "Q5_K",  "Q6_K", "Q8_K", "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S",
    "IQ2_S", "IQ4_XS", "I8",    "I16",  "I32",  "I64",     "F64",    "IQ1_M",   "BF16",  "",       "",
    "",      "TQ1_0",  "TQ2_0", "",     "",     "",        "MXFP4",  "NVFP4",   "Q1_0",  "Q2_0"};

struct Counts {
  uint64_t tensors = 0;
  uint64_t pairs = 0;
};

struct TensorEntry {
  TensorView view;
  uint64_t offset = 0; // from the start of the data
  uint64_t bytes = 0;
};

Status read_magic_and_version(GgufReader& reader, GgufFile& file) {
  std::span<const std::byte> magic;
  if (!reader.bytes().take(4, magic)) return reader.cut_short("magic 'GGUF'", 4);
  if (as_text(magic) != "GGUF")
    return reader.invalid(fmt::format("magic: expected 'GGUF', found {}", in_quotes(as_text(magic))));
  PUMICE_TRY(file.version, reader.number<uint32_t>("version"));
  if (file.version == 2 || file.version == 3) return {};
  if ((file.version & 0xffffu) == 0 && file.version != 0)
    return reader.unsupported("version: this is a big-endian GGUF file; only little-endian ones can be read");
  return reader.unsupported(fmt::format("version: expected 2 or 3, found {}", file.version));
}

Result<Counts> read_counts(GgufReader& reader) {
  Counts counts;
  PUMICE_TRY(counts.tensors, reader.number<uint64_t>("tensor count"));
  PUMICE_TRY(counts.pairs, reader.number<uint64_t>("metadata count"));
  const uint64_t left = reader.bytes().remaining();
  if (counts.tensors > left / min_tensor_bytes)
    return reader.invalid(
        fmt::format("tensor count: expected at most {} in the {} bytes that are left, found {}",
                    left / min_tensor_bytes, left, counts.tensors));
  if (counts.pairs > left / min_pair_bytes)
    return reader.invalid(
        fmt::format("metadata count: expected at most {} in the {} bytes that are left, found {}",
                    left / min_pair_bytes, left, counts.pairs));
  return counts;
}

Status check_metadata(const GgufReader& reader, GgufFile& file) {
  if (const auto found = file.metadata.find("general.alignment"); found != file.metadata.end()) {
    file.alignment = found->is_number_unsigned() ? found->get<uint64_t>() : 0;
    if (!std::has_single_bit(file.alignment) || file.alignment > most_alignment)
      return reader.invalid(fmt::format(
          "field 'general.alignment': expected a power of two of at most {}, found {}", most_alignment,
          found->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).substr(0, 60)));
  }
  return {};
}

Result<std::vector<uint64_t>> read_shape(GgufReader& reader, const std::string& what) {
  PUMICE_TRY(const uint32_t dimensions, reader.number<uint32_t>(what));
  if (dimensions < 1 || dimensions > most_gguf_dimensions)
    return reader.invalid(
        fmt::format("{}: expected 1 to {} dimensions, found {}", what, most_gguf_dimensions, dimensions));
  std::vector<uint64_t> shape(dimensions);
  // The file stores the innermost dimension first.
  for (size_t i = dimensions; i-- > 0;) {
    PUMICE_TRY(shape[i], reader.number<uint64_t>(what));
    if (shape[i] == 0)
      return reader.invalid(fmt::format("{}: expected dimensions of at least 1, found 0", what));
  }
  return shape;
}

Result<TensorType> read_tensor_type(GgufReader& reader, const std::string& what) {
  PUMICE_TRY(const uint32_t id, reader.number<uint32_t>(what));
  if (const TensorTypeInfo* found = find_gguf_type(id)) return found->type;
  const std::string_view name = id < ggml_names.size() ? ggml_names[id] : "";
  return reader.unsupported(fmt::format("{}: expected one of the types {}, found type {} ({})", what,
                                        tensor_type_names(), id, name.empty() ? "unknown" : name));
}

Result<TensorEntry> read_tensor(GgufReader& reader, uint64_t index, uint64_t alignment) {
  std::string what = fmt::format("name of tensor {}", index);
  PUMICE_TRY(const std::string_view name, reader.string(what));
  if (name.empty() || name.size() > longest_gguf_tensor_name)
    return reader.invalid(fmt::format("{}: expected a length from 1 to {}, found {}", what,
                                      longest_gguf_tensor_name, name.size()));
  what = "tensor " + in_quotes(name);

  TensorEntry tensor;
  tensor.view.name = name;
  PUMICE_TRY(tensor.view.shape, read_shape(reader, what));
  PUMICE_TRY(tensor.view.type, read_tensor_type(reader, what));
  PUMICE_TRY(tensor.offset, reader.number<uint64_t>(what));

  const TensorTypeInfo& type = info(tensor.view.type);
  if (tensor.view.shape.back() % type.block_size != 0)
    return reader.invalid(fmt::format("{}: expected rows of a multiple of {} elements for {}, found shape {}",
                                      what, type.block_size, type.name, shape_text(tensor.view.shape)));
  const auto bytes = tensor_bytes(tensor.view.type, tensor.view.shape);
  if (!bytes)
    return reader.invalid(fmt::format("{}: expected a size that fits 64 bits, found shape {}", what,
                                      shape_text(tensor.view.shape)));
  tensor.bytes = *bytes;
  if (tensor.offset % alignment != 0)
    return reader.invalid(fmt::format("{}: expected an offset that is a multiple of {}, found {}", what,
                                      alignment, tensor.offset));
  return tensor;
}

Result<std::vector<TensorEntry>> read_tensors(GgufReader& reader, uint64_t count, uint64_t alignment) {
  std::vector<TensorEntry> tensors;
  std::unordered_set<std::string> names;
  for (uint64_t i = 0; i < count; ++i) {
    PUMICE_TRY(TensorEntry tensor, read_tensor(reader, i, alignment));
    if (!names.insert(tensor.view.name).second)
      return reader.invalid(fmt::format("tensor {}: the name occurs twice", in_quotes(tensor.view.name)));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

// Finds each tensor's data, which must lie inside the file.
Status locate_data(const GgufReader& reader, std::span<const std::byte> bytes, uint64_t start,
                   std::vector<TensorEntry>& tensors) {
  const uint64_t size = bytes.size() > start ? bytes.size() - start : 0;
  for (TensorEntry& tensor : tensors) {
    if (tensor.offset > size || tensor.bytes > size - tensor.offset)
      return reader.invalid(
          fmt::format("tensor {}: expected {} bytes of data at offset {} (shape {}, {}), found {} "
                      "bytes of data in the file",
                      in_quotes(tensor.view.name), tensor.bytes, tensor.offset, shape_text(tensor.view.shape),
                      info(tensor.view.type).name, size));
    tensor.view.data = bytes.subspan(start + tensor.offset, tensor.bytes);
  }
  return {};
}

Status check_overlaps(const GgufReader& reader, const std::vector<TensorEntry>& tensors) {
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return tensors[i].offset; });
  for (size_t i = 1; i < order.size(); ++i) {
    const TensorEntry& first = tensors[order[i - 1]];
    const TensorEntry& second = tensors[order[i]];
    if (first.offset + first.bytes > second.offset)
      return reader.invalid(
          fmt::format("tensor {}: expected data of its own, found offset {} inside tensor {}, "
                      "which ends at {}",
                      in_quotes(second.view.name), second.offset, in_quotes(first.view.name),
                      first.offset + first.bytes));
  }
  return {};
}

} // namespace

Result<GgufFile> GgufFile::parse(std::span<const std::byte> bytes, std::string file_name) {
  PUMICE_CHECK(check_download(bytes, file_name));
  GgufReader reader(bytes, std::move(file_name));
  GgufFile file;
  PUMICE_CHECK(read_magic_and_version(reader, file));
  PUMICE_TRY(const Counts counts, read_counts(reader));
  PUMICE_CHECK(read_gguf_metadata(reader, counts.pairs, file));
  PUMICE_CHECK(check_metadata(reader, file));
  PUMICE_TRY(std::vector<TensorEntry> tensors, read_tensors(reader, counts.tensors, file.alignment));

  file.data_offset = (reader.bytes().position() + file.alignment - 1) & ~(file.alignment - 1);
  PUMICE_CHECK(locate_data(reader, bytes, file.data_offset, tensors));
  PUMICE_CHECK(check_overlaps(reader, tensors));
  file.tensors.reserve(tensors.size());
  for (TensorEntry& tensor : tensors) file.tensors.push_back(std::move(tensor.view));
  return file;
}

} // namespace pumice
