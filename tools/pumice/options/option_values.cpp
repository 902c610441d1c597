#include "options/option_values.h"

#include <algorithm>
#include <cctype>
#include <concepts>
#include <random>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/number_from_chars.h"
#include "io/nearest_names.h"
#include "kernel/cache_layout.h"

namespace pumice::command {

namespace {

std::string upper_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

template <class T>
std::string check_within(const std::string& text, T low, T high) {
  const std::optional<T> number = parse_number<T>(text);
  if (number && *number >= low && *number <= high) return "";
  return fmt::format("'{}' is not a {} from {} to {}", text, std::integral<T> ? "whole number" : "number",
                     low, high);
}

// Sets `value` to the name that it is, in another case or with another spelling. Else what is wrong.
std::string choose(std::string& value, const std::vector<std::string>& names, const std::string& spelling) {
  for (const std::string& name : names) {
    if (upper_case(name) != upper_case(spelling)) continue;
    value = name;
    return "";
  }
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::vector<std::string_view> nearest = nearest_names(value, views);
  return fmt::format("'{}' is not one of {}{}", value, fmt::join(names, ", "),
                     nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest[0]));
}

// A type's own name for what other programs call it.
std::string type_name_of(const std::string& text) {
  const std::string name = upper_case(text);
  if (name == "FLOAT32" || name == "FP32") return "F32";
  if (name == "FLOAT16" || name == "FP16") return "F16";
  if (name == "BFLOAT16") return "BF16";
  if (name == "INT8" || name == "Q8") return "Q8_0";
  // llama.cpp's mixtures, where they are not among the names: Q4_K_M is mostly Q4_K.
  for (const std::string_view size : {"_S", "_M", "_L"}) {
    if (name.ends_with(std::string("_K") + std::string(size)))
      return name.substr(0, name.size() - size.size());
  }
  return name;
}

// What a validator says of itself: option_text.cpp takes the choices from it.
std::string choice_list(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, "|"));
}

} // namespace

template <class T>
std::optional<T> parse_number(const std::string& text) {
  const char *begin = text.data(), *end = begin + text.size();
  if (end - begin > 1 && *begin == '+') ++begin;
  T number{};
  const auto [rest, error] = number_from_chars(begin, end, number);
  if (error != std::errc() || rest != end) return std::nullopt;
  return number;
}
template std::optional<uint32_t> parse_number(const std::string&);
template std::optional<uint64_t> parse_number(const std::string&);
template std::optional<float> parse_number(const std::string&);
template std::optional<double> parse_number(const std::string&);

template <class T>
CLI::Validator within(T low, T high) {
  return {[low, high](std::string& text) { return check_within(text, low, high); }, ""};
}
template CLI::Validator within(uint32_t, uint32_t);
template CLI::Validator within(uint64_t, uint64_t);
template CLI::Validator within(float, float);
template CLI::Validator within(double, double);

std::vector<uint32_t> sizes_in(const std::string& word, uint32_t low, uint32_t high) {
  constexpr size_t most = 1024;
  const size_t dash = word.find('-'), step_sign = word.find_first_of("+*");
  const std::optional<uint32_t> first = parse_number<uint32_t>(word.substr(0, dash));
  if (!first || *first < low || *first > high) return {};
  if (dash == std::string::npos) return {*first};
  const size_t last_size = step_sign == std::string::npos ? step_sign : step_sign - dash - 1;
  const std::optional<uint32_t> last = parse_number<uint32_t>(word.substr(dash + 1, last_size));
  std::optional<uint32_t> step = 1;
  if (step_sign != std::string::npos) step = parse_number<uint32_t>(word.substr(step_sign + 1));
  if (!last || *last > high || !step) return {};
  const bool multiplied = step_sign != std::string::npos && word[step_sign] == '*';
  std::vector<uint32_t> sizes;
  for (uint64_t size = *first; size <= *last; size = multiplied ? size * *step : size + *step) {
    const bool stays = !sizes.empty() && size == sizes.back(); // a step of nothing
    if (stays || sizes.size() == most) return {};
    sizes.push_back(static_cast<uint32_t>(size));
  }
  return sizes;
}

CLI::Option* add_sizes(CLI::App& sub, const std::string& name, std::vector<uint32_t>& values,
                       const char* help, uint32_t low, uint32_t high) {
  const auto read = [&values, name, low, high](const std::vector<std::string>& words) {
    values.clear();
    for (const std::string& word : words) {
      const std::vector<uint32_t> sizes = sizes_in(word, low, high);
      if (sizes.empty()) {
        throw CLI::ValidationError(
            name.substr(name.find("--")),
            fmt::format("'{}' is not a whole number from {} to {}, nor a range such as "
                        "32-128, 32-128+32 or 32-128*2",
                        word, low, high));
      }
      values.insert(values.end(), sizes.begin(), sizes.end());
    }
  };
  return sub.add_option_function<std::vector<std::string>>(name, read, help)
      ->type_name("N,...")
      ->delimiter(',')
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group("Measurement");
}

CLI::Validator seed_value() {
  const auto parse = [](std::string& text) {
    if (text != "-1") return check_within(text, uint64_t{0}, UINT64_MAX);
    text = std::to_string(std::random_device()());
    return std::string();
  };
  return {parse, ""};
}

CLI::Validator token_count(uint32_t low, uint32_t high, uint32_t no_limit) {
  const auto parse = [low, high, no_limit](std::string& text) {
    if (text == "-1") {
      text = std::to_string(no_limit);
      return std::string();
    }
    const std::string wrong = check_within(text, low, high);
    return wrong.empty() ? wrong : wrong + ", nor -1 for no limit";
  };
  return {parse, ""};
}

CLI::Validator layer_count() {
  const auto parse = [](std::string& text) {
    constexpr std::string_view all[] = {"-1", "all", "auto"};
    if (std::ranges::count(all, text)) {
      text = std::to_string(UINT32_MAX);
      return std::string();
    }
    const std::string wrong = check_within(text, 0u, UINT32_MAX);
    return wrong.empty() ? wrong : wrong + ", nor all";
  };
  return {parse, ""};
}

std::vector<std::string> names_in(const std::string& list) {
  std::vector<std::string> names;
  for (const std::string& name : CLI::detail::split(list, ',')) names.push_back(CLI::detail::trim_copy(name));
  return names;
}

CLI::Validator one_of(std::vector<std::string> names) {
  const std::string list = choice_list(names);
  return {[names = std::move(names)](std::string& value) { return choose(value, names, value); }, list};
}

CLI::Validator kv_type() {
  const std::vector<std::string> names = {"f32", "f16", "q8_0", "q4_0"};
  const auto parse = [names](std::string& text) {
    const std::optional<CacheType> both = find_cache_type(CLI::detail::to_lower(text));
    if (both) text = to_string(*both);
    return both ? std::string()
                : fmt::format("'{}' is not one of {}, nor one of the pairs of keys and values: f16,q8_0, "
                              "q8_0,f16 and q8_0,q4_0",
                              text, fmt::join(names, ", "));
  };
  return {parse, choice_list(names)};
}

CLI::Validator weight_type(std::vector<std::string> names) {
  const std::string list = choice_list(names);
  return {[names = std::move(names)](std::string& value) {
            return choose(value, names, value).empty() ? "" : choose(value, names, type_name_of(value));
          },
          list};
}

} // namespace pumice::command
