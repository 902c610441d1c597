#include "io/formats/ctranslate2_file.h"

#include <cstring>

#include <fmt/format.h>

#include "io/bytes.h"
#include "io/tensor_type.h"

namespace pumice {

namespace {

constexpr uint32_t oldest_version = 4, newest_version = 6;
constexpr uint32_t most_arrays = 1 << 20;

// Reads the parts of the file. Each function returns false where the file ends too early.
class Reader {
public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  // Its length, with the zero at its end, comes first.
  bool text(std::string& value) {
    uint16_t length = 0;
    std::span<const std::byte> taken;
    if (!bytes_.read(length) || length == 0 || !bytes_.take(length, taken)) return false;
    value.assign(reinterpret_cast<const char*>(taken.data()), length - size_t{1});
    return true;
  }

  bool number(uint32_t& value) { return bytes_.read(value); }

  bool array(std::string& name, Ctranslate2File::Array& array, uint32_t& bytes) {
    uint8_t rank = 0, type = 0;
    if (!text(name) || !bytes_.read(rank)) return false;
    for (uint8_t i = 0; i < rank; ++i) {
      uint32_t size = 0;
      if (!bytes_.read(size)) return false;
      array.shape.push_back(size);
    }
    if (!bytes_.read(type) || !bytes_.read(bytes) || !bytes_.take(bytes, array.data)) return false;
    array.type = static_cast<Ctranslate2File::Type>(type);
    return true;
  }

private:
  ByteReader bytes_;
};

Error invalid(const std::string& path, const std::string& what) {
  return {Code::invalid_file, fmt::format("{}: {}", path, what)};
}

Status check(const std::string& path, const std::string& name, const Ctranslate2File::Array& array,
             uint32_t bytes) {
  const uint64_t size = ctranslate2_type_bytes(array.type);
  if (size == 0) {
    return Error{Code::unsupported, fmt::format("{}: tensor \"{}\": expected a type from 0 to 5, found {}",
                                                path, name, static_cast<int>(array.type))};
  }
  uint64_t count = size;
  for (uint64_t each : array.shape) {
    if (each != 0 && count > UINT32_MAX / each)
      return invalid(path, fmt::format("tensor \"{}\": its shape is too large", name));
    count *= each;
  }
  if (count == bytes) return {};
  return invalid(path,
                 fmt::format("tensor \"{}\": expected {} bytes by its shape, found {}", name, count, bytes));
}

} // namespace

uint64_t ctranslate2_type_bytes(Ctranslate2File::Type type) {
  constexpr uint64_t bytes[] = {4, 1, 2, 4, 2, 2};
  const auto index = static_cast<size_t>(type);
  return index < std::size(bytes) ? bytes[index] : 0;
}

Result<Ctranslate2File> Ctranslate2File::parse(std::span<const std::byte> bytes, std::string path) {
  Ctranslate2File file;
  file.path = std::move(path);
  Reader reader(bytes);
  uint32_t version = 0, revision = 0, count = 0;
  const Error cut = invalid(file.path, "the file ends too early for a model of CTranslate2");
  if (!reader.number(version)) return cut;
  if (version < oldest_version || version > newest_version) {
    return Error{Code::unsupported,
                 fmt::format("{}: expected a model of CTranslate2 in version {} to {} of its format, "
                             "found {}",
                             file.path, oldest_version, newest_version, version)};
  }
  if (!reader.text(file.kind) || !reader.number(revision) || !reader.number(count)) return cut;
  if (count > most_arrays)
    return invalid(file.path, fmt::format("expected at most {} tensors, found {}", most_arrays, count));
  for (uint32_t i = 0; i < count; ++i) {
    std::string name;
    Array array;
    uint32_t size = 0;
    if (!reader.array(name, array, size)) return cut;
    PUMICE_CHECK(check(file.path, name, array, size));
    if (!file.arrays.emplace(name, std::move(array)).second) {
      return invalid(file.path, fmt::format("expected tensor \"{}\" once, found it twice", name));
    }
  }
  if (!reader.number(count)) return cut;
  for (uint32_t i = 0; i < std::min(count, most_arrays); ++i) {
    std::string alias, name;
    if (!reader.text(alias) || !reader.text(name)) return cut;
    const auto found = file.arrays.find(name);
    if (found == file.arrays.end()) {
      return invalid(file.path,
                     fmt::format("\"{}\" stands for tensor \"{}\", which is not in the file", alias, name));
    }
    file.arrays.emplace(alias, found->second);
  }
  return file;
}

const Ctranslate2File::Array* Ctranslate2File::find(std::string_view name) const {
  const auto found = arrays.find(name);
  return found == arrays.end() ? nullptr : &found->second;
}

double Ctranslate2File::number(std::string_view name, double fallback) const {
  const Array* array = find(name);
  if (!array || !array->shape.empty()) return fallback;
  const auto as = [&]<class T>(T value) {
    std::memcpy(&value, array->data.data(), sizeof value);
    return value;
  };
  switch (array->type) {
  case Type::f32:
    return as(float{});
  case Type::i8:
    return as(int8_t{});
  case Type::i16:
    return as(int16_t{});
  case Type::i32:
    return as(int32_t{});
  case Type::f16:
    return half_to_float(as(uint16_t{}));
  case Type::bf16:
    return bf16_to_float(as(uint16_t{}));
  }
  return fallback;
}

} // namespace pumice
