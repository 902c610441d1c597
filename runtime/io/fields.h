#pragma once

#include "base/result.h"

#include <cfloat>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace pumice {

// Which fields of a model's settings were asked for, by their whole names: those of an object inside have
// that one's name and a dot in front. From any thread.
class AskedFields {
public:
  void look(std::string name); // whether it is there
  void take(std::string name); // its value; that of an object has all that is in it
  // Whether a field was asked for by any of the two, or an object that it is in was taken.
  bool has(std::string_view name) const;
  std::set<std::string> names() const;

private:
  mutable std::mutex mutex_;
  std::set<std::string> looked_;
  std::set<std::string, std::less<>> taken_;
};

// Reads the members of a JSON object with type and range checks: a Hugging Face config.json or a GGUF file's
// metadata. It holds a pointer to the object, which must outlive it.
//
// Every error is invalid_file and names the file, the field, what was expected and what was found. A null
// counts as absent. The `_or` functions return their last argument if the field is absent; a field of the
// wrong type is still an error.
class Fields {
public:
  // `prefix` is put before field names in messages, such as "rope_scaling." for a nested object. `asked`, if
  // it is given, gets to know the names of all fields that are asked for.
  Fields(const nlohmann::json& object, std::string file, std::string prefix = "",
         std::shared_ptr<AskedFields> asked = nullptr);

  bool has(std::string_view name) const;                   // present and not null
  const nlohmann::json* find(std::string_view name) const; // null pointer if has() is false

  // An integer from `min` to `max`, both included. A float with an integer value, such as 8.0, is accepted.
  Result<uint32_t> u32(std::string_view name, uint32_t min = 0, uint32_t max = UINT32_MAX) const;
  Result<uint32_t> u32_or(std::string_view name, uint32_t min, uint32_t max, uint32_t fallback) const;
  Result<uint32_t> u32_or(std::string_view name, uint32_t fallback) const;

  // A finite number from `min` to `max`, both included.
  Result<float> f32(std::string_view name, float min = -FLT_MAX, float max = FLT_MAX) const;
  Result<float> f32_or(std::string_view name, float min, float max, float fallback) const;
  Result<float> f32_or(std::string_view name, float fallback) const;

  Result<bool> boolean(std::string_view name) const;
  Result<bool> boolean_or(std::string_view name, bool fallback) const;

  Result<std::string> string(std::string_view name) const;
  Result<std::string> string_or(std::string_view name, std::string_view fallback) const;

  // A nested object. object_or_empty() returns an empty one if the field is absent.
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

  // An error about a field in the same form as the others, for checks that involve several fields:
  // "FILE: field 'NAME': WHAT".
  Error error(std::string_view name, std::string_view what) const;

private:
  const nlohmann::json* member(std::string_view name) const; // as find(), which is not recorded
  Error missing(std::string_view name, std::string_view expected) const;
  Error mismatch(std::string_view name, std::string_view expected, const nlohmann::json& found) const;

  template <class T, class Read>
  Result<T> value(std::string_view name, const std::string& expected, Read read) const;
  template <class T, class Read>
  Result<std::vector<T>> array(std::string_view name, const std::string& expected, Read read) const;

  const nlohmann::json* object_;
  std::string file_;
  std::string prefix_;
  std::shared_ptr<AskedFields> asked_;
};

} // namespace pumice
