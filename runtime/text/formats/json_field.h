#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/result.h"

namespace pumice::text {

// A value of a JSON file together with its path, so that errors can name it exactly:
// "tokenizer.json: decoder.decoders[2].start: expected a whole number, found "x"".
class JsonField {
public:
  JsonField(const nlohmann::json& value, std::string file, std::string path = {})
      : value_(&value), file_(std::move(file)), path_(std::move(path)) {}

  const nlohmann::json& value() const { return *value_; }
  std::string where() const;

  bool is_null() const { return value_->is_null(); }
  bool is_string() const { return value_->is_string(); }
  bool is_object() const { return value_->is_object(); }
  bool has(std::string_view key) const; // present and not null

  // A member of an object; a null field if it is absent.
  JsonField at(std::string_view key) const;
  Result<std::vector<JsonField>> elements() const;

  Result<std::string> string() const;
  Result<bool> boolean() const;
  Result<uint32_t> whole_number() const;
  Status object() const;

  // Members that may be absent or null.
  Result<std::string> string_or(std::string_view key, std::string fallback) const;
  Result<bool> boolean_or(std::string_view key, bool fallback) const;

  Error expected(std::string_view what) const;    // invalid_file: "expected WHAT, found ..."
  Error unsupported(std::string_view what) const; // the same text with Code::unsupported

private:
  std::string found() const;

  const nlohmann::json* value_;
  std::string file_;
  std::string path_;
};

} // namespace pumice::text
