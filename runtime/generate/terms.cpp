#include "generate/terms.h"

#include <algorithm>

namespace pumice {

namespace {

bool begins_with(std::span<const uint32_t> text, std::span<const uint32_t> part) {
  return text.size() >= part.size() && std::ranges::equal(text.first(part.size()), part);
}

// The longest term that is missing and stands at the beginning of a text, or the number of terms.
size_t find_term(std::span<const Term> terms, const std::vector<bool>& found,
                 std::span<const uint32_t> text) {
  size_t best = terms.size();
  for (size_t i = 0; i < terms.size(); ++i) {
    const bool longer = best == terms.size() || terms[i].size() > terms[best].size();
    if (!found[i] && longer && begins_with(text, terms[i])) best = i;
  }
  return best;
}

// Which terms a text contains, and their tokens.
struct Found {
  std::vector<bool> terms;
  size_t tokens = 0;
};

Found find_terms(std::span<const Term> terms, std::span<const uint32_t> text) {
  Found found{std::vector<bool>(terms.size())};
  for (size_t at = 0; at < text.size();) {
    const size_t term = find_term(terms, found.terms, text.subspan(at));
    if (term == terms.size()) {
      ++at;
      continue;
    }
    found.terms[term] = true;
    found.tokens += terms[term].size();
    at += terms[term].size();
  }
  return found;
}

} // namespace

TermState term_state(std::span<const Term> terms, std::span<const uint32_t> text) {
  const Found whole = find_terms(terms, text);
  TermState state;
  state.tokens = whole.tokens;
  state.complete = std::ranges::find(whole.terms, false) == whole.terms.end();
  if (state.complete) return state;
  for (size_t i = 0; i < terms.size(); ++i) {
    const Term& term = terms[i];
    if (!whole.terms[i]) state.next.push_back(term.front());
    // The text may end within the term, whatever shorter one that end contains.
    for (size_t tokens = 1; tokens < std::min(term.size(), text.size() + 1); ++tokens) {
      if (!begins_with(term, text.last(tokens))) continue;
      const Found before = find_terms(terms, text.first(text.size() - tokens));
      if (before.terms[i]) continue;
      state.tokens = std::max(state.tokens, before.tokens + tokens);
      state.next.push_back(term[tokens]);
    }
  }
  std::ranges::sort(state.next);
  state.next.erase(std::unique(state.next.begin(), state.next.end()), state.next.end());
  return state;
}

} // namespace pumice
