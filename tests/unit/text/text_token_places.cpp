// Where tokens are in their text, against the reference's offsets.
#include <fstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "support/files/fixtures.h"
#include "text/tokenizer.h"

using namespace pumice;
using nlohmann::json;

namespace {

std::shared_ptr<const Tokenizer> load_tokenizer(const std::string& name) {
  auto tokenizer = Tokenizer::load(fixtures().tokenizer(name) / "tokenizer.json");
  REQUIRE_MESSAGE(tokenizer.ok(), tokenizer.error().text());
  return *tokenizer;
}

int64_t characters(std::string_view text, size_t bytes) {
  return std::ranges::count_if(text.substr(0, bytes), [](char c) { return (c & 0xC0) != 0x80; });
}

} // namespace

TEST_CASE("tokens stand where the reference says") {
  const json cases = json::parse(std::ifstream(fixtures().folder() / "places.json"));
  REQUIRE(cases.size() > 40);
  for (const json& each : cases) {
    const std::string name = each["tokenizer"], text = each["text"];
    CAPTURE(name);
    CAPTURE(text);
    const auto tokenizer = load_tokenizer(name);
    const std::vector<Tokenizer::PlacedToken> tokens = tokenizer->encode_placed(text);
    std::vector<uint32_t> ids;
    REQUIRE(tokens.size() == each["tokens"].size());
    for (size_t i = 0; i < tokens.size(); ++i) {
      CAPTURE(i);
      const json& expected = each["tokens"][i];
      ids.push_back(tokens[i].id);
      CHECK(tokens[i].id == expected[0]);
      // A space that is put before a text is of no byte; the reference says that it is of the first.
      const bool before = i == 0 && tokens.size() > 1 && each["tokens"][1][1] == 0 && tokens[0].end == 0;
      if (before || expected[1] == expected[2]) {
        CHECK(tokens[i].begin == tokens[i].end);
      } else {
        CHECK(characters(text, tokens[i].begin) == expected[1]);
        CHECK(characters(text, tokens[i].end) == expected[2]);
      }
    }
    CHECK(ids == tokenizer->encode(text, false));
  }
}

TEST_CASE("every tokenizer's tokens have places in order, of the ids that encoding gives") {
  for (const auto& entry : std::filesystem::directory_iterator(fixtures().folder() / "tokenizers")) {
    const std::string name = entry.path().filename().string();
    CAPTURE(name);
    const auto tokenizer = load_tokenizer(name);
    for (const json& each : json::parse(std::ifstream(entry.path() / "cases.json"))) {
      const std::string text = each["text"];
      CAPTURE(text);
      std::vector<uint32_t> ids;
      size_t begin = 0;
      for (const Tokenizer::PlacedToken& token : tokenizer->encode_placed(text)) {
        ids.push_back(token.id);
        CHECK(token.begin <= token.end);
        CHECK(token.end <= text.size());
        if (token.begin == token.end) continue;
        CHECK(token.begin >= begin);
        begin = token.begin;
      }
      CHECK(ids == each["ids_without_special"].get<std::vector<uint32_t>>());
    }
  }
}

TEST_CASE("a token has the marks of its last character, and what a text begins with moves nothing") {
  const auto tokenizer = load_tokenizer("bert-uncased");
  const std::string text = "   \n cafe\u0301 x";
  const std::vector<Tokenizer::PlacedToken> tokens = tokenizer->encode_placed(text);
  REQUIRE(tokens.size() >= 2);
  CHECK(tokens.front().begin == 5);
  CHECK(tokens[tokens.size() - 2].end == 11); // the accent is not in the vocabulary's spelling
  CHECK(tokens.back().begin == 12);
}

TEST_CASE("special tokens around ids: where the text begins") {
  const auto tokenizer = load_tokenizer("bert-uncased");
  const std::vector<uint32_t> a = {10, 11}, b = {12};
  const Tokenizer::Encoding one = tokenizer->around(a), two = tokenizer->around(a, b);
  CHECK(one.begin == 1);
  CHECK(one.ids == std::vector<uint32_t>{2, 10, 11, 3});
  CHECK(two.begin == 4);
  CHECK(two.ids == std::vector<uint32_t>{2, 10, 11, 3, 12, 3});
  CHECK(two.types == std::vector<uint32_t>{0, 0, 0, 0, 1, 1});
}
