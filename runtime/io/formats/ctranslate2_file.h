#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace pumice {

// A model.bin of CTranslate2: named arrays, without settings but for a few of its own. Names are paths, such
// as "encoder/layer_0/ffn/linear_0/weight".
struct Ctranslate2File {
  enum class Type : uint8_t { f32, i8, i16, i32, f16, bf16 };
  struct Array {
    Type type = Type::f32;
    std::vector<uint64_t> shape;     // outermost first; empty for a single number
    std::span<const std::byte> data; // need not be aligned
  };

  std::string path;
  std::string kind;                                 // of the model, such as "TransformerSpec"
  std::map<std::string, Array, std::less<>> arrays; // an alias has the array that it stands for

  // Parses and checks a file. The arrays are views of `bytes`, which must outlive them.
  static Result<Ctranslate2File> parse(std::span<const std::byte> bytes, std::string path);

  const Array* find(std::string_view name) const; // null if there is none
  // A single number; `fallback` if there is none of that name.
  double number(std::string_view name, double fallback) const;
};

uint64_t ctranslate2_type_bytes(Ctranslate2File::Type type);

// Number `index` of an array's data, which need not be aligned.
template <class T>
T ctranslate2_element(std::span<const std::byte> data, uint64_t index) {
  T value;
  std::memcpy(&value, data.data() + index * sizeof(T), sizeof(T));
  return value;
}

} // namespace pumice
