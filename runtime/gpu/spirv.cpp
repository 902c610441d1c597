#include "gpu/spirv.h"

#include <map>

namespace pumice {

namespace {

// A module begins with a header of so many words. Instructions follow: the first word of each has its number
// of words in the upper half and its code in the lower.
constexpr size_t header_words = 5;

enum SpirvInstruction : uint32_t {
  op_capability = 17,
  op_constant = 43,
  op_load = 61,
  op_access_chain = 65,
  op_in_bounds_access_chain = 66,
  op_decorate = 71,
};
constexpr uint32_t capability_group_non_uniform = 61, capability_cooperative_matrix = 6022;
constexpr uint32_t decoration_built_in = 11, built_in_num_workgroups = 24;

// Calls visit(operation, words) for each instruction.
template <class Visit>
void for_each_instruction(std::span<const uint32_t> code, const Visit& visit) {
  for (size_t at = header_words; at < code.size();) {
    const uint32_t words = code[at] >> 16;
    if (words == 0 || at + words > code.size()) return;
    visit(code[at] & 0xffff, code.subspan(at, words));
    at += words;
  }
}

} // namespace

bool uses_subgroups(std::span<const uint32_t> code) {
  bool uses = false;
  for_each_instruction(code, [&](uint32_t operation, std::span<const uint32_t> words) {
    if (operation != op_capability || words.size() < 2) return;
    uses |= words[1] == capability_group_non_uniform || words[1] == capability_cooperative_matrix;
  });
  return uses;
}

// The variable is decorated first, then come constants, then what reads it: as a whole, or one component
// through an access chain with a constant.
std::array<bool, 3> counted_axes(std::span<const uint32_t> code) {
  std::array<bool, 3> counted = {};
  uint32_t variable = 0; // 0 is no variable
  std::map<uint32_t, uint32_t> constants;
  for_each_instruction(code, [&](uint32_t operation, std::span<const uint32_t> words) {
    if (operation == op_decorate && words.size() == 4 && words[2] == decoration_built_in &&
        words[3] == built_in_num_workgroups) {
      variable = words[1];
    }
    if (operation == op_constant && words.size() == 4) constants[words[2]] = words[3];
    if (variable == 0 || words.size() < 4 || words[3] != variable) return;
    if (operation == op_load) counted = {true, true, true};
    if (operation != op_access_chain && operation != op_in_bounds_access_chain) return;
    const auto index = words.size() == 5 ? constants.find(words[4]) : constants.end();
    if (index != constants.end() && index->second < 3) {
      counted[index->second] = true;
    } else {
      counted = {true, true, true};
    }
  });
  return counted;
}

} // namespace pumice
