#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <vector>

// Compiled shaders with a fault in them, as a driver's compiler might make it.
namespace spirv_faults {

using Code = std::vector<uint32_t>;
using Instruction = std::span<const uint32_t>;

constexpr uint32_t header_words = 5, bound_at = 3;
enum Op : uint32_t {
  op_nop = 1,
  op_ext_inst = 12,
  op_type_bool = 20,
  op_type_int = 21,
  op_type_float = 22,
  op_type_vector = 23,
  op_constant = 43,
  op_load = 61,
  op_access_chain = 65,
  op_decorate = 71,
  op_convert_s_to_f = 111,
  op_convert_u_to_f = 112,
  op_quantize_to_f16 = 116,
  op_f_add = 129,
  op_select = 169,
  op_i_equal = 170,
  op_control_barrier = 224,
};

inline uint32_t op_of(Instruction instruction) {
  return instruction[0] & 0xffff;
}
inline Code make(uint32_t op, std::initializer_list<uint32_t> operands) {
  Code words = {static_cast<uint32_t>(operands.size() + 1) << 16 | op};
  words.insert(words.end(), operands);
  return words;
}

// Replaces each instruction by what `change` returns for it.
inline Code changed(std::span<const uint32_t> code, const std::function<Code(Instruction)>& change) {
  Code result(code.begin(), code.begin() + header_words);
  for (size_t at = header_words; at < code.size();) {
    const Instruction instruction = code.subspan(at, code[at] >> 16);
    const Code words = change(instruction);
    result.insert(result.end(), words.begin(), words.end());
    at += instruction.size();
  }
  return result;
}
inline void each(std::span<const uint32_t> code, const std::function<void(Instruction)>& look) {
  changed(code, [&](Instruction instruction) {
    look(instruction);
    return Code();
  });
}

// No invocation of a workgroup waits for the others.
inline Code without_barriers(std::span<const uint32_t> code) {
  return changed(code, [](Instruction instruction) {
    if (op_of(instruction) == op_control_barrier) return Code(instruction.size(), 1u << 16 | op_nop);
    return Code(instruction.begin(), instruction.end());
  });
}

// Numbers with a sign are read as numbers without one.
inline Code with_unsigned_codes(std::span<const uint32_t> code) {
  return changed(code, [](Instruction instruction) {
    Code words(instruction.begin(), instruction.end());
    if (op_of(instruction) == op_convert_s_to_f) words[0] = 4u << 16 | op_convert_u_to_f;
    return words;
  });
}

// All that is added up is rounded to 16 bits.
inline Code with_half_sums(std::span<const uint32_t> code) {
  std::set<uint32_t> floats; // types: of 32 bits, and their vectors
  each(code, [&](Instruction instruction) {
    const bool is_float = op_of(instruction) == op_type_float && instruction[2] == 32;
    const bool is_vector = op_of(instruction) == op_type_vector && floats.contains(instruction[2]);
    if (is_float || is_vector) floats.insert(instruction[1]);
  });
  constexpr uint32_t fma = 50;
  uint32_t next = code[bound_at];
  Code result = changed(code, [&](Instruction instruction) {
    Code words(instruction.begin(), instruction.end());
    const bool adds =
        op_of(instruction) == op_f_add || (op_of(instruction) == op_ext_inst && instruction[4] == fma);
    if (!adds || !floats.contains(instruction[1])) return words;
    words[2] = next;
    const Code rounded = make(op_quantize_to_f16, {instruction[1], instruction[2], next++});
    words.insert(words.end(), rounded.begin(), rounded.end());
    return words;
  });
  result[bound_at] = next;
  return result;
}

// Invocation 7 of a workgroup, or of a subgroup, does the work of invocation 6.
inline Code with_wrong_lane(std::span<const uint32_t> code) {
  constexpr uint32_t built_in = 11;
  const std::set<uint32_t> numbers = {27, 29, 41}; // LocalInvocationId, -Index, SubgroupLocalInvocationId
  uint32_t uint_type = 0, bool_type = 0;
  std::set<uint32_t> pointers;
  std::map<uint32_t, uint32_t> constants; // value to id
  each(code, [&](Instruction instruction) {
    const uint32_t op = op_of(instruction);
    if (op == op_type_bool) bool_type = instruction[1];
    if (op == op_type_int && instruction[2] == 32 && instruction[3] == 0) uint_type = instruction[1];
    if (op == op_constant && instruction[1] == uint_type) constants[instruction[3]] = instruction[2];
    if (op == op_decorate && instruction[2] == built_in && numbers.contains(instruction[3]))
      pointers.insert(instruction[1]);
    if (op == op_access_chain && pointers.contains(instruction[3])) pointers.insert(instruction[2]);
  });
  uint32_t next = code[bound_at];
  Code result = changed(code, [&](Instruction instruction) {
    Code words(instruction.begin(), instruction.end());
    if (op_of(instruction) != op_load || instruction[1] != uint_type || !pointers.contains(instruction[3]))
      return words;
    const uint32_t number = next++, is_seven = next++;
    words[2] = number;
    for (const Code& more : {make(op_i_equal, {bool_type, is_seven, number, constants.at(7)}),
                             make(op_select, {uint_type, instruction[2], is_seven, constants.at(6), number})})
      words.insert(words.end(), more.begin(), more.end());
    return words;
  });
  result[bound_at] = next;
  return result;
}

} // namespace spirv_faults
