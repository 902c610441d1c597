#include "io/formats/gguf_array.h"

#include "io/bytes.h"

#include <type_traits>

namespace pumice {
namespace {

// Calls take(value) for each of `count` numbers of type T.
template <class T>
void for_each_of_type(std::span<const std::byte> bytes, uint64_t count, auto&& take) {
  ByteReader reader(bytes);
  T value;
  for (uint64_t i = 0; i < count && reader.read(value); ++i) take(value);
}

// Calls take(value) for each element, in the array's own type. Does nothing for strings and arrays.
void for_each_number(const GgufArray& array, auto&& take) {
  switch (array.type) {
  case GgufType::u8:
    return for_each_of_type<uint8_t>(array.bytes, array.count, take);
  case GgufType::i8:
    return for_each_of_type<int8_t>(array.bytes, array.count, take);
  case GgufType::u16:
    return for_each_of_type<uint16_t>(array.bytes, array.count, take);
  case GgufType::i16:
    return for_each_of_type<int16_t>(array.bytes, array.count, take);
  case GgufType::u32:
    return for_each_of_type<uint32_t>(array.bytes, array.count, take);
  case GgufType::i32:
    return for_each_of_type<int32_t>(array.bytes, array.count, take);
  case GgufType::f32:
    return for_each_of_type<float>(array.bytes, array.count, take);
  case GgufType::boolean:
    return for_each_of_type<uint8_t>(array.bytes, array.count, take);
  case GgufType::u64:
    return for_each_of_type<uint64_t>(array.bytes, array.count, take);
  case GgufType::i64:
    return for_each_of_type<int64_t>(array.bytes, array.count, take);
  case GgufType::f64:
    return for_each_of_type<double>(array.bytes, array.count, take);
  case GgufType::string:
  case GgufType::array:
    return;
  }
}

// Converts any value without undefined behaviour: NaN and values outside int64's range become 0.
int64_t to_integer(double value) {
  return value >= -0x1p63 && value < 0x1p63 ? static_cast<int64_t>(value) : 0;
}

} // namespace

std::vector<std::string_view> GgufArray::strings() const {
  std::vector<std::string_view> views;
  if (type != GgufType::string) return views;
  ByteReader reader(bytes);
  uint64_t length = 0;
  std::span<const std::byte> text;
  while (views.size() < count && reader.read(length) && reader.take(length, text))
    views.push_back(as_text(text));
  return views;
}

std::vector<float> GgufArray::floats() const {
  std::vector<float> values;
  for_each_number(*this, [&](auto value) { values.push_back(static_cast<float>(value)); });
  return values;
}

std::vector<int64_t> GgufArray::integers() const {
  std::vector<int64_t> values;
  for_each_number(*this, [&](auto value) {
    if constexpr (std::is_floating_point_v<decltype(value)>)
      values.push_back(to_integer(value));
    else
      values.push_back(static_cast<int64_t>(value));
  });
  return values;
}

} // namespace pumice
