// How probable continuations are, beside plain passes over each text as a whole.
#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>

#include "step/continuation_scorer.h"
#include "support/files/fixtures.h"
#include "support/model.h"
#include "support/session.h"

using namespace pumice;

namespace {

using Continuations = std::vector<std::vector<uint32_t>>;

std::vector<uint32_t> some_tokens(uint32_t count, uint32_t seed) {
  std::vector<uint32_t> tokens;
  for (uint32_t i = 0; i < count; ++i) tokens.push_back(3 + (i * i * 7 + i * seed + seed) % 200);
  return tokens;
}

Continuations some_continuations() {
  return {some_tokens(3, 1), some_tokens(1, 2), some_tokens(9, 3), some_tokens(5, 4), some_tokens(2, 5)};
}

ContinuationScores expected(const std::shared_ptr<const Model>& model, const std::vector<uint32_t>& prefix,
                            const Continuations& continuations) {
  const uint32_t vocabulary = model->shape().vocabulary;
  ContinuationScores scores;
  for (const std::vector<uint32_t>& continuation : continuations) {
    std::vector<uint32_t> text = prefix;
    text.insert(text.end(), continuation.begin(), continuation.end());
    const std::vector<float> logits = forward(model, text, 64);
    std::vector<float>& each = scores.emplace_back();
    for (size_t at = prefix.size(); at < text.size(); ++at) {
      const float* row = logits.data() + (at - 1) * vocabulary;
      double total = 0;
      for (uint32_t id = 0; id < vocabulary; ++id) total += std::exp(double{row[id]});
      each.push_back(static_cast<float>(row[text[at]] - std::log(total)));
    }
  }
  return scores;
}

void check_near(const ContinuationScores& found, const ContinuationScores& wanted, double tolerance) {
  REQUIRE(found.size() == wanted.size());
  for (size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    REQUIRE(found[i].size() == wanted[i].size());
    for (size_t at = 0; at < found[i].size(); ++at) {
      CAPTURE(at);
      CHECK(std::abs(found[i][at] - wanted[i][at]) < tolerance);
    }
  }
}

} // namespace

FIXTURE_TEST_CASE("continuations are scored as whole texts are, however many run together") {
  // Full caches, windows, and states that do not go back everywhere.
  for (const char* name : {"llama-mha", "gemma3", "lfm2", "mamba2", "qwen3-5"}) {
    CAPTURE(name);
    const auto model = load_model(fixtures().model(name));
    const std::vector<uint32_t> prefix = some_tokens(37, 11);
    const Continuations continuations = some_continuations();
    const ContinuationScores wanted = expected(model, prefix, continuations);
    const std::vector<uint32_t> first = {prefix[0]};
    for (const uint32_t sequences : {1u, 2u, 5u}) {
      CAPTURE(sequences);
      SessionSize size;
      size.context = 64;
      size.chunk = 16;
      size.sequences = sequences;
      size.cache = CacheType::f32;
      auto scorer = ContinuationScorer::create(model, size);
      REQUIRE(scorer.ok());
      for (int time = 0; time < 2; ++time) { // the second one reuses what is there
        const auto scores = (*scorer)->score(prefix, continuations);
        if (!scores.ok()) FAIL(scores.error().text());
        check_near(*scores, wanted, 1e-3);
      }
      const auto short_prefix = (*scorer)->score(first, continuations);
      REQUIRE(short_prefix.ok());
      check_near(*short_prefix, expected(model, first, continuations), 1e-3);
    }
  }
}

TEST_CASE("a session tells how probable continuations are, and goes on as if nothing was asked") {
  const auto model = load_model(stories_model());
  SessionOptions options;
  options.size.context = 64;
  options.size.cache = CacheType::f32;
  const std::vector<uint32_t> prompt = some_tokens(20, 7);
  const Continuations continuations = some_continuations();
  SamplingParams sampling;
  sampling.temperature = 1;
  sampling.seed = 3;
  auto asked = Session::create(model, options), left = Session::create(model, options);
  REQUIRE(asked.ok());
  REQUIRE(left.ok());
  REQUIRE(!(*asked)->score(continuations, 4).ok()); // after nothing
  REQUIRE((*asked)->set_prompt(prompt, sampling).ok());
  REQUIRE((*left)->set_prompt(prompt, sampling).ok());
  std::vector<uint32_t> text = prompt;
  for (int part = 0; part < 3; ++part) {
    const std::vector<uint32_t> more = take(**asked, 4);
    CHECK(more == take(**left, 4));
    text.insert(text.end(), more.begin(), more.end());
    const auto scores = (*asked)->score(continuations, part == 1 ? 1 : 4);
    if (!scores.ok()) FAIL(scores.error().text());
    CHECK(std::ranges::equal((*asked)->tokens(), text));
    check_near(*scores, expected(model, text, continuations), 1e-3);
  }
  REQUIRE((*asked)->suspend().ok());
  CHECK(!(*asked)->score(continuations, 4).ok());
  REQUIRE((*asked)->resume(model).ok());
  CHECK((*asked)->score(continuations, 4).ok());
  const Continuations too_long = {some_tokens(40, 1)};
  const auto refused = (*asked)->score(too_long, 4);
  REQUIRE(!refused.ok());
  CHECK(refused.error().code == Code::context_full);
  CHECK(!(*asked)->score(Continuations{{}}, 4).ok());
  CHECK(!(*asked)->score(Continuations{{99999}}, 4).ok());
  CHECK(take(**asked, 4) == take(**left, 4));
}
