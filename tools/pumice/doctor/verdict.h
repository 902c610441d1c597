#pragma once

#include <string>
#include <vector>

#include "output/json_output.h"

namespace pumice::command {

// What one look at the device has shown.
struct Verdict {
  enum class State {
    good,
    noticed, // worth knowing, but results are right
    skipped, // not looked at
    bad,
  };
  State state = State::good;
  std::string what;                     // "matmul tiled"
  std::string text;                     // a sentence without a full stop
  std::vector<std::string> advice = {}; // what to do, each a sentence with a full stop
  Json details = {};                    // for --json; null: none
};

const char* to_string(Verdict::State state);
// "ok     matmul tiled    ..." with a newline.
std::string line_of(const Verdict& verdict);
Json json_of(const Verdict& verdict);

} // namespace pumice::command
