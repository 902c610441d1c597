#include "generate/beam_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

using namespace pumice;

namespace {

// A language that is made from a seed: the log-probabilities of each token after a text.
std::vector<float> language(uint32_t seed, uint32_t vocabulary, std::span<const uint32_t> text) {
  uint64_t state = seed * 0x9e3779b97f4a7c15ull + 1;
  for (uint32_t token : text) state = (state ^ (token + 1)) * 0xbf58476d1ce4e5b9ull;
  std::vector<float> logits(vocabulary);
  double sum = 0;
  for (float& logit : logits) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    logit = static_cast<float>(state >> 40) / (1 << 24) * 4;
    sum += std::exp(double{logit});
  }
  for (float& logit : logits) logit -= static_cast<float>(std::log(sum));
  return logits;
}

// `skipped` tokens at the start of each text are ignored by the language.
std::vector<Continuation> best_continuations(const BeamSearch& search, uint32_t seed, uint32_t vocabulary,
                                             size_t skipped = 0) {
  std::vector<Continuation> all;
  for (uint32_t beam = 0; beam < search.beams().size(); ++beam) {
    const std::vector<float> scores =
        language(seed, vocabulary, std::span(search.beams()[beam].tokens).subspan(skipped));
    for (uint32_t token = 0; token < vocabulary; ++token) {
      all.push_back({beam, token, search.beams()[beam].score + scores[token]});
    }
  }
  std::ranges::stable_sort(all, [](const auto& a, const auto& b) { return a.score > b.score; });
  all.resize(std::min(all.size(), search.wanted()));
  return all;
}

std::vector<Hypothesis> run(const GenerationConfig& config, uint32_t seed, uint32_t vocabulary,
                            size_t count) {
  BeamSearch search(config);
  uint32_t steps = 0;
  while (!search.done() && ++steps < 1000) {
    const std::vector<BeamSearch::Beam> before(search.beams().begin(), search.beams().end());
    const std::vector<uint32_t> parents = search.advance(best_continuations(search, seed, vocabulary));
    for (size_t i = 0; i < parents.size(); ++i) {
      const std::vector<uint32_t>& tokens = search.beams()[i].tokens;
      CHECK(std::equal(tokens.begin(), tokens.end() - 1, before[parents[i]].tokens.begin()));
    }
  }
  return search.results(count);
}

// All texts that end within max_tokens, with their scores.
void enumerate(const GenerationConfig& config, uint32_t seed, uint32_t vocabulary,
               std::vector<uint32_t>& text, float score, std::vector<Hypothesis>& all) {
  const std::vector<float> scores = language(seed, vocabulary, text);
  for (uint32_t token = 0; token < vocabulary; ++token) {
    text.push_back(token);
    const bool ends = std::ranges::find(config.ends, token) != config.ends.end();
    const float total = score + scores[token];
    if (ends || text.size() == config.max_tokens) {
      const float length = static_cast<float>(text.size());
      all.push_back({text, total / std::pow(length, config.length_penalty), true});
    } else {
      enumerate(config, seed, vocabulary, text, total, all);
    }
    text.pop_back();
  }
}

// The search as implemented in transformers, with masks over arrays of a fixed size instead of lists.
struct Masked {
  struct Entry {
    std::vector<uint32_t> tokens;
    float score = -1e9f;
    bool finished = false;
  };
  std::vector<Entry> running, done;

  Masked(const GenerationConfig& config, uint32_t seed, uint32_t vocabulary)
      : running(config.beams), done(config.beams) {
    running[0].score = 0;
    bool improvable = true;
    for (uint32_t length = 1;; ++length) {
      std::vector<Entry> top;
      for (const Entry& beam : running) {
        const std::vector<float> scores = language(seed, vocabulary, beam.tokens);
        for (uint32_t token = 0; token < vocabulary; ++token) {
          top.push_back({beam.tokens, beam.score + scores[token], false});
          top.back().tokens.push_back(token);
        }
      }
      const auto better = [](const Entry& a, const Entry& b) { return a.score > b.score; };
      std::ranges::stable_sort(top, better);
      top.resize(std::min(top.size(), std::max<size_t>(2, 1 + config.ends.size()) * config.beams));
      std::vector<Entry> next = top, ended = done;
      const bool full = config.early_stopping == EarlyStopping::yes &&
                        std::ranges::all_of(done, [](const Entry& each) { return each.finished; });
      bool all_hit = true;
      for (size_t i = 0; i < top.size(); ++i) {
        const bool hit = length == config.max_tokens ||
                         std::ranges::find(config.ends, top[i].tokens.back()) != config.ends.end();
        all_hit = all_hit && hit;
        if (hit) next[i].score -= 1e9f;
        Entry entry = top[i];
        entry.score /= std::pow(static_cast<float>(length), config.length_penalty);
        entry.finished = hit && i < config.beams;
        if (full || !improvable || !entry.finished) entry.score -= 1e9f;
        ended.push_back(entry);
      }
      std::ranges::stable_sort(next, better);
      next.resize(config.beams);
      std::ranges::stable_sort(ended, better);
      ended.resize(config.beams);
      running = next;
      done = ended;
      const bool never = config.early_stopping == EarlyStopping::never && config.length_penalty > 0;
      const float possible =
          running[0].score /
          std::pow(static_cast<float>(never ? config.max_tokens : length), config.length_penalty);
      bool better_possible = false, all_done = true;
      for (const Entry& each : done) {
        better_possible = better_possible || possible > (each.finished ? done.back().score : -1e9f);
        all_done = all_done && each.finished;
      }
      improvable = improvable && better_possible;
      const bool open = !(all_done && config.early_stopping == EarlyStopping::yes);
      if (!improvable || !open || all_hit) break;
    }
  }
};

} // namespace

