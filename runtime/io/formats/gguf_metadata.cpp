#include "io/formats/gguf.h"
#include "io/formats/gguf_reader.h"

#include <array>

namespace pumice {
namespace {

using nlohmann::json;

constexpr uint64_t max_copied_elements = 256; // elements; longer arrays are not copied out of the file
constexpr int max_array_depth = 4;            // arrays of arrays are legal, but no known file has them
constexpr size_t max_key_bytes = 65535;       // the specification's limit

constexpr std::array<uint8_t, 13> element_bytes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

bool is_type(uint32_t number) {
  return number < element_bytes.size();
}

// A string as JSON. Bytes that are not UTF-8 are replaced, because printing them as JSON would throw.
json text_value(std::string_view text) {
  json value = std::string(text);
  return json::parse(value.dump(-1, ' ', false, json::error_handler_t::replace), nullptr, false);
}

template <class T>
Result<json> scalar(GgufReader& reader, std::string_view what) {
  PUMICE_TRY(const T value, reader.number<T>(what));
  return json(value);
}

Result<json> boolean(GgufReader& reader, std::string_view what) {
  PUMICE_TRY(const uint8_t value, reader.number<uint8_t>(what));
  if (value > 1) return reader.invalid(fmt::format("{}: expected a boolean, 0 or 1, found {}", what, value));
  return json(value == 1);
}

Result<json> text(GgufReader& reader, std::string_view what) {
  PUMICE_TRY(const std::string_view value, reader.string(what));
  return text_value(value);
}

// Reads a value of any type except array.
Result<json> read_value(GgufReader& reader, GgufType type, std::string_view what) {
  switch (type) {
  case GgufType::u8:
    return scalar<uint8_t>(reader, what);
  case GgufType::i8:
    return scalar<int8_t>(reader, what);
  case GgufType::u16:
    return scalar<uint16_t>(reader, what);
  case GgufType::i16:
    return scalar<int16_t>(reader, what);
  case GgufType::u32:
    return scalar<uint32_t>(reader, what);
  case GgufType::i32:
    return scalar<int32_t>(reader, what);
  case GgufType::f32:
    return scalar<float>(reader, what);
  case GgufType::boolean:
    return boolean(reader, what);
  case GgufType::string:
    return text(reader, what);
  case GgufType::u64:
    return scalar<uint64_t>(reader, what);
  case GgufType::i64:
    return scalar<int64_t>(reader, what);
  case GgufType::f64:
    return scalar<double>(reader, what);
  case GgufType::array:
    break;
  }
  return reader.invalid(fmt::format("{}: expected a value, found an array", what));
}

Result<GgufType> read_type(GgufReader& reader, std::string_view what) {
  PUMICE_TRY(const uint32_t number, reader.number<uint32_t>(what));
  if (!is_type(number))
    return reader.invalid(fmt::format("{}: expected a value type from 0 to {}, found {}", what,
                                      element_bytes.size() - 1, number));
  return static_cast<GgufType>(number);
}

// Moves past an array's elements and checks that each is complete and well formed.
Status skip_elements(GgufReader& reader, const GgufArray& array, std::string_view what, int depth);

// Reads an array's element type and count, and moves past its elements. If `elements` is not null, short
// arrays are also decoded into it.
Result<GgufArray> read_array(GgufReader& reader, std::string_view what, int depth, json* elements) {
  if (depth > max_array_depth)
    return reader.unsupported(fmt::format("{}: arrays nested deeper than {}", what, max_array_depth));
  GgufArray array;
  PUMICE_TRY(array.type, read_type(reader, what));
  PUMICE_TRY(array.count, reader.number<uint64_t>(what));
  // The smallest size of an element: a string has a length, an array a type and a count.
  const uint64_t fixed = gguf_type_bytes(static_cast<uint32_t>(array.type));
  const uint64_t min_bytes = fixed ? fixed : array.type == GgufType::string ? 8 : 12;
  if (array.count > reader.bytes().remaining() / min_bytes)
    return reader.invalid(
        fmt::format("{}: expected at most {} elements in the {} bytes that are left, found {}", what,
                    reader.bytes().remaining() / min_bytes, reader.bytes().remaining(), array.count));
  ByteReader start = reader.bytes();
  if (elements && array.count <= max_copied_elements && array.type != GgufType::array) {
    *elements = json::array();
    for (uint64_t i = 0; i < array.count; ++i) {
      PUMICE_TRY(json element, read_value(reader, array.type, what));
      elements->push_back(std::move(element));
    }
  } else {
    PUMICE_CHECK(skip_elements(reader, array, what, depth));
  }
  start.take(reader.bytes().position() - start.position(), array.bytes);
  return array;
}

Status skip_elements(GgufReader& reader, const GgufArray& array, std::string_view what, int depth) {
  const uint64_t fixed = gguf_type_bytes(static_cast<uint32_t>(array.type));
  if (fixed) {
    std::span<const std::byte> elements;
    if (!reader.bytes().take(array.count * fixed, elements))
      return reader.cut_short(what, array.count * fixed);
    return {};
  }
  for (uint64_t i = 0; i < array.count; ++i) {
    if (array.type == GgufType::string) {
      if (auto element = reader.string(what); !element) return std::move(element).error();
    } else {
      if (auto element = read_array(reader, what, depth + 1, nullptr); !element)
        return std::move(element).error();
    }
  }
  return {};
}

Result<std::string> read_key(GgufReader& reader, uint64_t index, const GgufFile& file) {
  const std::string what = fmt::format("metadata key {}", index);
  PUMICE_TRY(const std::string_view key, reader.string(what));
  if (key.empty() || key.size() > max_key_bytes)
    return reader.invalid(
        fmt::format("{}: expected a length from 1 to {}, found {}", what, max_key_bytes, key.size()));
  for (const char c : key)
    if (c <= 0x20 || c >= 0x7f)
      return reader.invalid(fmt::format("{}: expected printable ASCII, found {}", what, in_quotes(key)));
  if (file.metadata.contains(key) || file.arrays.contains(key))
    return reader.invalid(fmt::format("{}: the key {} occurs twice", what, in_quotes(key)));
  return std::string(key);
}

} // namespace

uint64_t gguf_type_bytes(uint32_t type) {
  return is_type(type) ? element_bytes[type] : 0;
}

Status read_gguf_metadata(GgufReader& reader, uint64_t count, GgufFile& file) {
  for (uint64_t i = 0; i < count; ++i) {
    PUMICE_TRY(const std::string key, read_key(reader, i, file));
    const std::string what = "field " + in_quotes(key);
    ByteReader start = reader.bytes();
    PUMICE_TRY(const GgufType type, read_type(reader, what));
    if (type != GgufType::array) {
      PUMICE_TRY(file.metadata[key], read_value(reader, type, what));
    } else {
      json elements;
      PUMICE_TRY(file.arrays[key], read_array(reader, what, 1, &elements));
      if (!elements.is_null()) file.metadata[key] = std::move(elements);
    }
    std::span<const std::byte> pair;
    start.take(reader.bytes().position() - start.position(), pair);
    file.pairs.emplace_back(key, pair);
  }
  return {};
}

} // namespace pumice
