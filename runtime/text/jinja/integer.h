#pragma once

#include <cmath>
#include <compare>
#include <concepts>
#include <cstdint>

namespace pumice::text::jinja {

// An integer of 128 bits, so that every 64-bit number of JSON fits, signed or not. Not every compiler has one
// of its own. Wraps around at its ends: numbers.h has operations that fail there.
class Integer {
public:
  constexpr Integer() = default;
  template <std::integral T>
  constexpr Integer(T value)
      : low_(static_cast<uint64_t>(value)),
        high_(std::signed_integral<T> && static_cast<int64_t>(value) < 0 ? ~uint64_t{0} : uint64_t{0}) {}
  // Of a whole number below 2^127.
  template <std::floating_point T>
  explicit Integer(T value) {
    const double size = std::fabs(value), high = std::floor(std::ldexp(size, -64));
    const Integer whole(static_cast<uint64_t>(high), static_cast<uint64_t>(size - std::ldexp(high, 64)));
    *this = value < 0 ? -whole : whole;
  }

  template <std::integral T>
  constexpr explicit operator T() const {
    return static_cast<T>(low_);
  }
  // The nearest one.
  explicit operator double() const {
    const Integer size = magnitude();
    uint64_t top = size.high_, rest = size.low_;
    int shift = 64;
    if (top == 0) {
      top = rest;
      rest = 0;
      shift = 0;
    }
    for (; shift > 0 && !(top >> 63); --shift) {
      top = top << 1 | rest >> 63;
      rest <<= 1;
    }
    // A double has 53 bits of these 64: the last one may stand for all that are behind it.
    const double value = std::ldexp(static_cast<double>(top | (rest != 0 ? 1 : 0)), shift);
    return is_negative() ? -value : value;
  }

  friend constexpr bool operator==(const Integer&, const Integer&) = default;
  friend constexpr std::strong_ordering operator<=>(const Integer& left, const Integer& right) {
    if (left.high_ != right.high_)
      return static_cast<int64_t>(left.high_) <=> static_cast<int64_t>(right.high_);
    return left.low_ <=> right.low_;
  }

  friend constexpr Integer operator+(Integer left, Integer right) {
    const uint64_t low = left.low_ + right.low_;
    return {left.high_ + right.high_ + (low < left.low_ ? 1 : 0), low};
  }
  friend constexpr Integer operator-(Integer left, Integer right) {
    return {left.high_ - right.high_ - (left.low_ < right.low_ ? 1 : 0), left.low_ - right.low_};
  }
  constexpr Integer operator-() const { return Integer(0) - *this; }
  friend constexpr Integer operator&(Integer left, Integer right) {
    return {left.high_ & right.high_, left.low_ & right.low_};
  }
  friend constexpr Integer operator<<(Integer value, int bits) {
    if (bits >= 64) return {value.low_ << (bits - 64), 0};
    if (bits == 0) return value;
    return {value.high_ << bits | value.low_ >> (64 - bits), value.low_ << bits};
  }
  friend constexpr Integer operator*(Integer left, Integer right) {
    const uint64_t half = 0xffffffff;
    const uint64_t a = left.low_ >> 32, b = left.low_ & half, c = right.low_ >> 32, d = right.low_ & half;
    const uint64_t middle = a * d + (b * d >> 32), other = b * c + (middle & half);
    const uint64_t high = a * c + (middle >> 32) + (other >> 32);
    return {high + left.high_ * right.low_ + left.low_ * right.high_, left.low_ * right.low_};
  }
  // Towards zero, as C++ divides; not by 0.
  friend constexpr Integer operator/(Integer left, Integer right) {
    Integer rest;
    const Integer quotient = divide(left.magnitude(), right.magnitude(), rest);
    return left.is_negative() == right.is_negative() ? quotient : -quotient;
  }
  friend constexpr Integer operator%(Integer left, Integer right) {
    Integer rest;
    divide(left.magnitude(), right.magnitude(), rest);
    return left.is_negative() ? -rest : rest;
  }
  constexpr Integer& operator+=(Integer other) { return *this = *this + other; }
  constexpr Integer& operator++() { return *this += 1; }
  constexpr Integer& operator--() { return *this = *this - 1; }

private:
  constexpr Integer(uint64_t high, uint64_t low) : low_(low), high_(high) {}
  constexpr bool is_negative() const { return high_ >> 63; }
  constexpr Integer magnitude() const { return is_negative() ? -*this : *this; } // without a sign
  static constexpr bool not_below(const Integer& left, const Integer& right) {   // both without a sign
    return left.high_ != right.high_ ? left.high_ > right.high_ : left.low_ >= right.low_;
  }
  // Of numbers without a sign.
  static constexpr Integer divide(const Integer& left, const Integer& right, Integer& rest) {
    if (left.high_ == 0 && right.high_ == 0) {
      rest = {0, left.low_ % right.low_};
      return {0, left.low_ / right.low_};
    }
    Integer quotient;
    for (int bit = 127; bit >= 0; --bit) {
      const uint64_t word = bit >= 64 ? left.high_ : left.low_;
      // A rest of 128 bits loses its highest one here. It was then larger than what divides, which is taken
      // away from it all the same.
      const bool lost = rest.is_negative();
      rest = (rest << 1) + Integer(word >> (bit & 63) & 1);
      quotient = quotient << 1;
      if (lost || not_below(rest, right)) {
        rest = rest - right;
        quotient += 1;
      }
    }
    return quotient;
  }

  uint64_t low_ = 0, high_ = 0; // two's complement
};

constexpr Integer largest_integer = ((Integer(1) << 126) - 1) * 2 + 1;
constexpr Integer smallest_integer = -largest_integer - 1;

} // namespace pumice::text::jinja
