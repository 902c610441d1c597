// A pool's pages over many random joins and leaves, against a plain list of who has which.
#include "step/cache/page_pool.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>

using namespace pumice;

TEST_CASE("pages of a pool over 10,000 random joins and leaves") {
  constexpr uint32_t count = 60;
  PagePool pool(count);
  std::mt19937 random(7);
  std::vector<std::vector<uint32_t>> texts;
  const auto check = [&] {
    std::map<uint32_t, uint32_t> holders;
    for (const auto& text : texts) {
      for (const uint32_t page : text) ++holders[page];
    }
    REQUIRE(pool.free() == count - holders.size());
    for (const auto& [page, number] : holders) {
      REQUIRE(page < count);
      REQUIRE(pool.shared(page) == (number > 1));
    }
  };
  for (uint32_t i = 0; i < 10000; ++i) {
    const uint32_t wanted = 1 + random() % 12;
    std::vector<uint32_t> text;
    if (!texts.empty() && random() % 2) { // begins as another one
      text = texts[random() % texts.size()];
      text.resize(std::min<size_t>(text.size(), random() % wanted));
    }
    if (wanted - text.size() > pool.free()) { // any pages will do: nothing but their number counts
      REQUIRE(!texts.empty());
      const size_t leaves = random() % texts.size();
      pool.drop(texts[leaves]);
      texts.erase(texts.begin() + static_cast<ptrdiff_t>(leaves));
    } else {
      pool.hold(text);
      while (text.size() < wanted) {
        const uint32_t page = pool.take();
        for (const auto& other : texts) REQUIRE(std::ranges::find(other, page) == other.end());
        REQUIRE(std::ranges::find(text, page) == text.end());
        text.push_back(page);
      }
      texts.push_back(std::move(text));
    }
    check();
  }
  for (const auto& text : texts) pool.drop(text);
  CHECK(pool.free() == pool.pages());
}