TEST_CASE("beam search: with enough beams, it finds the best text") {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    GenerationConfig config;
    config.ends = {0};
    config.max_tokens = 4;
    config.beams = 4 * 4 * 4 * 4;
    config.early_stopping = EarlyStopping::never;
    config.length_penalty = seed % 3 * 0.7f;
    std::vector<Hypothesis> all;
    std::vector<uint32_t> text;
    enumerate(config, seed, 4, text, 0, all);
    std::ranges::stable_sort(all, [](const auto& a, const auto& b) { return a.score > b.score; });
    const std::vector<Hypothesis> found = run(config, seed, 4, 5);
    REQUIRE(found.size() == 5);
    for (size_t i = 0; i < found.size(); ++i) {
      CHECK(found[i].tokens == all[i].tokens);
      CHECK(found[i].score == doctest::Approx(all[i].score));
      CHECK(found[i].finished);
    }
  }
}

TEST_CASE("beam search: equal to an implementation with masks over fixed arrays, for any settings") {
  uint32_t compared = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    GenerationConfig config;
    config.beams = 1 + seed % 5;
    config.max_tokens = 1 + seed % 13;
    for (uint32_t i = 0; i < seed % 3; ++i) config.ends.push_back(i * 2);
    config.length_penalty = static_cast<float>(seed % 4) * 0.6f;
    config.early_stopping = static_cast<EarlyStopping>(seed / 4 % 3);
    const uint32_t vocabulary = 5 + seed % 7;
    CAPTURE(seed);
    const Masked reference(config, seed, vocabulary);
    const std::vector<Hypothesis> found = run(config, seed, vocabulary, config.beams);
    size_t expected = 0;
    for (const Masked::Entry& each : reference.done) expected += each.finished;
    if (expected == 0) continue;
    REQUIRE(found.size() == expected);
    for (size_t i = 0; i < found.size(); ++i) {
      CHECK(found[i].tokens == reference.done[i].tokens);
      CHECK(found[i].score == doctest::Approx(reference.done[i].score).epsilon(1e-4));
    }
    ++compared;
  }
  CHECK(compared > 350);
}

TEST_CASE("beam search: tokens that a rule forces do not count in a text's length") {
  for (uint32_t seed = 0; seed < 30; ++seed) {
    GenerationConfig config;
    config.beams = 3;
    config.ends = {0};
    config.max_tokens = 7;
    config.length_penalty = 1.3f;
    config.early_stopping = static_cast<EarlyStopping>(seed % 3);
    const std::vector<Hypothesis> expected = run(config, seed, 6, 3);
    config.forced_tokens = 2;
    config.max_tokens += 2;
    BeamSearch search(config);
    for (uint32_t i = 0; i < 2; ++i) search.advance(std::vector<Continuation>{{0, 5, 0}});
    while (!search.done()) search.advance(best_continuations(search, seed, 6, 2));
    const std::vector<Hypothesis> found = search.results(3);
    REQUIRE(found.size() == expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      CHECK(found[i].score == doctest::Approx(expected[i].score));
      CHECK(std::ranges::equal(std::span(found[i].tokens).subspan(2), expected[i].tokens));
    }
  }
}

namespace {

// What a search with terms must be given.
std::vector<Continuation> continuations_with_terms(const BeamSearch& search, const GenerationConfig& config,
                                                   uint32_t seed, uint32_t vocabulary) {
  std::vector<Continuation> all;
  for (uint32_t beam = 0; beam < search.beams().size(); ++beam) {
    const std::vector<uint32_t>& text = search.beams()[beam].tokens;
    const std::vector<float> scores = language(seed, vocabulary, text);
    const bool complete = term_state(search.terms(), text).complete;
    for (uint32_t token = 0; token < vocabulary; ++token) {
      if (!complete && std::ranges::count(config.ends, token)) continue;
      all.push_back({beam, token, search.beams()[beam].score + scores[token]});
    }
  }
  std::ranges::stable_sort(all, [](const auto& a, const auto& b) { return a.score > b.score; });
  return all;
}

std::vector<Hypothesis> run_with_terms(const GenerationConfig& config, const std::vector<Term>& terms,
                                       uint32_t seed, uint32_t vocabulary, size_t count) {
  BeamSearch search(config, terms);
  while (!search.done()) search.advance(continuations_with_terms(search, config, seed, vocabulary));
  return search.results(count);
}

} // namespace

