#include <algorithm>

#include <fmt/format.h>

#include "form/json_values.h"

namespace pumice::form {

namespace {

// Most digits of a number, before and after the point, and of an exponent: all programs can read it.
constexpr uint32_t most_whole_digits = 18, most_fraction_digits = 18, most_exponent_digits = 2;
// Numbers that differ in so many digits are different doubles, as which readers compare them. A number beside
// an exclusive limit that has more may be read as the limit.
constexpr uint32_t double_digits = 15;

// A limit as it is written: 12.5 is {"12", "5"}. Fractions have no zeros at the end.
struct Decimal {
  bool negative = false;
  std::string whole, fraction;
  bool exclusive = false;
};

Error too_long(const NumberLimit& limit, uint32_t digits) {
  return Error{Code::unsupported,
               fmt::format("the limit {} is too large or too exact: at most {} digits are possible",
                           limit.value.dump(), digits)};
}

Result<Decimal> decimal(const NumberLimit& limit) {
  const bool is_float = limit.value.is_number_float();
  std::string text = is_float ? fmt::format("{}", limit.value.get<double>()) : limit.value.dump();
  Decimal result;
  result.exclusive = limit.exclusive;
  result.negative = text[0] == '-';
  if (result.negative) text.erase(0, 1);
  if (const size_t mark = text.find("e-"); mark != std::string::npos) { // 1.5e-05
    std::string digits = text.substr(0, mark);
    std::erase(digits, '.');
    text = "0." + std::string(std::stoul(text.substr(mark + 2)) - 1, '0') + digits;
  }
  if (text.find('e') != std::string::npos || text.size() > 20) return too_long(limit, most_whole_digits);
  const size_t point = std::min(text.find('.'), text.size());
  result.whole = text.substr(0, point);
  if (point < text.size()) result.fraction = text.substr(point + 1);
  while (result.fraction.ends_with('0')) result.fraction.pop_back();
  if (result.whole == "0" && result.fraction.empty()) result.negative = false;
  return result;
}

// How many digits numbers near a limit may have after the point.
uint32_t room_at(const Decimal& limit) {
  const bool is_zero = limit.whole == "0" && limit.fraction.empty();
  if (!limit.exclusive || is_zero) return most_fraction_digits;
  return double_digits - (limit.whole == "0" ? 0 : static_cast<uint32_t>(limit.whole.size()));
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
  Fraction any_fraction(uint32_t room) { return {true, room == 0 ? grammar_.never() : any(1, room)}; }

  // At least, or more than, what the digits say. `room`: for so many digits.
  Fraction from(std::string_view low, bool exclusive, uint32_t room) {
    if (low.empty()) {
      if (!exclusive) return any_fraction(room);
      Part some = grammar_.never(); // not all of them are zeros
      for (uint32_t after = 0; after < room; ++after) {
        const Part first = grammar_.sequence({range('1', '9'), any(0, after)});
        some = grammar_.choice({first, grammar_.sequence({range('0', '0'), some})});
      }
      return {false, some};
    }
    const Fraction rest = from(low.substr(1), exclusive, room - 1);
    return {false, grammar_.choice({first_of(low[0], rest), above(low[0], '9', room)})};
  }
  Fraction to(std::string_view high, bool exclusive, uint32_t room) {
    if (high.empty()) {
      const bool none = exclusive || room == 0;
      return {!exclusive, none ? grammar_.never() : grammar_.repeat(range('0', '0'), 1, room)};
    }
    const Fraction rest = to(high.substr(1), exclusive, room - 1);
    return {true, grammar_.choice({first_of(high[0], rest), above('0' - 1, high[0] - 1, room)})};
  }
  // Both have as many digits.
  Fraction between(std::string_view low, bool low_exclusive, std::string_view high, bool high_exclusive,
                   uint32_t room) {
    if (low.empty()) return to("", low_exclusive || high_exclusive, room);
    if (low[0] > high[0]) return {false, grammar_.never()};
    const bool zero = low.find_first_not_of('0') == std::string_view::npos && !low_exclusive;
    const bool none = zero && (high.find_first_not_of('0') != std::string_view::npos || !high_exclusive);
    if (low[0] == high[0])
      return {none, first_of(low[0], between(low.substr(1), low_exclusive, high.substr(1), high_exclusive,
                                             room - 1))};
    return {none, grammar_.choice(
                      {first_of(low[0], from(without_zeros(low.substr(1)), low_exclusive, room - 1)),
                       above(low[0], high[0] - 1, room),
                       first_of(high[0], to(without_zeros(high.substr(1)), high_exclusive, room - 1))})};
  }

  Part with_fraction(Part whole, Fraction fraction) {
    const Part some = grammar_.sequence({grammar_.text("."), fraction.some});
    return grammar_.sequence({whole, fraction.none ? grammar_.choice({grammar_.text(""), some}) : some});
  }

  Part decimals(const Decimal& low, const std::optional<Decimal>& high) {
    if (high && high->whole == low.whole) {
      std::string a = low.fraction, b = high->fraction;
      a.resize(std::max(a.size(), b.size()), '0');
      b.resize(a.size(), '0');
      const uint32_t room = std::min(room_at(low), room_at(*high));
      return with_fraction(text(low.whole), between(a, low.exclusive, b, high->exclusive, room));
    }
    if (high && is_less(high->whole, low.whole)) return grammar_.never();
    uint32_t room = room_at(low);
    std::vector<Part> all;
    std::optional<std::string> last; // whole part between those of the limits
    if (high) {
      all.push_back(with_fraction(text(high->whole), to(high->fraction, high->exclusive, room_at(*high))));
      last = predecessor(high->whole);
      if (high->fraction.empty() && *last == low.whole) room = std::min(room, room_at(*high));
      if (high->fraction.empty() && is_less(low.whole, *last)) {
        all.push_back(with_fraction(text(*last), any_fraction(room_at(*high))));
        last = predecessor(*last);
      }
    }
    all.push_back(with_fraction(text(low.whole), from(low.fraction, low.exclusive, room)));
    all.push_back(with_fraction(whole(successor(low.whole), last), any_fraction(most_fraction_digits)));
    return grammar_.choice(std::move(all));
  }

  // Whole numbers without zeros before them.
  static bool is_less(const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
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
  // A digit above one, up to another one, and any digits after it.
  Part above(int low, int high, uint32_t room) {
    return grammar_.sequence({range(static_cast<char>(low + 1), static_cast<char>(high)), any(0, room - 1)});
  }
  static std::string_view without_zeros(std::string_view digits) {
    while (digits.ends_with('0')) digits.remove_suffix(1);
    return digits;
  }
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

struct Limits {
  std::optional<Decimal> low, high;
};
Result<Limits> limits_of(const std::optional<NumberLimit>& low, const std::optional<NumberLimit>& high) {
  Limits limits;
  if (low) {
    PUMICE_TRY(limits.low, decimal(*low));
  }
  if (high) {
    PUMICE_TRY(limits.high, decimal(*high));
  }
  return limits;
}

} // namespace

Result<Part> json_integers(Grammar& grammar, const std::optional<NumberLimit>& low,
                           const std::optional<NumberLimit>& high) {
  PUMICE_TRY(const Limits limits, limits_of(low, high));
  Digits digits(grammar);
  return signed_numbers(grammar, limits.low, limits.high,
                        [&](const Decimal& from, const std::optional<Decimal>& to) {
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
  PUMICE_TRY(const Limits limits, limits_of(low, high));
  uint32_t room = most_fraction_digits;
  for (const auto& [given, limit] : {std::pair(&low, &limits.low), std::pair(&high, &limits.high)}) {
    if (!*limit) continue;
    if ((*limit)->whole.size() > double_digits) return too_long(**given, double_digits);
    room = std::min(room, room_at(**limit));
  }
  for (const auto& [given, limit] : {std::pair(&low, &limits.low), std::pair(&high, &limits.high)}) {
    if (*limit && (*limit)->fraction.size() > room) return too_long(**given, double_digits);
  }
  return signed_numbers(
      grammar, limits.low, limits.high,
      [&](const Decimal& from, const std::optional<Decimal>& to) { return digits.decimals(from, to); });
}

} // namespace pumice::form
