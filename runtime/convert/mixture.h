#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "io/tensor_type.h"
#include "text/unicode/regex.h"

namespace pumice {

// What a model's matrices are stored as: one type, or a mixture of types in which those whose errors have the
// largest effect have more bits, as llama.cpp's llama-quantize makes it.
struct Mixture {
  std::string_view name; // "Q8_0", "Q4_K_M"
  TensorType type;       // of most matrices
  uint32_t file_type;    // llama.cpp's number, general.file_type
};

// Those that can be written.
std::span<const Mixture> mixtures();
std::string mixture_names(); // "F32, F16, ..."
// Error: not_found, with the names above.
Result<Mixture> find_mixture(std::string_view name);

// A type for the tensors in whose names a regular expression matches.
struct TensorTypeRule {
  text::Regex pattern;
  TensorType type;
};

// Reads "PATTERN=TYPE". Errors: invalid_argument.
Result<TensorTypeRule> parse_tensor_type_rule(std::string_view rule);

// The type in which a matrix is written, and whether the one that was wanted did not fit.
struct WrittenType {
  TensorType type = TensorType::f32;
  bool fell_back = false;
};

// The wanted type, or where rows of `columns` are not a whole number of its blocks, the one of blocks of 32
// that llama-quantize takes instead; or F16 if that does not fit either.
WrittenType fitting_type(TensorType wanted, uint64_t columns);

// Chooses the types of a model's matrices, under llama.cpp's names.
class MixtureTypes {
public:
  // `metadata`: the model's settings under llama.cpp's keys. `names`: of all its tensors. `importance`:
  // whether it is known how much errors in them count.
  MixtureTypes(const Mixture& mixture, std::span<const TensorTypeRule> rules, std::string_view architecture,
               const nlohmann::json& metadata, const std::vector<std::string>& names, bool importance);

  // Of a matrix, or of the matrices of experts, with rows of `columns`.
  WrittenType of(std::string_view name, bool experts, uint64_t columns) const;

private:
  TensorType wanted(std::string_view name, bool experts, uint64_t columns) const;
  TensorType of_values(std::string_view name) const; // attn_v and what it is a part of
  TensorType of_ffn_down(std::string_view name) const;
  TensorType of_output() const; // attn_output
  bool is(std::string_view mixture) const { return mixture_.name == mixture; }
  size_t place(const std::map<std::string, size_t, std::less<>>& places, std::string_view name) const;

  Mixture mixture_;
  std::span<const TensorTypeRule> rules_;
  bool importance_, falcon_;
  bool tied_ = true;                              // the embeddings give the logits
  uint64_t layers_ = 0, experts_ = 0, group_ = 1; // group: heads that share keys and values
  bool seventy_billion_ = false;
  std::map<std::string, size_t, std::less<>> values_, ffn_downs_; // in the layers' order
};

// A sentence for the user about matrices that fell back.
std::string fallback_note(const std::string& file, size_t fallen_back, size_t tensors, TensorType requested);

} // namespace pumice
