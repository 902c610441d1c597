#include "io/fields.h"

#include "io/bytes.h"
#include "io/json_text.h"

#include <cmath>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace pumice {
namespace {

using nlohmann::json;

const json& empty_object() {
  static const json object = json::object();
  return object;
}

std::string integer_range(uint32_t min, uint32_t max) {
  if (max == UINT32_MAX)
    return min == 0 ? "a non-negative integer" : fmt::format("an integer of at least {}", min);
  return fmt::format("an integer from {} to {}", min, max);
}

std::string number_range(float min, float max) {
  if (min == -FLT_MAX && max == FLT_MAX) return "a number";
  if (max == FLT_MAX) return fmt::format("a number of at least {}", min);
  return fmt::format("a number from {} to {}", min, max);
}

std::optional<uint32_t> as_u32(const json& value, uint32_t min, uint32_t max) {
  uint64_t number = 0;
  if (value.is_number_unsigned()) {
    number = value.get<uint64_t>();
  } else if (value.is_number_float()) {
    const double real = value.get<double>();
    if (!(real >= 0 && real <= UINT32_MAX) || real != std::floor(real)) return std::nullopt;
    number = static_cast<uint64_t>(real);
  } else if (value.is_number_integer() && value.get<int64_t>() >= 0) {
    number = static_cast<uint64_t>(value.get<int64_t>()); // such as an int32 of a GGUF file
  } else {
    return std::nullopt;
  }
  if (number < min || number > max) return std::nullopt;
  return static_cast<uint32_t>(number);
}

std::optional<float> as_f32(const json& value, float min, float max) {
  if (!value.is_number()) return std::nullopt;
  const double real = value.get<double>();
  if (!(std::fabs(real) <= FLT_MAX)) return std::nullopt; // NaN as well
  const float number = static_cast<float>(real);
  if (number < min || number > max) return std::nullopt;
  return number;
}

std::optional<bool> as_boolean(const json& value) {
  if (!value.is_boolean()) return std::nullopt;
  return value.get<bool>();
}

std::optional<std::string> as_string(const json& value) {
  if (!value.is_string()) return std::nullopt;
  return value.get_ref<const std::string&>();
}

} // namespace

void AskedFields::look(std::string name) {
  const std::lock_guard lock(mutex_);
  looked_.insert(std::move(name));
}

void AskedFields::take(std::string name) {
  const std::lock_guard lock(mutex_);
  taken_.insert(name);
  looked_.insert(std::move(name));
}

bool AskedFields::has(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  if (looked_.contains(std::string(name))) return true;
  for (size_t dot = name.find('.'); dot != std::string_view::npos; dot = name.find('.', dot + 1)) {
    if (taken_.contains(name.substr(0, dot))) return true;
  }
  return false;
}

std::set<std::string> AskedFields::names() const {
  const std::lock_guard lock(mutex_);
  return looked_;
}

Fields::Fields(const json& object, std::string file, std::string prefix, std::shared_ptr<AskedFields> asked)
    : object_(&object), file_(std::move(file)), prefix_(std::move(prefix)), asked_(std::move(asked)) {}

bool Fields::has(std::string_view name) const {
  if (asked_) asked_->look(prefix_ + std::string(name));
  return member(name) != nullptr;
}

const json* Fields::find(std::string_view name) const {
  if (asked_) asked_->take(prefix_ + std::string(name));
  return member(name);
}

