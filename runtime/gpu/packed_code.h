#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace pumice {

// SPIR-V is words of 32 bits, most of which are small, or begin an instruction with its length and its
// number: packed, a word is a number of 16 bits or two. And most kernels are much like another one, their
// base: what is the same is copied from it. The build packs (tools/embed_kernels.cpp):
//   below 0x8000    a word
//   up to 0xfdff    a word: the lower 9 bits are its lower half, the 6 bits above them its upper half
//   up to 0xfefe    0xfdff less: so many words of the base, from where it was left
//   0xfeff          the next word stands for the base's
//   up to 0xff7f    0xfeff less: so many words of the base are left out
//   up to 0xfffd    0xff7f less: the base goes on so many words before
//   0xfffe          the base goes on at the word that the next number says
//   0xffff          the next two numbers are the halves of a word
// Modules number their results, so an instruction more in one gives all that follow another number. A copied
// result has the number that it had before; where it comes for the first time, its number is as far from the
// base's as that of the last one that a word stood for.
namespace packed_code {
constexpr uint16_t joined = 0x8000, copied = 0xfdff, most_copied = 255, replaced = 0xfeff, skipped = 0xfeff,
                   most_skipped = 128, back = 0xff7f, most_back = 126, jump = 0xfffe, whole = 0xffff;
constexpr uint32_t joined_uppers = 63; // upper halves that fit beside 9 bits
} // namespace packed_code

// A module that is made word by word, beside a base.
class CodeBuilder {
public:
  explicit CodeBuilder(std::span<const uint32_t> base);

  // Whether the next word may be a result's number: no literal, and nothing that begins an instruction.
  bool at_result() const;
  // What the base's word becomes as the next one.
  uint32_t copy_of(size_t at) const;
  // Adds a word, which stands for the base's word `at`; or for none.
  void add(uint32_t word, size_t at);
  void add(uint32_t word);

  std::vector<uint32_t> code;

private:
  std::span<const uint32_t> base_;
  std::vector<uint32_t> renamed_; // what results of the base are called; 0: not known yet
  uint32_t shift_ = 0;
  uint32_t operation_ = 0, index_ = 0, words_ = 0; // of the instruction that the last word is a part of
};

// Packed code that is damaged gives something else, or nothing, but is never read past its end.
std::vector<uint32_t> unpack_code(std::span<const uint16_t> packed, std::span<const uint32_t> base = {});

} // namespace pumice
