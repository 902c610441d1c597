#include "base/number_from_chars.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "support/seeded_numbers.h"

using namespace pumice;

#ifdef __cpp_lib_to_chars

namespace {

// Whether both ways read the same bits, leave the same rest, and find the same mistake.
template <class T>
bool same_as_from_chars(const std::string& text) {
  const char *begin = text.data(), *end = begin + text.size();
  T expected = -7, number = -7;
  const std::from_chars_result wanted = std::from_chars(begin, end, expected);
  const std::from_chars_result got = read_decimal(begin, end, number);
  const bool same_number = std::isnan(expected)
                               ? std::isnan(number)
                               : expected == number && std::signbit(expected) == std::signbit(number);
  return wanted.ptr == got.ptr && wanted.ec == got.ec && same_number;
}

} // namespace

TEST_CASE("numbers are read by the C library as by the C++ library") {
  for (const char* text : {"0",
                           "-0",
                           "1",
                           "-1.5",
                           ".5",
                           "5.",
                           "-.5e1",
                           "1e",
                           "1e+",
                           "1e-3x",
                           "1E5",
                           "007.5",
                           "0x10",
                           "",
                           "-",
                           ".",
                           "-.",
                           "e5",
                           "+1",
                           " 1",
                           "1 ",
                           "1,5",
                           "--1",
                           "1..2",
                           "1.2.3",
                           "inf",
                           "-INF",
                           "Infinity",
                           "infinit",
                           "nan",
                           "-NaN",
                           "na",
                           "1e400",
                           "-1e400",
                           "1e-400",
                           "0e999999",
                           "0.0e-999999",
                           "4.9e-324",
                           "1e-45",
                           "1e39",
                           "-1e-46",
                           "0.1",
                           "1e23",
                           "9007199254740993",
                           "3.4028235677973366e38",
                           "123456789012345678901234567890",
                           "null"}) {
    INFO(text);
    CHECK(same_as_from_chars<float>(text));
    CHECK(same_as_from_chars<double>(text));
  }
}

TEST_CASE("numbers of any bits are read back by the C library") {
  SeededWords words(5, "numbers");
  for (int i = 0; i < 2000; ++i) {
    const uint64_t word = words.next();
    CHECK(same_as_from_chars<double>(fmt::format("{}", std::bit_cast<double>(word))));
    CHECK(same_as_from_chars<float>(fmt::format("{}", std::bit_cast<float>(static_cast<uint32_t>(word)))));
  }
}

#endif

TEST_CASE("an integer is read in the same way") {
  const std::string text = "42rest";
  uint32_t number = 0;
  const auto [rest, error] = number_from_chars(text.data(), text.data() + text.size(), number);
  CHECK(number == 42);
  CHECK(error == std::errc());
  CHECK(rest == text.data() + 2);
}