const json* Fields::member(std::string_view name) const {
  if (!object_->is_object()) return nullptr;
  const auto found = object_->find(name);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

Error Fields::error(std::string_view name, std::string_view what) const {
  return {Code::invalid_file,
          fmt::format("{}: field {}: {}", file_, in_quotes(prefix_ + std::string(name)), what)};
}

Error Fields::missing(std::string_view name, std::string_view expected) const {
  return error(name, fmt::format("expected {}, found nothing: the field is missing", expected));
}

Error Fields::mismatch(std::string_view name, std::string_view expected, const json& found) const {
  return error(name, fmt::format("expected {}, found {}", expected, describe(found)));
}

// `read` returns an optional<T>, which is empty if the value is not acceptable.
template <class T, class Read>
Result<T> Fields::value(std::string_view name, const std::string& expected, Read read) const {
  const json* found = find(name);
  if (!found) return missing(name, expected);
  std::optional<T> result = read(*found);
  if (!result) return mismatch(name, expected, *found);
  return *std::move(result);
}

template <class T, class Read>
Result<std::vector<T>> Fields::array(std::string_view name, const std::string& expected, Read read) const {
  const json* found = find(name);
  if (!found) return missing(name, "an array, each element " + expected);
  if (!found->is_array()) {
    PUMICE_TRY(T only, value<T>(name, expected + ", or an array of them", read));
    return std::vector<T>{std::move(only)};
  }
  std::vector<T> result;
  for (size_t i = 0; i < found->size(); ++i) {
    std::optional<T> element = read((*found)[i]);
    if (!element) return mismatch(fmt::format("{}[{}]", name, i), expected, (*found)[i]);
    result.push_back(*std::move(element));
  }
  return result;
}

Result<uint32_t> Fields::u32(std::string_view name, uint32_t min, uint32_t max) const {
  return value<uint32_t>(name, integer_range(min, max), [&](const json& v) { return as_u32(v, min, max); });
}

Result<uint32_t> Fields::u32_or(std::string_view name, uint32_t min, uint32_t max, uint32_t fallback) const {
  return has(name) ? u32(name, min, max) : fallback;
}

Result<uint32_t> Fields::u32_or(std::string_view name, uint32_t fallback) const {
  return u32_or(name, 0, UINT32_MAX, fallback);
}

Result<float> Fields::f32(std::string_view name, float min, float max) const {
  return value<float>(name, number_range(min, max), [&](const json& v) { return as_f32(v, min, max); });
}

Result<float> Fields::f32_or(std::string_view name, float min, float max, float fallback) const {
  return has(name) ? f32(name, min, max) : fallback;
}

Result<float> Fields::f32_or(std::string_view name, float fallback) const {
  return f32_or(name, -FLT_MAX, FLT_MAX, fallback);
}

Result<bool> Fields::boolean(std::string_view name) const {
  return value<bool>(name, "true or false", as_boolean);
}

Result<bool> Fields::boolean_or(std::string_view name, bool fallback) const {
  return has(name) ? boolean(name) : fallback;
}

Result<std::string> Fields::string(std::string_view name) const {
  return value<std::string>(name, "a string", as_string);
}

Result<std::string> Fields::string_or(std::string_view name, std::string_view fallback) const {
  return has(name) ? string(name) : std::string(fallback);
}

Result<Fields> Fields::object(std::string_view name) const {
  const json* found = member(name); // what is read of it is asked for by its own name
  if (!found) return missing(name, "an object");
  if (!found->is_object()) return mismatch(name, "an object", *found);
  return Fields(*found, file_, prefix_ + std::string(name) + ".", asked_);
}

Result<Fields> Fields::object_or_empty(std::string_view name) const {
  return has(name) ? object(name) : Fields(empty_object(), file_, prefix_ + std::string(name) + ".", asked_);
}

Result<std::vector<uint32_t>> Fields::u32_array(std::string_view name, uint32_t min, uint32_t max) const {
  return array<uint32_t>(name, integer_range(min, max), [&](const json& v) { return as_u32(v, min, max); });
}

Result<std::vector<uint32_t>> Fields::u32_array_or_empty(std::string_view name, uint32_t min,
                                                         uint32_t max) const {
  return has(name) ? u32_array(name, min, max) : std::vector<uint32_t>();
}

Result<std::vector<float>> Fields::f32_array(std::string_view name) const {
  // transformers writes an infinity as {"__float__": "Infinity"}.
  return array<float>(name, "a number", [](const json& v) {
    if (v == json{{"__float__", "Infinity"}}) return std::optional(FLT_MAX);
    return as_f32(v, -FLT_MAX, FLT_MAX);
  });
}

Result<std::vector<std::string>> Fields::string_array(std::string_view name) const {
  return array<std::string>(name, "a string", as_string);
}

} // namespace pumice
