#include "support/vulkan/shader_demands.h"

#include <algorithm>
#include <cstring>
#include <map>

#include <doctest/doctest.h>

namespace {

// Names and numbers are SPIR-V's.
enum Op : uint32_t {
  op_capability = 17,
  op_execution_mode = 16,
  op_execution_mode_id = 331,
  op_type_bool = 20,
  op_type_int = 21,
  op_type_float = 22,
  op_type_vector = 23,
  op_type_matrix = 24,
  op_type_array = 28,
  op_type_struct = 30,
  op_type_pointer = 32,
  op_constant_true = 41,
  op_constant_false = 42,
  op_constant = 43,
  op_constant_composite = 44,
  op_spec_constant_true = 48,
  op_spec_constant_false = 49,
  op_spec_constant = 50,
  op_spec_constant_composite = 51,
  op_spec_constant_op = 52,
  op_function = 54,
  op_variable = 59,
  op_decorate = 71,
  op_member_decorate = 72,
};
constexpr uint32_t decoration_spec_id = 1, decoration_built_in = 11, decoration_binding = 33,
                   decoration_offset = 35;
constexpr uint32_t built_in_workgroup_size = 25, mode_local_size = 17, mode_local_size_id = 38;
constexpr uint32_t storage_class_workgroup = 4, storage_class_push_constant = 9;

// Reads the declarations of a module, which come before its functions.
class Reader {
public:
  Reader(std::span<const uint32_t> code, const VkSpecializationInfo* constants)
      : code_(code), constants_(constants) {}

  ShaderDemands read() {
    for (size_t at = 5; at < code_.size();) {
      const uint32_t words = code_[at] >> 16, op = code_[at] & 0xffff;
      if (words == 0 || at + words > code_.size()) FAIL("a shader that is cut off");
      if (op == op_function) break;
      declare(op, code_.subspan(at + 1, words - 1));
      at += words;
    }
    if (workgroup_size_ != 0) {
      for (size_t axis = 0; axis < 3; ++axis)
        demands_.workgroup[axis] = values_.at(parts_.at(workgroup_size_)[axis]);
    }
    return demands_;
  }

private:
  using Words = std::span<const uint32_t>;

  void declare(uint32_t op, Words words) {
    switch (op) {
    case op_capability:
      demands_.capabilities.push_back(words[0]);
      break;
    case op_execution_mode:
      if (words[1] == mode_local_size) std::copy_n(words.begin() + 2, 3, demands_.workgroup.begin());
      break;
    case op_execution_mode_id:
      REQUIRE_MESSAGE(words[1] != mode_local_size_id, "sizes of workgroups by LocalSizeId are not read");
      break;
    case op_decorate:
      decorate(words);
      break;
    case op_member_decorate:
      if (words[2] == decoration_offset) offsets_[words[0]][words[1]] = words[3];
      break;
    case op_variable:
      add_variable(words);
      break;
    default:
      if (op >= op_type_bool && op <= op_type_pointer) declare_type(op, words);
      if (op >= op_constant_true && op <= op_spec_constant_op) declare_constant(op, words);
    }
  }

  void decorate(Words words) {
    if (words[1] == decoration_spec_id) spec_ids_[words[0]] = words[2];
    if (words[1] == decoration_built_in && words[2] == built_in_workgroup_size) workgroup_size_ = words[0];
    if (words[1] == decoration_binding)
      demands_.storage_buffers = std::max(demands_.storage_buffers, words[2] + 1);
  }

  // Sizes in bytes, without padding.
  void declare_type(uint32_t op, Words words) {
    const uint32_t id = words[0];
    switch (op) {
    case op_type_bool:
      sizes_[id] = 4;
      break;
    case op_type_int:
    case op_type_float:
      sizes_[id] = words[1] / 8;
      break;
    case op_type_vector:
    case op_type_matrix:
      sizes_[id] = sizes_.at(words[1]) * words[2];
      break;
    case op_type_array:
      if (sizes_.contains(words[1]) && values_.contains(words[2]))
        sizes_[id] = sizes_[words[1]] * values_[words[2]];
      break;
    case op_type_struct: {
      uint64_t end = 0;
      for (uint32_t member = 0; member + 1 < words.size(); ++member) {
        if (!sizes_.contains(words[member + 1])) return; // it ends with an array of any length
        const auto& offsets = offsets_[id];
        const auto offset = offsets.find(member);
        end = std::max(end, (offset == offsets.end() ? end : offset->second) + sizes_[words[member + 1]]);
      }
      sizes_[id] = end;
      break;
    }
    case op_type_pointer:
      pointed_[id] = words[2];
      break;
    default:
      break;
    }
  }

