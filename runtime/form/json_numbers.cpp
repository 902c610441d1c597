#include <algorithm>

#include "form/json_values.h"

namespace pumice::form {

namespace {

// Most digits of a number, before and after the point, and of an exponent: all programs can read it.
constexpr uint32_t most_whole_digits = 18, most_fraction_digits = 18, most_exponent_digits = 2;

// A limit as it is written: 12.5 is {"12", "5"}. Fractions have no zeros at the end.
struct Decimal {
  bool negative = false;
  std::string whole, fraction;
  bool exclusive = false;
};

Result<Decimal> decimal(const NumberLimit& limit) {
  std::string text = limit.value.dump();
  Decimal result;
  result.exclusive = limit.exclusive;
  if (text.find_first_of("eE") != std::string::npos || text.size() > 20) {
    return Error{Code::unsupported,
                 text + " is too large or too small for a limit: at most 18 digits are possible"};
  }
  result.negative = text[0] == '-';
  if (result.negative) text.erase(0, 1);
  const size_t point = std::min(text.find('.'), text.size());
  result.whole = text.substr(0, point);
  if (point < text.size()) result.fraction = text.substr(point + 1);
  while (result.fraction.ends_with('0')) result.fraction.pop_back();
  if (result.whole == "0" && result.fraction.empty()) result.negative = false;
  return result;
}

// Makes numbers without a sign between two limits.
class Digits {
public:
  explicit Digits(Grammar& grammar) : grammar_(grammar) {}

  Part range(char first, char last) {
    if (first > last) return grammar_.never();
    return grammar_.one_of({{static_cast<char32_t>(first), static_cast<char32_t>(last)}});
  }
  Part any(uint32_t least, uint32_t most) { return grammar_.repeat(range('0', '9'), least, most); }
  Part text(std::string_view digits) { return grammar_.text(std::string(digits)); }

  // Of as many digits as both have.
  Part same_length(std::string_view low, std::string_view high) {
    if (low == high) return text(low);
    const auto count = static_cast<uint32_t>(low.size());
    const auto all_are = [](std::string_view digits, char digit) {
      return digits.find_first_not_of(digit) == std::string_view::npos;
    };
    if (all_are(low, '0') && all_are(high, '9')) return any(count, count);
    if (low[0] == high[0])
      return grammar_.sequence({text(low.substr(0, 1)), same_length(low.substr(1), high.substr(1))});
    const std::string nines(count - 1, '9'), zeros(count - 1, '0');
    std::vector<Part> all;
    all.push_back(grammar_.sequence({text(low.substr(0, 1)), same_length(low.substr(1), nines)}));
    all.push_back(grammar_.sequence(
        {range(static_cast<char>(low[0] + 1), static_cast<char>(high[0] - 1)), any(count - 1, count - 1)}));
    all.push_back(grammar_.sequence({text(high.substr(0, 1)), same_length(zeros, high.substr(1))}));
    return grammar_.choice(std::move(all));
  }

  // Whole numbers; without `high`, all from `low` on.
  Part whole(const std::string& low, const std::optional<std::string>& high) {
    if (high && (high->size() < low.size() || (high->size() == low.size() && *high < low)))
      return grammar_.never();
    std::vector<Part> all;
    const size_t longest = high ? high->size() : low.size();
    for (size_t length = low.size(); length <= longest; ++length) {
      const std::string least = length == low.size() ? low : "1" + std::string(length - 1, '0');
      const std::string most = high && length == longest ? *high : std::string(length, '9');
      // One digit alone may be 0; more do not begin with it.
      all.push_back(same_length(least, most));
    }
    if (!high && longest < most_whole_digits)
      all.push_back(
          grammar_.sequence({range('1', '9'), any(static_cast<uint32_t>(longest), most_whole_digits - 1)}));
    return grammar_.choice(std::move(all));
  }

