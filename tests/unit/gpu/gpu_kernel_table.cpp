#include "gpu/kernel_table.h"

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

TEST_CASE("every kernel unpacks to a whole module, which stays where it is") {
  for (const KernelBinary& kernel : kernel_binaries()) {
    CAPTURE(kernel.name);
    const std::span<const uint32_t> code = kernel.code();
    REQUIRE(code.size() > 5);
    CHECK(code[0] == 0x07230203); // SPIR-V's magic number
    size_t at = 5;                // after the header; an instruction begins with its number of words
    while (at < code.size() && code[at] >> 16 > 0) at += code[at] >> 16;
    CHECK(at == code.size());
    CHECK(kernel.code().data() == code.data());
    CHECK(kernel.packed.size() < 2 * code.size());
  }
}
