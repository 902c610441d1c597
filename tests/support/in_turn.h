#pragma once

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <tuple>
#include <vector>

// Which cases a test takes. A kernel is compiled for each type, size and option, which takes a driver without
// GPU up to seconds. So a short run takes what a kernel is compiled for in turn, and sizes that a kernel is
// given as it runs all with each other; a long one tries each with each.

// Whether this is a long run: tests/CMakeLists.txt sets it for the tests FILE.long.
inline bool every_case() {
  static const bool set = std::getenv("PUMICE_TEST_EVERY_CASE") != nullptr;
  return set;
}

// Values of each list together: in a long run each with each, else as many as the longest list has. Another
// list is gone through again and again, each time from another of its values on, so that they meet in many
// pairs.
template <class... Lists>
auto in_turn(const Lists&... lists) {
  std::vector<std::tuple<std::decay_t<decltype(*std::begin(lists))>...>> cases;
  const size_t count = every_case() ? (std::size(lists) * ...) : std::max({std::size(lists)...});
  for (size_t i = 0; i < count; ++i) {
    size_t rest = i, list_index = 0;
    const auto take = [&](const auto& list) {
      const size_t size = std::size(list), round = i / size * list_index++;
      const size_t at = every_case() ? rest % size : (i + round) % size;
      rest /= size;
      return *(std::begin(list) + static_cast<std::ptrdiff_t>(at));
    };
    cases.push_back({take(lists)...}); // braces: from left to right
  }
  return cases;
}

// Whether a case is taken: in a long run always, in a short one if its turn has come.
inline bool takes(bool turn) {
  return turn || every_case();
}

// Where lists begin that are gone through by twos: a run on a second driver takes what the first has left.
inline size_t first_turn() {
  static const size_t set = std::getenv("PUMICE_TEST_OTHER_TURNS") ? 1 : 0;
  return set;
}

// All of a list in a long run; in a short one that whose turn it is.
template <class List>
auto turn_of(const List& list, size_t turn) {
  std::vector<std::decay_t<decltype(*std::begin(list))>> some(std::begin(list), std::end(list));
  if (!every_case()) some = {some[turn % some.size()]};
  return some;
}

// All of a list in a long run; in a short one each `step`-th, the first among them if `turn` is 0.
template <class List>
auto turns_of(const List& list, size_t step, size_t turn = 0) {
  std::vector<std::decay_t<decltype(*std::begin(list))>> some;
  size_t i = turn;
  for (const auto& each : list) {
    if (i++ % step == 0 || every_case()) some.push_back(each);
  }
  return some;
}
