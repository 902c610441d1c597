#include "convert/written_type.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "convert/conversion.h"
#include "io/quantize.h"

namespace pumice {

namespace {

// The types that can be written, and llama.cpp's numbers (general.file_type) for files that are mostly of
// that type.
struct FileType {
  std::string_view name;
  uint32_t number;
};
constexpr FileType file_types[] = {{"F32", 0},  {"F16", 1},   {"BF16", 32}, {"Q8_0", 7},
                                   {"Q4_0", 2}, {"Q4_K", 14}, {"Q6_K", 18}};

const TensorTypeInfo* type_of(const FileType& file_type) {
  const TensorTypeInfo* type = find_type_named(file_type.name);
  return type && can_quantize(type->type) ? type : nullptr;
}

} // namespace

uint32_t file_type_number(TensorType type) {
  return std::ranges::find(file_types, info(type).name, &FileType::name)->number;
}

std::string conversion_types() {
  std::string names;
  for (const FileType& file_type : file_types) {
    if (type_of(file_type)) names.append(names.empty() ? "" : ", ").append(file_type.name);
  }
  return names;
}

Result<TensorType> conversion_type(std::string_view name) {
  for (const FileType& file_type : file_types) {
    const TensorTypeInfo* type = type_of(file_type);
    if (type && type == find_type_named(name)) return type->type;
  }
  return Error{Code::not_found, fmt::format("expected one of {}, found '{}'", conversion_types(), name)};
}

WrittenType written_matrix_type(TensorType requested, bool head, uint64_t columns) {
  if (head && info(requested).name == "Q4_K") {
    if (const TensorTypeInfo* better = find_type_named("Q6_K"); better && can_quantize(better->type))
      requested = better->type;
  }
  const auto fits = [&](TensorType type) { return columns % info(type).block_size == 0; };
  if (fits(requested)) return {requested};
  return {fits(TensorType::q8_0) ? TensorType::q8_0 : TensorType::f16, true};
}

std::string fallback_note(const std::string& file, size_t fallen_back, size_t tensors, TensorType requested) {
  return fmt::format("{}: {} of {} tensors have rows that are not a whole number of {}'s blocks of {}: they "
                     "are Q8_0 or F16",
                     file, fallen_back, tensors, info(requested).name, info(requested).block_size);
}

} // namespace pumice
