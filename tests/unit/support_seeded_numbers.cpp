// Numbers that tools/fixtures.py must make the same bits of: it holds the same values.
#include <bit>

#include <doctest/doctest.h>

#include "support/seeded_numbers.h"

TEST_CASE("fixtures: words, numbers and blocks from a seed and a name") {
  SeededWords words(7, "layer.0.weight");
  CHECK(words.next() == 0x2e762d1ce6324066);
  CHECK(words.next() == 0x16db69d566ace289);

  const std::vector<float> values = seeded_floats(7, "layer.0.weight", 3, 1, 0.25f);
  const uint32_t bits[] = {0x3f573b16, 0x3f4b6db4, 0x3f4a0cdd};
  REQUIRE(values.size() == 3);
  for (size_t i = 0; i < 3; ++i) CHECK(std::bit_cast<uint32_t>(values[i]) == bits[i]);

  const std::vector<std::byte> blocks = seeded_blocks(7, "layer.0.weight", 2, {1, 5, {{1, 0x3ff, 0x2000}}});
  const uint8_t bytes[] = {0x66, 0x40, 0x22, 0xe6, 0x1c, 0x2d, 0x76, 0x22, 0x89, 0xe2};
  REQUIRE(blocks.size() == 10);
  for (size_t i = 0; i < 10; ++i) CHECK(std::to_integer<int>(blocks[i]) == bytes[i]);
}

TEST_CASE("fixtures: another seed or another name gives other numbers, within the spread") {
  const std::vector<float> values = seeded_floats(1, "a", 10000, 0.5f, 0.125f);
  CHECK(values != seeded_floats(2, "a", 10000, 0.5f, 0.125f));
  CHECK(values != seeded_floats(1, "b", 10000, 0.5f, 0.125f));
  double sum = 0;
  for (const float value : values) {
    REQUIRE(value >= 0.375f);
    REQUIRE(value <= 0.625f);
    sum += value;
  }
  CHECK(sum / 10000 == doctest::Approx(0.5).epsilon(0.01));
}
