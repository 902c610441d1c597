// Guesses at tokens, and how many of them are worth it.
#include <doctest/doctest.h>

#include <random>

#include "step/drafts/draft_costs.h"
#include "step/drafts/text_drafter.h"

using namespace pumice;

using Tokens = std::vector<uint32_t>;

TEST_CASE("a draft goes on as the text did after the longest earlier occurrence of its end") {
  TextDrafter drafter;
  drafter.follow(Tokens{1, 2, 3, 4, 9, 2, 3, 5, 1, 2, 3});
  CHECK(drafter.draft(2) == Tokens{4, 9}); // after 1 2 3, and not after 2 3, which came later
  CHECK(drafter.draft(100).size() == 100); // repeats what follows
  CHECK(drafter.chance() > 0);
  drafter.follow(Tokens{1, 2, 3, 4, 9, 2, 3, 5, 1, 2, 3, 7});
  CHECK(drafter.draft(5).empty());
  CHECK(drafter.chance() == 0);
  drafter.follow(Tokens{1, 2, 3, 4, 9, 2, 3, 5, 1, 2, 3, 7, 2, 3});
  CHECK(drafter.draft(3) == Tokens{7, 2, 3}); // of two that are as long, the later one
}

TEST_CASE("a draft repeats a text that repeats itself") {
  TextDrafter drafter;
  drafter.follow(Tokens{8, 6, 7, 5, 6, 7, 5, 6, 7});
  CHECK(drafter.draft(7) == Tokens{5, 6, 7, 5, 6, 7, 5});
  drafter.follow(Tokens{8, 6, 7, 5, 6, 7, 5, 6, 7, 7, 7, 7, 7});
  CHECK(drafter.draft(4) == Tokens{7, 7, 7, 7});
}

TEST_CASE("short texts have no drafts, and another text begins with none") {
  TextDrafter drafter;
  for (size_t length = 0; length < 3; ++length) {
    drafter.follow(Tokens(length, 1));
    CHECK(drafter.draft(4).empty());
  }
  drafter.follow(Tokens(20, 1));
  CHECK(!drafter.draft(4).empty());
  drafter.follow(Tokens{2, 3, 4});
  CHECK(drafter.draft(4).empty());
  drafter.follow(Tokens{});
  CHECK(drafter.draft(4).empty());
}

TEST_CASE("tokens that are not drawn say nothing of guesses") {
  TextDrafter drawn, forced;
  Tokens text;
  for (uint32_t i = 0; i < 60; ++i) {
    text.push_back(i % 5);
    drawn.follow(text);
    forced.follow(text, i > 9);
  }
  CHECK(forced.draft(4) == drawn.draft(4));
  CHECK(forced.chance() < drawn.chance());
}

TEST_CASE("how often drafts hold is learned from what came, before any was used") {
  Tokens repeated, random;
  std::mt19937 numbers(5);
  for (uint32_t i = 0; i < 400; ++i) {
    repeated.push_back(i % 7);
    random.push_back(numbers() % 4); // ends occur earlier, and say nothing
  }
  TextDrafter sure, unsure;
  for (size_t length = 1; length <= repeated.size(); ++length) {
    sure.follow(std::span(repeated).first(length));
    unsure.follow(std::span(random).first(length));
  }
  CHECK(sure.chance() > 0.95);
  CHECK(unsure.chance() < 0.5);
}

TEST_CASE("so many tokens are guessed at as give the most of them a second") {
  DraftCosts costs;
  for (const uint32_t rows : {1u, 2u, 4u, 8u, 16u}) costs.guess(rows, 0.010 + 0.001 * rows);
  const auto count = [&](double chance, uint32_t most) { return costs.count(std::array{chance}, most); };
  CHECK(count(0, 15) == 0);
  CHECK(count(0.02, 15) == 0); // gains less than it costs
  CHECK(count(0.6, 15) >= 1);
  CHECK(count(0.6, 15) <= 7);
  CHECK(count(1, 15) == 15);
  CHECK(count(1, 5) == 5);
  CHECK(count(1, 0) == 0);
  // Where a row costs as much as a step, nothing is gained.
  DraftCosts dear;
  for (const uint32_t rows : {1u, 2u, 4u, 8u}) dear.guess(rows, 0.010 * rows);
  CHECK(dear.count(std::array{0.9}, 7) == 0);
  // What was measured counts more than guesses: the first step of a size compiles its kernels.
  for (int i = 0; i < 20; ++i) dear.took_repeated(0.010);
  for (int i = 0; i < 20; ++i) dear.took(8, i == 0 ? 5 : 0.011);
  CHECK(dear.count(std::array{0.9}, 7) == 7);
  for (int i = 0; i < 500; ++i) {
    for (const uint32_t rows : {2u, 4u, 8u}) dear.took(rows, 0.2);
  }
  CHECK(dear.count(std::array{0.9}, 7) == 0);
  // Of several texts, those without a guess have one row.
  CHECK(costs.count(std::array{1.0, 0.0, 0.0}, 7) > 0);
}
