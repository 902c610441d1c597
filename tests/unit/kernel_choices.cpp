#include "kernel/choices.h"

#include <doctest/doctest.h>

using namespace pumice;

namespace {

std::string found(const Choices& choices, const char* shape_class) {
  const std::string* choice = find_choice(choices, shape_class);
  return choice ? *choice : "none";
}

} // namespace

TEST_CASE("a step of more rows than were measured takes what is the fastest for the nearest number of rows") {
  const Choices choices = {
      {"matmul q8_0 1 x 64 x 32", "dot"},         {"matmul q8_0 16 x 64 x 32", "tiled"},
      {"matmul q8_0 128 x 64 x 32", "cm"},        {"matmul q8_0 512 x 64 x 32 gated", "cm2"},
      {"attention f16 128 x 8 of 64 in 2", "cm"}, {"planted 40 x 512", "fast"}};
  CHECK(found(choices, "matmul q8_0 128 x 64 x 32") == "cm");
  CHECK(found(choices, "matmul q8_0 512 x 64 x 32") == "cm");
  CHECK(found(choices, "matmul q8_0 256 x 64 x 32") == "cm");
  CHECK(found(choices, "matmul q8_0 32 x 64 x 32") == "tiled");
  CHECK(found(choices, "attention f16 512 x 8 of 64 in 2") == "cm");
  // Few rows have kernels of their own.
  CHECK(found(choices, "matmul q8_0 4 x 64 x 32") == "none");
  // What differs in something else is something else.
  CHECK(found(choices, "matmul q8_0 512 x 64 x 64") == "none");
  CHECK(found(choices, "matmul q4_0 512 x 64 x 32") == "none");
  CHECK(found(choices, "attention f16 512 x 8 of 64 in 2 storing") == "none");
  CHECK(found(choices, "planted 40 x 512") == "fast");
  CHECK(found(choices, "planted 7 x 512") == "none");
  CHECK(found(choices, "x") == "none");
}

TEST_CASE("rows are measured in classes, and the last one has no end") {
  CHECK(rows_class(1) == 1);
  CHECK(rows_class(2) == 4);
  CHECK(rows_class(9) == 16);
  CHECK(rows_class(128) == 128);
  CHECK(rows_class(257) == 512);
  CHECK(rows_class(100000) == 512);
}
