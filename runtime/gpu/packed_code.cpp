#include "gpu/packed_code.h"

#include <algorithm>

namespace pumice {
namespace {

constexpr size_t module_words = 5, bound_at = 3; // of a module: all results' numbers are below its bound

// Whether word `index` of an instruction is a literal. Results that are taken for literals, and the other way
// round, only take more room.
bool is_literal(uint32_t operation, uint32_t index) {
  switch (operation) {
  case 10: // OpExtension
  case 14: // OpMemoryModel
  case 17: // OpCapability
    return true;
  case 15: // OpEntryPoint
    return index == 1;
  case 11: // OpExtInstImport
  case 16: // OpExecutionMode
  case 21: // OpTypeInt
  case 22: // OpTypeFloat
  case 71: // OpDecorate
  case 72: // OpMemberDecorate
    return index > 1;
  case 23:  // OpTypeVector
  case 25:  // OpTypeImage
  case 43:  // OpConstant
  case 50:  // OpSpecConstant
  case 62:  // OpStore
  case 246: // OpLoopMerge
    return index > 2;
  case 32:  // OpTypePointer
  case 247: // OpSelectionMerge
    return index == 2;
  case 52: // OpSpecConstantOp
  case 54: // OpFunction
  case 59: // OpVariable
    return index == 3;
  case 12: // OpExtInst
    return index == 4;
  case 61: // OpLoad
  case 81: // OpCompositeExtract
    return index > 3;
  case 79: // OpVectorShuffle
  case 82: // OpCompositeInsert
    return index > 4;
  default:
    return false;
  }
}

} // namespace

CodeBuilder::CodeBuilder(std::span<const uint32_t> base) : base_(base) {
  if (base.size() > bound_at) renamed_.resize(std::min<uint32_t>(base[bound_at], 1u << 20));
}

bool CodeBuilder::at_result() const {
  return code.size() >= module_words && index_ + 1 < words_ && !is_literal(operation_, index_ + 1);
}

uint32_t CodeBuilder::copy_of(size_t at) const {
  const uint32_t word = base_[at];
  if (word == 0 || word >= renamed_.size() || !at_result()) return word;
  return renamed_[word] ? renamed_[word] : word + shift_;
}

void CodeBuilder::add(uint32_t word, size_t at) {
  const uint32_t own = base_[at];
  if (own != 0 && own < renamed_.size() && at_result()) {
    if (renamed_[own] != word) shift_ = word - own;
    renamed_[own] = word;
  }
  add(word);
}

void CodeBuilder::add(uint32_t word) {
  code.push_back(word);
  if (code.size() <= module_words) return;
  if (++index_ < words_) return;
  operation_ = word & 0xffff;
  words_ = word >> 16;
  index_ = 0;
}

std::vector<uint32_t> unpack_code(std::span<const uint16_t> packed, std::span<const uint32_t> base) {
  using namespace packed_code;
  CodeBuilder builder(base);
  builder.code.reserve(std::max(packed.size(), base.size()));
  size_t at = 0; // in the base
  bool replaces = false;
  const auto next = [&](size_t i) { return i < packed.size() ? uint32_t{packed[i]} : 0; };
  const auto add = [&](uint32_t word) {
    if (replaces && at < base.size()) {
      builder.add(word, at++);
    } else {
      builder.add(word);
    }
    replaces = false;
  };
  for (size_t i = 0; i < packed.size(); ++i) {
    const uint32_t number = packed[i];
    if (number < joined) {
      add(number);
    } else if (number <= copied) {
      add((number & 0x7fff) >> 9 << 16 | (number & 0x1ff));
    } else if (number < replaced) {
      for (uint32_t word = 0; word < number - copied && at < base.size(); ++word, ++at) {
        builder.add(builder.copy_of(at), at);
      }
    } else if (number == replaced) {
      replaces = true;
    } else if (number <= back) {
      at += number - skipped;
    } else if (number < jump) {
      at -= std::min<size_t>(at, number - back);
    } else if (number == jump) {
      at = next(++i);
    } else {
      add(next(i + 1) << 16 | next(i + 2));
      i += 2;
    }
  }
  return std::move(builder.code);
}

} // namespace pumice
