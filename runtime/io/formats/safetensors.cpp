#include "io/formats/safetensors.h"

#include "io/bytes.h"
#include "io/failed_download.h"
#include "io/json_text.h"
#include "io/tensor_type.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

namespace pumice {
namespace {

using nlohmann::json;

constexpr uint64_t max_header_bytes = 100'000'000; // the reference implementation's limit

constexpr std::array<std::pair<std::string_view, uint8_t>, 15> dtypes = {{{"F64", 8},
                                                                          {"F32", 4},
                                                                          {"F16", 2},
                                                                          {"BF16", 2},
                                                                          {"F8_E4M3", 1},
                                                                          {"F8_E5M2", 1},
                                                                          {"I64", 8},
                                                                          {"I32", 4},
                                                                          {"I16", 2},
                                                                          {"I8", 1},
                                                                          {"U64", 8},
                                                                          {"U32", 4},
                                                                          {"U16", 2},
                                                                          {"U8", 1},
                                                                          {"BOOL", 1}}};

// What a file's entries are checked against, and functions that make its errors.
struct Header {
  std::string file;
  std::span<const std::byte> data; // the tensors' data; offsets count from its start

  Error invalid(std::string_view what) const {
    return {Code::invalid_file, fmt::format("{}: {}", file, what)};
  }
  Error invalid(std::string_view tensor, std::string_view what) const {
    return invalid(fmt::format("tensor {}: {}", in_quotes(tensor), what));
  }
};

Result<std::vector<uint64_t>> numbers(const Header& header, std::string_view tensor, const json& object,
                                      std::string_view field) {
  const auto found = object.find(field);
  const auto wrong = [&](std::string_view what) {
    return header.invalid(
        tensor, fmt::format("field '{}': expected an array of non-negative integers, found {}", field, what));
  };
  if (found == object.end()) return wrong("nothing: the field is missing");
  if (!found->is_array()) return wrong(describe(*found));
  std::vector<uint64_t> values;
  for (const json& element : *found) {
    if (!element.is_number_unsigned()) return wrong(describe(element) + " in it");
    values.push_back(element.get<uint64_t>());
  }
  return values;
}

Status check_size(const Header& header, const SafetensorsFile::Entry& entry) {
  const uint64_t element = safetensors_dtype_bytes(entry.dtype);
  if (element == 0) return {}; // an unknown type is an error only if the tensor is needed
  uint64_t bytes = element;
  for (const uint64_t dimension : entry.shape)
    if (!multiply(bytes, dimension, bytes))
      return header.invalid(entry.name, fmt::format("expected a size that fits 64 bits, found shape {}",
                                                    shape_text(entry.shape)));
  if (bytes != entry.data.size())
    return header.invalid(entry.name, fmt::format("expected {} bytes for shape {} of {}, found {}", bytes,
                                                  shape_text(entry.shape), entry.dtype, entry.data.size()));
  return {};
}

Result<SafetensorsFile::Entry> read_entry(const Header& header, const std::string& name, const json& object) {
  if (!object.is_object())
    return header.invalid(name, fmt::format("expected an object, found {}", describe(object)));
  SafetensorsFile::Entry entry;
  entry.name = name;
  const auto dtype = object.find("dtype");
  if (dtype == object.end() || !dtype->is_string())
    return header.invalid(name, fmt::format("field 'dtype': expected a string, found {}",
                                            dtype == object.end() ? "nothing" : describe(*dtype)));
  entry.dtype = dtype->get_ref<const std::string&>();
  PUMICE_TRY(entry.shape, numbers(header, name, object, "shape"));
  PUMICE_TRY(const std::vector<uint64_t> offsets, numbers(header, name, object, "data_offsets"));
  if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > header.data.size())
    return header.invalid(name,
                          fmt::format("field 'data_offsets': expected [begin, end] inside the {} bytes of "
                                      "data, found {}",
                                      header.data.size(), shape_text(offsets)));
  entry.data = header.data.subspan(offsets[0], offsets[1] - offsets[0]);
  PUMICE_CHECK(check_size(header, entry));
  return entry;
}

Status check_overlaps(const Header& header, const std::vector<SafetensorsFile::Entry>& entries) {
  const auto* end = header.data.data();
  const SafetensorsFile::Entry* last = nullptr;
  for (const SafetensorsFile::Entry& entry : entries) {
    if (entry.data.empty()) continue;
    if (entry.data.data() < end)
      return header.invalid(entry.name,
                            fmt::format("expected data of its own, found offset {} inside tensor {}, "
                                        "which ends at {}",
                                        entry.data.data() - header.data.data(), in_quotes(last->name),
                                        end - header.data.data()));
    end = entry.data.data() + entry.data.size();
    last = &entry;
  }
  return {};
}

template <class To, class From>
std::vector<To> convert(std::span<const std::byte> data) {
  std::vector<To> values;
  values.reserve(data.size() / sizeof(From));
  ByteReader reader(data);
  for (From value; reader.read(value);) values.push_back(static_cast<To>(value));
  return values;
}

} // namespace