  // Digits after the point, and whether there may be none: then no point is written.
  struct Fraction {
    bool none = false;
    Part some = 0;
  };
  Fraction any_fraction() { return {true, any(1, most_fraction_digits)}; }

  // At least, or more than, what the digits say.
  Fraction from(std::string_view low, bool exclusive) {
    if (low.empty()) {
      if (!exclusive) return any_fraction();
      return {false, grammar_.sequence(
                         {any(0, most_fraction_digits), range('1', '9'), any(0, most_fraction_digits)})};
    }
    const Fraction rest = from(low.substr(1), exclusive);
    return {false, grammar_.choice(
                       {first_of(low[0], rest), grammar_.sequence({range(static_cast<char>(low[0] + 1), '9'),
                                                                   any(0, most_fraction_digits)})})};
  }
  Fraction to(std::string_view high, bool exclusive) {
    if (high.empty()) {
      const Part zeros = grammar_.repeat(range('0', '0'), 1, most_fraction_digits);
      return {!exclusive, exclusive ? grammar_.never() : zeros};
    }
    const Fraction rest = to(high.substr(1), exclusive);
    return {true, grammar_.choice(
                      {first_of(high[0], rest), grammar_.sequence({range('0', static_cast<char>(high[0] - 1)),
                                                                   any(0, most_fraction_digits)})})};
  }
  // Both have as many digits.
  Fraction between(std::string_view low, bool low_exclusive, std::string_view high, bool high_exclusive) {
    if (low.empty()) {
      const bool exclusive = low_exclusive || high_exclusive;
      return to("", exclusive);
    }
    if (low[0] > high[0]) return {false, grammar_.never()};
    const bool zero = low.find_first_not_of('0') == std::string_view::npos && !low_exclusive;
    const bool none = zero && (high.find_first_not_of('0') != std::string_view::npos || !high_exclusive);
    if (low[0] == high[0])
      return {none, first_of(low[0], between(low.substr(1), low_exclusive, high.substr(1), high_exclusive))};
    return {none, grammar_.choice({first_of(low[0], from_padded(low.substr(1), low_exclusive)),
                                   grammar_.sequence(
                                       {range(static_cast<char>(low[0] + 1), static_cast<char>(high[0] - 1)),
                                        any(0, most_fraction_digits)}),
                                   first_of(high[0], to_padded(high.substr(1), high_exclusive))})};
  }

  Part with_fraction(Part whole, Fraction fraction) {
    const Part some = grammar_.sequence({grammar_.text("."), fraction.some});
    return grammar_.sequence({whole, fraction.none ? grammar_.choice({grammar_.text(""), some}) : some});
  }

  Part decimals(const Decimal& low, const std::optional<Decimal>& high) {
    const Part next =
        whole(successor(low.whole), high ? predecessor(high->whole) : std::optional<std::string>());
    std::vector<Part> all;
    if (high && high->whole == low.whole) {
      std::string a = low.fraction, b = high->fraction;
      a.resize(std::max(a.size(), b.size()), '0');
      b.resize(a.size(), '0');
      return with_fraction(text(low.whole), between(a, low.exclusive, b, high->exclusive));
    }
    if (high && (high->whole.size() < low.whole.size() ||
                 (high->whole.size() == low.whole.size() && high->whole < low.whole)))
      return grammar_.never();
    all.push_back(with_fraction(text(low.whole), from(low.fraction, low.exclusive)));
    if (!high || predecessor(high->whole)) all.push_back(with_fraction(next, any_fraction()));
    if (high) all.push_back(with_fraction(text(high->whole), to(high->fraction, high->exclusive)));
    return grammar_.choice(std::move(all));
  }

