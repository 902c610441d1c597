#pragma once

#include <string>
#include <string_view>

namespace pumice {

// A part of a text that a model points at.
struct TextSpan {
  size_t begin = 0, end = 0; // bytes
  float score = 0;           // a probability
  std::string label = {};    // what it is, where the model says it

  std::string_view of(std::string_view text) const { return text.substr(begin, end - begin); }
};

} // namespace pumice