  void add_variable(Words words) {
    if (words[2] != storage_class_workgroup && words[2] != storage_class_push_constant) return;
    const auto bytes = sizes_.find(pointed_.at(words[0]));
    REQUIRE_MESSAGE(bytes != sizes_.end(), "a variable has a type whose size is not read");
    (words[2] == storage_class_workgroup ? demands_.shared_bytes : demands_.push_constant_bytes) +=
        bytes->second;
  }

  uint32_t specialised(uint32_t id, uint32_t value) const {
    const auto spec_id = spec_ids_.find(id);
    if (!constants_ || spec_id == spec_ids_.end()) return value;
    for (uint32_t i = 0; i < constants_->mapEntryCount; ++i) {
      const VkSpecializationMapEntry& entry = constants_->pMapEntries[i];
      if (entry.constantID != spec_id->second) continue;
      REQUIRE(entry.size == sizeof(value));
      std::memcpy(&value, static_cast<const std::byte*>(constants_->pData) + entry.offset, sizeof(value));
    }
    return value;
  }

  void declare_constant(uint32_t op, Words words) {
    const uint32_t id = words[1];
    switch (op) {
    case op_constant_true:
    case op_constant_false:
      values_[id] = op == op_constant_true;
      break;
    case op_constant:
      values_[id] = words[2];
      break;
    case op_spec_constant_true:
    case op_spec_constant_false:
      values_[id] = specialised(id, op == op_spec_constant_true);
      break;
    case op_spec_constant:
      values_[id] = specialised(id, words[2]);
      break;
    case op_constant_composite:
    case op_spec_constant_composite:
      parts_[id].assign(words.begin() + 2, words.end());
      break;
    case op_spec_constant_op:
      compute(id, words[2], words.subspan(3));
      break;
    default:
      break;
    }
  }

  void compute(uint32_t id, uint32_t op, Words words) {
    constexpr uint32_t composite_extract = 81, select = 169;
    if (op == composite_extract) {
      const auto parts = parts_.find(words[0]);
      REQUIRE(parts != parts_.end());
      values_[id] = values_.at(parts->second.at(words[1]));
      return;
    }
    std::array<uint32_t, 3> operands = {};
    REQUIRE(words.size() <= operands.size());
    for (size_t i = 0; i < words.size(); ++i) {
      // Of floats and composites, on which no size depends.
      if (!values_.contains(words[i])) return;
      operands[i] = values_[words[i]];
    }
    values_[id] =
        op == select ? (operands[0] ? operands[1] : operands[2]) : result(op, operands[0], operands[1]);
  }

  static uint32_t result(uint32_t op, uint32_t a, uint32_t b) {
    switch (op) {
    case 128: // IAdd, and so on
      return a + b;
    case 130:
      return a - b;
    case 132:
      return a * b;
    case 134:
      return b ? a / b : 0;
    case 137:
      return b ? a % b : 0;
    case 164: // LogicalEqual
    case 170: // IEqual
      return a == b;
    case 165: // LogicalNotEqual
    case 171: // INotEqual
      return a != b;
    case 166:
      return a || b;
    case 167:
      return a && b;
    case 168:
      return !a;
    case 172: // UGreaterThan
      return a > b;
    case 174:
      return a >= b;
    case 176:
      return a < b;
    case 178:
      return a <= b;
    case 194: // ShiftRightLogical
      return a >> b;
    case 196:
      return a << b;
    case 197: // BitwiseOr
      return a | b;
    case 199:
      return a & b;
    default:
      FAIL("a specialisation constant is computed by operation " << op << ", which is not read");
      return 0;
    }
  }

  Words code_;
  const VkSpecializationInfo* constants_;
  ShaderDemands demands_;
  uint32_t workgroup_size_ = 0; // the constant with that name
  std::map<uint32_t, uint32_t> spec_ids_, values_, pointed_;
  std::map<uint32_t, std::vector<uint32_t>> parts_;          // of composites
  std::map<uint32_t, uint64_t> sizes_;                       // of types
  std::map<uint32_t, std::map<uint32_t, uint64_t>> offsets_; // of a structure's members
};

} // namespace

ShaderDemands read_shader(std::span<const uint32_t> code, const VkSpecializationInfo* constants) {
  return Reader(code, constants).read();
}
