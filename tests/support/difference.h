#pragma once

#include <cmath>

#include <doctest/doctest.h>

namespace pumice {

// Of numbers and as many others; not a number where one of them is none.
template <class Numbers, class Others>
double largest_difference(const Numbers& numbers, const Others& others) {
  REQUIRE(numbers.size() == others.size());
  double largest = 0;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const double difference = std::abs(double{numbers[i]} - double{others[i]});
    if (std::isnan(difference)) return difference;
    if (difference > largest) largest = difference;
  }
  return largest;
}

} // namespace pumice
