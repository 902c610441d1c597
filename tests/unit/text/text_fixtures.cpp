// Every tokenizer of the fixtures, case by case, against the reference's ids and text.
#include <algorithm>
#include <fstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "support/files/fixtures.h"
#include "text/continued_text.h"
#include "text/tokenizer.h"

using namespace pumice;

namespace {

std::string streamed(const std::shared_ptr<const Tokenizer>& tokenizer, const std::vector<uint32_t>& ids,
                     bool keep_special) {
  StreamDecoder decoder(tokenizer, keep_special);
  std::string text;
  for (uint32_t id : ids) text += decoder.push(id);
  return text + decoder.flush();
}

// What follows a prompt is decoded as behind all of it, however long it is.
void check_continued(const std::shared_ptr<const Tokenizer>& tokenizer) {
  const std::string text =
      "One day, the old dog said: \"it isn't mine (at all) !\" -- 3.14, caf\u00e9 \u6f22\u5b57 "
      "\U0001F600. Then he   went home, and that was that.";
  std::vector<uint32_t> ids = tokenizer->encode(text, true);
  for (size_t cut = 0; cut <= ids.size(); ++cut) {
    const std::span<const uint32_t> prompt(ids.data(), cut);
    StreamDecoder decoder(tokenizer);
    size_t skipped = 0;
    for (const uint32_t id : prompt) skipped += decoder.push(id).size();
    const size_t whole = tokenizer->decode(prompt, false).size();
    std::string expected;
    for (size_t i = cut; i < ids.size(); ++i) expected += decoder.push(ids[i]);
    expected += decoder.flush();
    if (whole > skipped) expected = expected.substr(std::min(whole - skipped, expected.size()));

    ContinuedText continued(tokenizer, prompt);
    std::string found;
    for (size_t i = cut; i < ids.size(); ++i) found += continued.push(ids[i]);
    CAPTURE(cut);
    CHECK(found + continued.flush() == expected);
  }
}

// What spells a special token is only one where that is asked for.
void check_special_as_text(const Tokenizer& tokenizer) {
  const auto unknown = tokenizer.find("<unk>"), unknown_word = tokenizer.find("[UNK]");
  size_t found = 0;
  for (uint32_t id = 0; id < tokenizer.vocabulary_size(); ++id) {
    if (!tokenizer.is_special(id)) continue;
    const std::string text = "a player says " + std::string(tokenizer.piece(id)) + "hi";
    CAPTURE(text);
    const std::vector<uint32_t> recognised = tokenizer.encode(text, false);
    found += std::ranges::count(recognised, id) > 0;
    const Tokenizer::Part part{text, Tokenizer::SpecialTokens::as_text};
    const std::vector<uint32_t> ids = tokenizer.encode(std::span(&part, 1), false);
    CHECK(ids.size() > 3);
    for (const uint32_t each : ids) {
      const bool byte = tokenizer.piece(each).starts_with("<0x"); // of a character that is no token
      CHECK((!tokenizer.is_special(each) || each == unknown || each == unknown_word || byte));
    }
    if (id == unknown || id == unknown_word) continue; // also stands for what the vocabulary lacks
    // In parts, only that one is not text which says so.
    const Tokenizer::Part parts[] = {{tokenizer.piece(id)}, part};
    const std::vector<uint32_t> marked = tokenizer.encode(parts, false);
    CHECK(std::ranges::count(marked, id) == (tokenizer.encode(tokenizer.piece(id), false).at(0) == id));
  }
  CHECK(found > 0);
  // Parts are one text.
  using Special = Tokenizer::SpecialTokens;
  const Tokenizer::Part parts[] = {{"a player ", Special::recognised}, {"says h", Special::as_text}, {"i."}};
  CHECK(tokenizer.encode(parts, true) == tokenizer.encode("a player says hi.", true));
}

void check_tokenizer(const std::string& name) {
  auto path = fixtures().tokenizer(name);
  auto tokenizer = Tokenizer::load(path / "tokenizer.json");
  REQUIRE_MESSAGE(tokenizer.ok(), tokenizer.error().text());
  check_special_as_text(**tokenizer);
  check_continued(*tokenizer);
  std::ifstream in(path / "cases.json");
  nlohmann::json cases = nlohmann::json::parse(in);
  REQUIRE(cases.size() > 50);
  for (const auto& c : cases) {
    CAPTURE(name);
    CAPTURE(c.at("text"));
    auto text = c.at("text").get<std::string>();
    auto ids = c.at("ids_without_special").get<std::vector<uint32_t>>();
    CHECK((*tokenizer)->encode(text, true) == c.at("ids").get<std::vector<uint32_t>>());
    CHECK((*tokenizer)->encode(text, false) == ids);
    CHECK((*tokenizer)->decode(ids, true) == c.at("decoded").get<std::string>());
    CHECK(streamed(*tokenizer, ids, true) == c.at("decoded").get<std::string>());
    CHECK(streamed(*tokenizer, ids, false) == (*tokenizer)->decode(ids, false));
  }
}

} // namespace

FIXTURE_TEST_CASE("text: gpt2") {
  check_tokenizer("gpt2");
}
FIXTURE_TEST_CASE("text: llama3") {
  check_tokenizer("llama3");
}
FIXTURE_TEST_CASE("text: qwen2") {
  check_tokenizer("qwen2");
}
FIXTURE_TEST_CASE("text: llama2") {
  check_tokenizer("llama2");
}
FIXTURE_TEST_CASE("text: gemma") {
  check_tokenizer("gemma");
}
FIXTURE_TEST_CASE("text: roberta") {
  check_tokenizer("roberta");
}
FIXTURE_TEST_CASE("text: bert-uncased") {
  check_tokenizer("bert-uncased");
}
FIXTURE_TEST_CASE("text: bert-cased") {
  check_tokenizer("bert-cased");
}
FIXTURE_TEST_CASE("text: bert-base-uncased") {
  check_tokenizer("bert-base-uncased");
}
FIXTURE_TEST_CASE("text: t5") {
  check_tokenizer("t5");
}
