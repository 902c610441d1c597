#include "convert/mixture.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/quantize.h"

namespace pumice {

namespace {

using nlohmann::json;
using Type = TensorType;

// Q3_K, Q4_K, Q5_K and MXFP4, which llama-quantize does not have, are one type throughout, but for the head.
constexpr Mixture all_mixtures[] = {
    {"F32", Type::f32, 0},        {"F16", Type::f16, 1},        {"BF16", Type::bf16, 32},
    {"Q8_0", Type::q8_0, 7},      {"Q4_0", Type::q4_0, 2},      {"Q4_1", Type::q4_1, 3},
    {"Q5_0", Type::q5_0, 8},      {"Q5_1", Type::q5_1, 9},      {"Q2_K", Type::q2_k, 10},
    {"Q2_K_S", Type::q2_k, 21},   {"Q3_K", Type::q3_k, 11},     {"Q3_K_S", Type::q3_k, 11},
    {"Q3_K_M", Type::q3_k, 12},   {"Q3_K_L", Type::q3_k, 13},   {"Q4_K", Type::q4_k, 14},
    {"Q4_K_S", Type::q4_k, 14},   {"Q4_K_M", Type::q4_k, 15},   {"Q5_K", Type::q5_k, 16},
    {"Q5_K_S", Type::q5_k, 16},   {"Q5_K_M", Type::q5_k, 17},   {"Q6_K", Type::q6_k, 18},
    {"IQ4_NL", Type::iq4_nl, 25}, {"IQ4_XS", Type::iq4_xs, 30}, {"MXFP4_MOE", Type::mxfp4, 38},
    {"MXFP4", Type::mxfp4, 38},   {"NVFP4", Type::nvfp4, 39},   {"TQ1_0", Type::tq1_0, 36},
    {"TQ2_0", Type::tq2_0, 37},   {"Q1_0", Type::q1_0, 40},     {"Q2_0", Type::q2_0, 41},
};

bool has(std::string_view name, std::string_view part) {
  return name.find(part) != std::string_view::npos;
}

bool is_values(std::string_view name) {
  return has(name, "attn_v.weight") || has(name, "attn_qkv.weight") || has(name, "attn_kv_b.weight");
}

// The layer in "blk.7.attn_q.weight"; 0 without one.
size_t layer_of(std::string_view name) {
  const size_t at = name.find("blk.");
  size_t layer = 0;
  if (at != std::string_view::npos) std::from_chars(name.data() + at + 4, name.data() + name.size(), layer);
  return layer;
}

// A number, or the first one of a list that has one for each layer.
uint64_t number_of(const json& metadata, const std::string& key, uint64_t otherwise) {
  if (!metadata.is_object() || !metadata.contains(key)) return otherwise;
  const json& value = metadata.at(key);
  const json& first = value.is_array() && !value.empty() ? value.front() : value;
  return first.is_number_unsigned() || (first.is_number_integer() && first.get<int64_t>() >= 0)
             ? first.get<uint64_t>()
             : otherwise;
}

std::map<std::string, size_t, std::less<>> placed(std::vector<std::string> names) {
  std::ranges::stable_sort(names, {}, [](const std::string& name) { return layer_of(name); });
  std::map<std::string, size_t, std::less<>> places;
  for (std::string& name : names) places.emplace(std::move(name), places.size());
  return places;
}

// The first and the last eighth of the layers, and every third between.
bool more_bits(size_t layer, size_t layers) {
  return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

} // namespace

std::span<const Mixture> mixtures() {
  return all_mixtures;
}

std::string mixture_names() {
  std::string names;
  for (const Mixture& mixture : all_mixtures) {
    names.append(names.empty() ? "" : ", ").append(mixture.name);
  }
  return names;
}

Result<Mixture> find_mixture(std::string_view name) {
  const auto same = [](char a, char b) { return (a | 32) == (b | 32); }; // letters, whatever their case
  for (const Mixture& mixture : all_mixtures) {
    if (std::ranges::equal(mixture.name, name, [&](char a, char b) { return a == b || same(a, b); }))
      return mixture;
  }
  return Error{Code::not_found, fmt::format("expected one of {}, found '{}'", mixture_names(), name)};
}

Result<TensorTypeRule> parse_tensor_type_rule(std::string_view rule) {
  const size_t equals = rule.rfind('=');
  const auto wrong = [&](std::string_view what) {
    return Error{Code::invalid_argument, fmt::format("'{}': {}", rule, what)};
  };
  if (equals == std::string_view::npos || equals == 0)
    return wrong("expected PATTERN=TYPE, such as attn_v=Q8_0");
  const TensorTypeInfo* type = find_type_named(rule.substr(equals + 1));
  if (!type || !can_quantize(type->type))
    return wrong(fmt::format("expected one of {} after the last '=', found '{}'", quantizable_type_names(),
                             rule.substr(equals + 1)));
  Result<text::Regex> pattern = text::Regex::compile(rule.substr(0, equals));
  if (!pattern.ok()) return wrong(pattern.error().message);
  return TensorTypeRule{std::move(*pattern), type->type};
}

WrittenType fitting_type(TensorType wanted, uint64_t columns) {
  const auto fits = [&](TensorType type) { return columns % info(type).block_size == 0; };
  if (fits(wanted)) return {wanted};
  Type other = Type::q4_0;
  switch (wanted) {
  case Type::iq4_xs:
    other = Type::iq4_nl;
    break;
  case Type::q4_k:
    other = Type::q5_0;
    break;
  case Type::q5_k:
    other = Type::q5_1;
    break;
  case Type::q6_k:
    other = Type::q8_0;
    break;
  default:
    break;
  }
  return {fits(other) ? other : Type::f16, true};
}

MixtureTypes::MixtureTypes(const Mixture& mixture, std::span<const TensorTypeRule> rules,
                           std::string_view architecture, const json& metadata,
                           const std::vector<std::string>& names, bool importance)
    : mixture_(mixture), rules_(rules), importance_(importance), falcon_(architecture == "falcon") {
  const std::string prefix(architecture);
  layers_ = number_of(metadata, prefix + ".block_count", 0);
  experts_ = number_of(metadata, prefix + ".expert_count", 0);
  const uint64_t heads = number_of(metadata, prefix + ".attention.head_count", 1);
  group_ = heads / std::max<uint64_t>(1, number_of(metadata, prefix + ".attention.head_count_kv", heads));
  seventy_billion_ = layers_ == 80 && group_ > 1;
  std::vector<std::string> values, downs;
  for (const std::string& name : names) {
    if (name == "output.weight") tied_ = false;
    if (is_values(name)) values.push_back(name);
    if (has(name, "ffn_down")) downs.push_back(name);
  }
  values_ = placed(std::move(values));
  ffn_downs_ = placed(std::move(downs));
}

size_t MixtureTypes::place(const std::map<std::string, size_t, std::less<>>& places,
                           std::string_view name) const {
  const auto found = places.find(name);
  return found == places.end() ? 0 : found->second;
}

WrittenType MixtureTypes::of(std::string_view name, bool experts, uint64_t columns) const {
  for (const TensorTypeRule& rule : rules_) {
    if (!rule.pattern.matches(name).empty()) return fitting_type(rule.type, columns);
  }
  const Type type = wanted(name, experts, columns);
  WrittenType written = fitting_type(type, columns);
  written.fell_back |= type == Type::q8_0 && columns % info(mixture_.type).block_size != 0;
  return written;
}

TensorType MixtureTypes::wanted(std::string_view name, bool experts, uint64_t columns) const {
  const Type type = mixture_.type;
  if (info(type).block_size == 1) return type;
  const bool embedding = name == "token_embd.weight" || name == "per_layer_token_embd.weight";
  if (name == "output.weight" || (tied_ && embedding)) {
    if (falcon_ || type == Type::q8_0 || is("MXFP4_MOE") || columns % info(type).block_size != 0)
      return Type::q8_0;
    return Type::q6_k;
  }
  if (is("MXFP4_MOE")) return experts ? type : Type::q8_0;
  if (embedding) return type == Type::tq1_0 || type == Type::tq2_0 || type == Type::q2_0 ? Type::q4_k : type;
  if (is_values(name)) return of_values(name);
  if (has(name, "attn_k.weight")) return experts_ == 8 ? Type::q8_0 : type;
  if (has(name, "ffn_down")) return of_ffn_down(name);
  if (has(name, "attn_output.weight")) return of_output();
  return type;
}

TensorType MixtureTypes::of_values(std::string_view name) const {
  const size_t layer = place(values_, name), count = values_.size();
  if (experts_ == 8) return Type::q8_0;
  Type type = mixture_.type;
  if (is("Q2_K")) {
    type = group_ >= 4 ? Type::q4_k : Type::q3_k;
  } else if (is("Q2_K_S")) {
    if (group_ >= 4) type = Type::q4_k;
  } else if (is("Q3_K_M")) {
    type = layer < 2 ? Type::q5_k : Type::q4_k;
  } else if (is("Q3_K_L")) {
    type = Type::q5_k;
  } else if (is("IQ4_NL") || is("IQ4_XS")) {
    if (group_ >= 4) type = Type::q5_k;
  } else if (is("Q4_K_M") || is("Q5_K_M")) {
    if (more_bits(layer, count)) type = Type::q6_k;
  } else if (is("Q4_K_S")) {
    if (layer < 4) type = Type::q5_k;
  }
  if (seventy_billion_ && (type == Type::q3_k || type == Type::q4_k)) type = Type::q5_k;
  return type;
}

TensorType MixtureTypes::of_ffn_down(std::string_view name) const {
  const size_t layer = experts_ > 1 ? layer_of(name) : place(ffn_downs_, name), count = layers_;
  const Type type = mixture_.type;
  if (is("Q2_K")) return Type::q3_k;
  if (is("Q2_K_S")) return layer < count / 8 ? Type::q4_k : type;
  if (is("Q3_K_M")) {
    if (layer < count / 16) return Type::q5_k;
    return !falcon_ || more_bits(layer, count) ? Type::q4_k : type;
  }
  if (is("Q3_K_L")) return falcon_ ? Type::q4_k : Type::q5_k;
  if (is("Q4_K_M") && falcon_) {
    return layer < count / 16 ? Type::q6_k : more_bits(layer, count) ? Type::q5_k : type;
  }
  if (is("Q4_K_M") || is("Q5_K_M")) return more_bits(layer, count) ? Type::q6_k : type;
  if (is("Q4_K_S") && !falcon_) return layer < count / 8 ? Type::q5_k : type;
  if (layer >= count / 8) return type;
  if ((is("IQ4_NL") || is("IQ4_XS")) && !importance_) return Type::q5_k;
  if (is("Q4_0") && importance_) return Type::q4_1;
  if (is("Q5_0") && importance_) return Type::q5_1;
  return type;
}

TensorType MixtureTypes::of_output() const {
  if (falcon_) return is("Q3_K_L") ? Type::q4_k : mixture_.type;
  if (experts_ == 8) {
    const bool small = is("Q2_K") || is("Q3_K_S") || is("Q3_K_M") || is("IQ4_NL") || is("Q4_K_S") ||
                       is("Q4_K_M") || is("IQ4_XS");
    return small ? Type::q5_k : mixture_.type;
  }
  if (is("Q2_K")) return Type::q3_k;
  if (is("Q3_K_M")) return Type::q4_k;
  if (is("Q3_K_L")) return Type::q5_k;
  return mixture_.type;
}

std::string fallback_note(const std::string& file, size_t fallen_back, size_t tensors, TensorType requested) {
  return fmt::format("{}: {} of {} tensors have rows that do not fill the blocks of the type that they would "
                     "have with {}: they have one of smaller blocks, or F16",
                     file, fallen_back, tensors, info(requested).name);
}

} // namespace pumice
