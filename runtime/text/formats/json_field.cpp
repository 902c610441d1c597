#include "text/formats/json_field.h"

#include <fmt/format.h>

namespace pumice::text {

namespace {

const nlohmann::json kNull;

} // namespace

std::string JsonField::where() const {
  return path_.empty() ? file_ : fmt::format("{}: {}", file_, path_);
}

bool JsonField::has(std::string_view key) const {
  if (!value_->is_object()) return false;
  auto found = value_->find(key);
  return found != value_->end() && !found->is_null();
}

JsonField JsonField::at(std::string_view key) const {
  std::string path = path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
  return {has(key) ? *value_->find(key) : kNull, file_, std::move(path)};
}

Result<std::vector<JsonField>> JsonField::elements() const {
  if (!value_->is_array()) return expected("a list");
  std::vector<JsonField> fields;
  for (const nlohmann::json& element : *value_) {
    fields.emplace_back(element, file_, fmt::format("{}[{}]", path_, fields.size()));
  }
  return fields;
}

Result<std::string> JsonField::string() const {
  if (!value_->is_string()) return expected("a string");
  return value_->get<std::string>();
}

Result<bool> JsonField::boolean() const {
  if (!value_->is_boolean()) return expected("true or false");
  return value_->get<bool>();
}

Result<uint32_t> JsonField::whole_number() const {
  if (!value_->is_number_unsigned() || value_->get<uint64_t>() > UINT32_MAX) {
    return expected("a whole number from 0 to 4294967295");
  }
  return value_->get<uint32_t>();
}

Status JsonField::object() const {
  if (!value_->is_object()) return expected("an object");
  return {};
}

Result<std::string> JsonField::string_or(std::string_view key, std::string fallback) const {
  if (!has(key)) return fallback;
  return at(key).string();
}

Result<bool> JsonField::boolean_or(std::string_view key, bool fallback) const {
  if (!has(key)) return fallback;
  return at(key).boolean();
}

std::string JsonField::found() const {
  if (value_->is_null()) return "nothing";
  if (value_->is_array()) return fmt::format("a list of {}", value_->size());
  if (value_->is_object()) return "an object";
  std::string text = value_->dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace);
  if (text.size() > 80) text.replace(80, std::string::npos, "...");
  return text;
}

Error JsonField::expected(std::string_view what) const {
  return {Code::invalid_file, fmt::format("{}: expected {}, found {}", where(), what, found())};
}

Error JsonField::unsupported(std::string_view what) const {
  return {Code::unsupported, fmt::format("{}: expected {}, found {}", where(), what, found())};
}

} // namespace pumice::text
