#include "gpu/kernel_table.h"
#include "gpu/packed_code.h"

#include <vector>

#include <doctest/doctest.h>

using namespace pumice;

TEST_CASE("packed code") {
  const std::vector<uint16_t> packed = {0,
                                        0x7fff,
                                        0x8000 | 5 << 9 | 0x3d,
                                        0x8000 | 62 << 9 | 0x1ff,
                                        0xffff,
                                        0,
                                        0x8000,
                                        0xffff,
                                        63,
                                        1,
                                        0xffff,
                                        0x3f80,
                                        0,
                                        0xffff,
                                        0xffff,
                                        0xffff};
  CHECK(unpack_code(packed) ==
        std::vector<uint32_t>{0, 0x7fff, 0x0005003d, 0x003e01ff, 0x8000, 0x003f0001, 0x3f800000, 0xffffffff});
  CHECK(unpack_code({}).empty());
}

TEST_CASE("packed code beside a base: copies, words in the place of others, and results by other numbers") {
  // A header with a bound of 20, and two instructions: result 7 = operation 0x80 of 5 and 6; 8 = 0x80 of 7
  // and 5.
  const std::vector<uint32_t> base = {0x07230203, 0x10000, 0,          20, 0, 0x00050080, 2, 7,
                                      5,          6,       0x00050080, 2,  8, 7,          5};
  constexpr uint16_t replace = 0xfeff, jump = 0xfffe;
  const auto copy = [](int words) { return static_cast<uint16_t>(0xfdff + words); };
  const auto skip = [](int words) { return static_cast<uint16_t>(0xfeff + words); };
  const auto back = [](int words) { return static_cast<uint16_t>(0xff7f + words); };
  const auto with = [&](std::vector<uint16_t> packed) { return unpack_code(packed, base); };
  CHECK(with({copy(15)}) == base);
  // With a bound of 22, and a first result of 9: what is copied behind it has 10 and uses 9.
  std::vector<uint32_t> shifted = base;
  shifted[3] = 22;
  shifted[7] = shifted[13] = 9;
  shifted[12] = 10;
  CHECK(with({copy(3), replace, 22, copy(3), replace, 9, 5, 6, skip(2), copy(4), 5}) == shifted);
  CHECK(with({jump, 5, copy(1), back(1), copy(1)}) == std::vector<uint32_t>{0x00050080, 0x00050080});
  // Damaged: never past an end.
  for (const std::vector<uint16_t>& packed : {std::vector<uint16_t>{0xffff},
                                              {0xffff, 1},
                                              {jump},
                                              {jump, 0xffff, copy(255)},
                                              {back(126), copy(255), copy(255)}}) {
    CHECK(with(packed).size() <= base.size());
    CHECK(unpack_code(packed).size() <= base.size());
  }
}

TEST_CASE("every kernel unpacks to a whole module, which stays where it is") {
  size_t packed = 0, words = 0;
  for (const KernelBinary& kernel : kernel_binaries()) {
    CAPTURE(kernel.name);
    const std::span<const uint32_t> code = kernel.code();
    REQUIRE(code.size() > 5);
    CHECK(code[0] == 0x07230203); // SPIR-V's magic number
    size_t at = 5;                // after the header; an instruction begins with its number of words
    while (at < code.size() && code[at] >> 16 > 0) at += code[at] >> 16;
    CHECK(at == code.size());
    CHECK(kernel.code().data() == code.data());
    packed += kernel.packed.size();
    words += code.size();
  }
  CHECK(packed * 4 < words); // most are much like another
}
