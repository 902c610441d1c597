#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace pumice {

// The tokens of a word or phrase that a text must contain. Not empty.
using Term = std::vector<uint32_t>;

// How much of its terms a text contains.
struct TermState {
  size_t tokens = 0;          // of the terms that it contains, and of the one that it ends within
  bool complete = true;       // it contains all of them
  std::vector<uint32_t> next; // tokens that begin or continue a term that it lacks
};

// Terms may come in any order, but not in one another: from left to right, the longest one that is still
// missing counts at each place. A term that stands in the list twice must come twice.
TermState term_state(std::span<const Term> terms, std::span<const uint32_t> text);

} // namespace pumice
