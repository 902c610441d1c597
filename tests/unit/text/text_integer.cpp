// The integers of chat templates against the compiler's own of 128 bits, where it has them.
#include <doctest/doctest.h>

#include "support/seeded_numbers.h"
#include "text/jinja/integer.h"

using pumice::text::jinja::Integer;

#ifdef __SIZEOF_INT128__

namespace {

__extension__ using Exact = __int128;
__extension__ using Bits = unsigned __int128;

Integer of(Exact value) {
  const Bits bits = static_cast<Bits>(value);
  return (Integer(static_cast<uint64_t>(bits >> 64)) << 64) + Integer(static_cast<uint64_t>(bits));
}

// Numbers of all lengths, of both signs, and those beside powers of two.
std::vector<Exact> some_numbers() {
  std::vector<Exact> numbers = {0, 1, -1, 2, 3, -3, 10};
  SeededWords words(5, "integers");
  for (int length = 0; length < 127; ++length) {
    const Exact power = Exact(1) << length;
    const Bits random = Bits(words.next()) << 64 | words.next();
    numbers.insert(numbers.end(),
                   {power, power - 1, -power, -power - 1, static_cast<Exact>(random >> (127 - length))});
    numbers.push_back(-numbers.back());
  }
  return numbers;
}

} // namespace

TEST_CASE("integers: calculated and compared as by the compiler's own") {
  const std::vector<Exact> numbers = some_numbers();
  bool same = true;
  for (const Exact left : numbers) {
    const double real = static_cast<double>(left);
    same &=
        static_cast<double>(of(left)) == real && static_cast<int64_t>(of(left)) == static_cast<int64_t>(left);
    same &= std::fabs(real) > 1e38 || Integer(real) == of(static_cast<Exact>(real));
    for (const Exact right : numbers) {
      same &= of(left) + of(right) == of(static_cast<Exact>(Bits(left) + Bits(right)));
      same &= of(left) - of(right) == of(static_cast<Exact>(Bits(left) - Bits(right)));
      same &= of(left) * of(right) == of(static_cast<Exact>(Bits(left) * Bits(right)));
      same &= (of(left) & of(right)) == of(left & right);
      same &= (of(left) < of(right)) == (left < right) && (of(left) == of(right)) == (left == right);
      if (right != 0)
        same &= of(left) / of(right) == of(left / right) && of(left) % of(right) == of(left % right);
    }
    REQUIRE(same);
  }
}

#endif
