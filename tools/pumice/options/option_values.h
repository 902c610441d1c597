#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

// What the values of options may be. A wrong value ends the command with "--OPTION: 'VALUE' is not ...".
namespace pumice::command {

// The whole text as a number; nothing if it is something else or does not fit the type.
template <class T>
std::optional<T> parse_number(const std::string& text);

// A number from `low` to `high`.
template <class T>
CLI::Validator within(T low, T high);

// The same for a number of tokens, for which -1 stands for "no limit" as in llama.cpp: the value is then
// `no_limit`.
CLI::Validator token_count(uint32_t low, uint32_t high, uint32_t no_limit);

// A number of layers; -1, "all" and "auto" stand for all of them, as in llama.cpp. Add it with
// Option::transform().
CLI::Validator layer_count();

// The sizes that a word of a list stands for: "32", or as llama-bench has ranges "32-128" (each),
// "32-128+32" and "32-128*2". Empty if it stands for none, for one that is not from `low` to `high`, or for
// more than 1,024.
std::vector<uint32_t> sizes_in(const std::string& word, uint32_t low, uint32_t high);

// An option of several sizes, and ranges of them.
CLI::Option* add_sizes(CLI::App& sub, const std::string& name, std::vector<uint32_t>& values,
                       const char* help, uint32_t low, uint32_t high = 1u << 20);

// A seed; -1 becomes a random one. Add it with Option::transform().
CLI::Validator seed_value();

// One of some names. Case does not matter. Add it with Option::transform(): it puts in the name as it is
// here.
CLI::Validator one_of(std::vector<std::string> names);

// A type of keys and values, or the keys' and the values' with a comma or a slash between them. Add it with
// Option::transform(): it puts in the name as CacheType has it.
CLI::Validator kv_type();

// A type of weights. It may have the name of llama.cpp's mixtures ("Q4_K_M" is Q4_K) or of CTranslate2
// ("float16", "int8"). Add it with Option::transform().
CLI::Validator weight_type(std::vector<std::string> names);

// The names of a list such as "F32, F16".
std::vector<std::string> names_in(const std::string& list);

} // namespace pumice::command
