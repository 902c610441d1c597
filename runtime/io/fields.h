#pragma once

#include "base/result.h"

#include <cfloat>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace pumice {

// Typed reading of a JSON object's members: a Hugging Face config.json or a GGUF file's metadata. It holds a
// pointer to the object, which must outlive it.
//
// Every error is invalid_file and says the file, the field, what was expected and what was found. A null
// counts as absent. The `_or` forms give their last argument for an absent field, and still refuse a wrong
// one.
class Fields {
public:
  // `prefix` is what comes before the names in messages, as "rope_scaling." for a nested object.
  Fields(const nlohmann::json& object, std::string file, std::string prefix = "");

  bool has(std::string_view name) const;                   // there, and not null
  const nlohmann::json* find(std::string_view name) const; // null where has() is false

  // An integer from `min` to `max`, both allowed; 8.0 is one too.
  Result<uint32_t> u32(std::string_view name, uint32_t min = 0, uint32_t max = UINT32_MAX) const;
  Result<uint32_t> u32_or(std::string_view name, uint32_t min, uint32_t max, uint32_t fallback) const;
  Result<uint32_t> u32_or(std::string_view name, uint32_t fallback) const;

  // A finite number from `min` to `max`.
  Result<float> f32(std::string_view name, float min = -FLT_MAX, float max = FLT_MAX) const;
  Result<float> f32_or(std::string_view name, float min, float max, float fallback) const;
  Result<float> f32_or(std::string_view name, float fallback) const;

  Result<bool> boolean(std::string_view name) const;
  Result<bool> boolean_or(std::string_view name, bool fallback) const;

  Result<std::string> string(std::string_view name) const;
  Result<std::string> string_or(std::string_view name, std::string_view fallback) const;

  // A nested object; the `_or` form gives an empty one.
  Result<Fields> object(std::string_view name) const;
  Result<Fields> object_or_empty(std::string_view name) const;

  // Arrays. A single value counts as an array of one (both head_count_kv and eos_token_id come in both
  // forms); the `_or_empty` form gives an empty vector for an absent field.
  Result<std::vector<uint32_t>> u32_array(std::string_view name, uint32_t min = 0,
                                          uint32_t max = UINT32_MAX) const;
  Result<std::vector<uint32_t>> u32_array_or_empty(std::string_view name, uint32_t min = 0,
                                                   uint32_t max = UINT32_MAX) const;
  Result<std::vector<float>> f32_array(std::string_view name) const;
  Result<std::vector<std::string>> string_array(std::string_view name) const;

  const std::string& file() const { return file_; }

  // An error about a field in the profile of the others, for checks that span fields:
  // "FILE: field 'NAME': WHAT".
  Error error(std::string_view name, std::string_view what) const;

private:
  Error missing(std::string_view name, std::string_view expected) const;
  Error mismatch(std::string_view name, std::string_view expected, const nlohmann::json& found) const;

  template <class T, class Read>
  Result<T> value(std::string_view name, const std::string& expected, Read read) const;
  template <class T, class Read>
  Result<std::vector<T>> array(std::string_view name, const std::string& expected, Read read) const;

  const nlohmann::json* object_;
  std::string file_;
  std::string prefix_;
};

} // namespace pumice