  static std::string successor(std::string digits) {
    size_t i = digits.size();
    while (i > 0 && digits[i - 1] == '9') digits[--i] = '0';
    if (i == 0) return "1" + digits;
    ++digits[i - 1];
    return digits;
  }
  static std::optional<std::string> predecessor(std::string digits) {
    if (digits == "0") return std::nullopt;
    size_t i = digits.size();
    while (digits[i - 1] == '0') digits[--i] = '9';
    --digits[i - 1];
    if (digits[0] == '0' && digits.size() > 1) digits.erase(0, 1);
    return digits;
  }

private:
  Part first_of(char digit, const Fraction& rest) {
    const Part first = grammar_.text({digit});
    return rest.none ? grammar_.sequence({first, grammar_.choice({grammar_.text(""), rest.some})})
                     : grammar_.sequence({first, rest.some});
  }
  static std::string_view without_zeros(std::string_view digits) {
    while (digits.ends_with('0')) digits.remove_suffix(1);
    return digits;
  }
  Fraction from_padded(std::string_view low, bool exclusive) { return from(without_zeros(low), exclusive); }
  Fraction to_padded(std::string_view high, bool exclusive) { return to(without_zeros(high), exclusive); }

  Grammar& grammar_;
};

// `unsigned_part` makes the numbers without a sign from a lower to a higher limit.
template <class Make>
Part signed_numbers(Grammar& grammar, const std::optional<Decimal>& low, const std::optional<Decimal>& high,
                    Make make) {
  std::vector<Part> all;
  const Decimal zero{false, "0", "", false};
  if (!high || !high->negative) all.push_back(make(low && !low->negative ? *low : zero, high));
  if (!low || low->negative) {
    Decimal nearest = zero;
    if (high && high->negative) nearest = *high;
    if (high && !high->negative && high->whole == "0" && high->fraction.empty())
      nearest.exclusive = high->exclusive;
    nearest.negative = false;
    std::optional<Decimal> farthest = low;
    if (farthest) farthest->negative = false;
    all.push_back(grammar.sequence({grammar.text("-"), make(nearest, farthest)}));
  }
  return grammar.choice(std::move(all));
}

} // namespace

Result<Part> json_integers(Grammar& grammar, const std::optional<NumberLimit>& low,
                           const std::optional<NumberLimit>& high) {
  std::optional<Decimal> least, most;
  if (low) {
    PUMICE_TRY(least, decimal(*low));
  }
  if (high) {
    PUMICE_TRY(most, decimal(*high));
  }
  Digits digits(grammar);
  return signed_numbers(grammar, least, most, [&](const Decimal& from, const std::optional<Decimal>& to) {
    const bool up = !from.fraction.empty() || from.exclusive;
    std::optional<std::string> last;
    if (to) {
      last = to->whole;
      if (to->fraction.empty() && to->exclusive) last = Digits::predecessor(to->whole);
      if (!last) return grammar.never();
    }
    return digits.whole(up ? Digits::successor(from.whole) : from.whole, last);
  });
}

Result<Part> json_numbers(Grammar& grammar, const std::optional<NumberLimit>& low,
                          const std::optional<NumberLimit>& high) {
  Digits digits(grammar);
  if (!low && !high) {
    const Part sign = grammar.optional(grammar.one_of({{'+', '+'}, {'-', '-'}}));
    const Part exponent = grammar.sequence(
        {grammar.one_of({{'E', 'E'}, {'e', 'e'}}), sign, digits.any(1, most_exponent_digits)});
    return grammar.sequence(
        {grammar.optional(grammar.text("-")), digits.whole("0", std::nullopt),
         grammar.optional(grammar.sequence({grammar.text("."), digits.any(1, most_fraction_digits)})),
         grammar.optional(exponent)});
  }
  std::optional<Decimal> least, most;
  if (low) {
    PUMICE_TRY(least, decimal(*low));
  }
  if (high) {
    PUMICE_TRY(most, decimal(*high));
  }
  return signed_numbers(grammar, least, most, [&](const Decimal& from, const std::optional<Decimal>& to) {
    return digits.decimals(from, to);
  });
}

} // namespace pumice::form