TEST_CASE("beam search: with enough beams, it finds the best text that contains the terms") {
  const std::vector<std::vector<Term>> lists = {{{2}}, {{3, 3}}, {{1, 2}, {3}}, {{2, 1}, {1, 3}}, {{2}, {2}}};
  for (uint32_t seed = 0; seed < 20; ++seed) {
    GenerationConfig config;
    config.ends = {0};
    config.max_tokens = 5;
    config.beams = 4 * 4 * 4 * 4 * 4;
    config.early_stopping = EarlyStopping::never;
    config.length_penalty = seed % 3 * 0.7f;
    const std::vector<Term>& terms = lists[seed % lists.size()];
    std::vector<Hypothesis> all;
    std::vector<uint32_t> text;
    enumerate(config, seed, 4, text, 0, all);
    std::erase_if(all, [&](const Hypothesis& each) { return !term_state(terms, each.tokens).complete; });
    std::ranges::stable_sort(all, [](const auto& a, const auto& b) { return a.score > b.score; });
    const std::vector<Hypothesis> found = run_with_terms(config, terms, seed, 4, 3);
    CAPTURE(seed);
    REQUIRE(found.size() == 3);
    for (size_t i = 0; i < found.size(); ++i) {
      CHECK(found[i].tokens == all[i].tokens);
      CHECK(found[i].score == doctest::Approx(all[i].score));
    }
  }
}

TEST_CASE("beam search: two beams are enough to have all terms, if there is room for them") {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    GenerationConfig config;
    config.beams = 2 + seed % 7;
    config.ends = {0};
    config.early_stopping = static_cast<EarlyStopping>(seed % 3);
    std::vector<Term> terms(1 + seed % 4);
    size_t tokens = 0;
    for (size_t i = 0; i < terms.size(); ++i) {
      for (size_t n = 0; n < 1 + (seed + i) % 3; ++n)
        terms[i].push_back(static_cast<uint32_t>(1 + (seed + 3 * i + n) % 11));
      tokens += terms[i].size();
    }
    config.max_tokens = static_cast<uint32_t>(tokens + seed % 9);
    CAPTURE(seed);
    const std::vector<Hypothesis> found = run_with_terms(config, terms, seed, 12, config.beams);
    REQUIRE(!found.empty());
    for (const Hypothesis& each : found) CHECK(term_state(terms, each.tokens).complete);
    config.max_tokens = static_cast<uint32_t>(tokens - 1);
    if (tokens == 1) continue;
    const std::vector<Hypothesis> cut = run_with_terms(config, terms, seed, 12, config.beams);
    REQUIRE(!cut.empty());
    CHECK(!term_state(terms, cut[0].tokens).complete);
    CHECK(term_state(terms, cut[0].tokens).tokens == tokens - 1);
  }
}

TEST_CASE("terms: what a text contains of them, and which tokens bring it further") {
  using Tokens = std::vector<uint32_t>;
  const std::vector<Term> terms = {{5, 6, 5, 7}, {6}, {8, 9}};
  CHECK(term_state({}, Tokens{1, 2}).complete);
  CHECK(term_state(terms, {}).next == Tokens{5, 6, 8});
  CHECK(term_state(terms, Tokens{5}).tokens == 1);
  CHECK(term_state(terms, Tokens{5}).next == Tokens{5, 6, 8});
  CHECK(term_state(terms, Tokens{1, 8}).next == Tokens{5, 6, 8, 9});
  CHECK(term_state(terms, Tokens{8, 9}).next == Tokens{5, 6});
  // The longest one counts, and within it no other.
  CHECK(term_state(terms, Tokens{5, 6, 5, 7}).tokens == 4);
  CHECK(term_state(terms, Tokens{5, 6, 5, 7}).next == Tokens{6, 8});
  // One that is begun and not continued is open again, also in the midst of itself.
  const std::vector<Term> again = {{5, 6, 5, 6, 7}};
  CHECK(term_state(again, Tokens{5, 6, 5, 6}).next == Tokens{5, 7});
  CHECK(term_state(again, Tokens{5, 6, 5, 6, 5}).next == Tokens{5, 6});
  CHECK(term_state(again, Tokens{5, 6, 5, 6, 5, 6}).tokens == 4);
  CHECK(term_state(again, Tokens{5, 6, 5, 6, 5, 6, 7}).complete);
  CHECK(!term_state(again, Tokens{5, 6, 5, 6, 8, 7}).complete);
  // A term that stands there twice must come twice.
  const std::vector<Term> twice = {{5}, {5}};
  CHECK(!term_state(twice, Tokens{5}).complete);
  CHECK(term_state(twice, Tokens{5, 1, 5}).complete);
}

TEST_CASE("beam search: ends if no continuation is possible") {
  GenerationConfig config;
  config.beams = 3;
  config.max_tokens = 5;
  BeamSearch search(config);
  CHECK(search.advance({}).empty());
  CHECK(search.done());
  REQUIRE(search.results(3).size() == 1);
  CHECK(search.results(3)[0].tokens.empty());
  CHECK_FALSE(search.results(3)[0].finished);
}
