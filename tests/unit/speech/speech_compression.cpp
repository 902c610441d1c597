#include "speech/compression.h"

#include <string>

#include <doctest/doctest.h>

using namespace pumice;

namespace {

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

} // namespace

TEST_CASE("compression: about the ratio of zlib") {
  // The bytes that zlib.compress() of Python 3.13 makes of the texts.
  const std::pair<std::string, double> cases[] = {
      {"a", 9},
      {" And so my fellow Americans ask not what your country can do for you, ask what you can do for your "
       "country.",
       79},
      {repeated(" Thank you.", 40), 24},
      {repeated(" la", 30), 14},
      {" Der Roman erzählt von einer Familie, die am Meer lebt und jeden Sommer auf die Rückkehr des Vaters "
       "wartet; in diesem Jahr kommt er nicht.",
       125},
      {"これは短い日本語の文章です。天気がよいので、午後は公園に行きます。", 95}};
  for (const auto& each : cases) {
    const auto& text = each.first;
    CAPTURE(text);
    const double expected = static_cast<double>(text.size()) / each.second;
    CHECK(compression_ratio(text) == doctest::Approx(expected).epsilon(0.12));
  }
  CHECK(compression_ratio("") == 0);
}

TEST_CASE("compression: what repeats itself is above Whisper's limit, speech is below it") {
  CHECK(compression_ratio(repeated(" Thank you very much.", 8)) > 2.4);
  CHECK(compression_ratio(
            " Four score and seven years ago our fathers brought forth, upon this continent, a new "
            "nation, conceived in liberty, and dedicated to the proposition that all men are created "
            "equal.") < 1.8);
  CHECK(compression_ratio(repeated("x", 100000)) > 100);
}