uint64_t safetensors_dtype_bytes(std::string_view dtype) {
  for (const auto& [name, bytes] : dtypes)
    if (name == dtype) return bytes;
  return 0;
}

Result<SafetensorsFile> SafetensorsFile::parse(std::span<const std::byte> bytes, std::string file_name) {
  PUMICE_CHECK(check_download(bytes, file_name));
  Header header{std::move(file_name), {}};
  ByteReader reader(bytes);
  uint64_t length = 0;
  if (!reader.read(length))
    return header.invalid(fmt::format("header length: expected 8 bytes, found a file of {}", bytes.size()));
  std::span<const std::byte> text;
  if (length > max_header_bytes || !reader.take(length, text))
    return header.invalid(
        fmt::format("header length: expected at most {}, found {}: is it a safetensors file?",
                    std::min<uint64_t>(max_header_bytes, reader.remaining()), length));
  reader.take(reader.remaining(), header.data);

  PUMICE_TRY(const json object, parse_json_object(text, header.file + " (header)", DuplicateKeys::refuse));
  SafetensorsFile result;
  for (const auto& [name, value] : object.items()) {
    if (name == "__metadata__") continue;
    PUMICE_TRY(Entry entry, read_entry(header, name, value));
    result.entries.push_back(std::move(entry));
  }
  std::ranges::stable_sort(result.entries, {}, [](const Entry& entry) { return entry.data.data(); });
  PUMICE_CHECK(check_overlaps(header, result.entries));
  return result;
}

Result<SafetensorsFile> SafetensorsFile::open(const std::filesystem::path& path) {
  PUMICE_TRY(MappedFile file, MappedFile::open(path));
  PUMICE_TRY(SafetensorsFile result, parse(file.bytes(), file.path()));
  result.file = std::move(file);
  return result;
}

const SafetensorsFile::Entry* SafetensorsFile::find(std::string_view name) const {
  const auto found = std::ranges::find(entries, name, &Entry::name);
  return found == entries.end() ? nullptr : &*found;
}

Result<std::vector<float>> SafetensorsFile::floats(const Entry& entry) {
  if (entry.dtype == "F64") return convert<float, double>(entry.data);
  const TensorTypeInfo* type = find_safetensors_type(entry.dtype);
  if (!type)
    return Error{Code::unsupported,
                 fmt::format("tensor {}: expected numbers of type F64, F32, F16 or BF16, found {}",
                             in_quotes(entry.name), in_quotes(entry.dtype))};
  std::vector<float> values(entry.data.size() / type->block_bytes);
  decode_row(type->type, entry.data.data(), values);
  return values;
}

Result<std::vector<int64_t>> SafetensorsFile::integers(const Entry& entry) {
  const std::string& dtype = entry.dtype;
  if (dtype == "I64") return convert<int64_t, int64_t>(entry.data);
  if (dtype == "I32") return convert<int64_t, int32_t>(entry.data);
  if (dtype == "I16") return convert<int64_t, int16_t>(entry.data);
  if (dtype == "I8") return convert<int64_t, int8_t>(entry.data);
  if (dtype == "U32") return convert<int64_t, uint32_t>(entry.data);
  if (dtype == "U16") return convert<int64_t, uint16_t>(entry.data);
  if (dtype == "U8" || dtype == "BOOL") return convert<int64_t, uint8_t>(entry.data);
  return Error{
      Code::unsupported,
      fmt::format("tensor {}: expected integers of type I64, I32, I16, I8, U32, U16, U8 or BOOL, found {}",
                  in_quotes(entry.name), in_quotes(dtype))};
}

} // namespace pumice
