// Tokenizers are converted to GGUF's keys and read back. Ids and text must be the same.
#include <fstream>
#include <functional>
#include <iterator>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "support/command/messages.h"
#include "support/files/fixtures.h"
#include "text/formats/gguf_vocabulary_writer.h"
#include "text/tokenizer.h"
#include "text/unicode/normalizer.h"

using namespace pumice;
using nlohmann::json;

namespace {

std::shared_ptr<const Tokenizer> read_back(const text::GgufVocabularyTable& table) {
  Tokenizer::GgufVocabulary gguf;
  gguf.file = "written.gguf";
  gguf.model = table.model;
  gguf.pre = table.pre;
  gguf.tokens.assign(table.tokens.begin(), table.tokens.end());
  gguf.scores = table.scores;
  gguf.types = table.types;
  gguf.merges.assign(table.merges.begin(), table.merges.end());
  gguf.bos = table.bos;
  gguf.eos = table.eos;
  gguf.unknown = table.unknown;
  gguf.add_bos = table.add_bos;
  gguf.add_eos = table.add_eos;
  gguf.add_space_prefix = table.add_space_prefix;
  auto tokenizer = Tokenizer::from_gguf(gguf);
  REQUIRE_MESSAGE(tokenizer.ok(), tokenizer.error().text());
  return *tokenizer;
}

text::GgufVocabularyTable written(const std::string& tokenizer_json, uint32_t rows) {
  auto table = text::gguf_vocabulary(tokenizer_json, "tokenizer.json", rows);
  REQUIRE_MESSAGE(table.ok(), table.error().text());
  return *table;
}

struct Expected {
  std::string model, pre;
  bool add_bos = false, add_eos = false, add_space_prefix = false;
  bool normalizes = false;  // to NFC, for which GGUF has no field
  bool other_pairs = false; // some pairs of tokens form a token without a merge
};

void check_round_trip(const std::string& name, const Expected& expected) {
  std::ifstream in(fixtures().tokenizer(name) / "tokenizer.json");
  const std::string source((std::istreambuf_iterator<char>(in)), {});
  const text::GgufVocabularyTable table = written(source, 1000);
  CHECK(table.model == expected.model);
  CHECK(table.pre == expected.pre);
  CHECK(table.add_bos == expected.add_bos);
  CHECK(table.add_eos == expected.add_eos);
  CHECK(table.add_space_prefix == expected.add_space_prefix);
  CHECK(table.tokens.size() == 1000);
  CHECK(table.tokens.back() == "[PAD999]");
  CHECK(table.types.back() == 5);
  CHECK(table.notes.size() == (expected.normalizes || expected.other_pairs ? 1 : 0));
  const auto tokenizer = read_back(table);
  const json cases = json::parse(std::ifstream(fixtures().tokenizer(name) / "cases.json"));
  size_t checked = 0;
  for (const json& c : cases) {
    const auto text = c.at("text").get<std::string>();
    std::string normal = text;
    text::make_unicode_form(text::UnicodeForm::nfc)->apply(normal);
    if (expected.normalizes && normal != text) continue;
    // The fixtures' bytes are special tokens that can be spelled out; GGUF has a type for either alone.
    if (table.model == "llama" && text.find("<0x") != text.npos) continue;
    CAPTURE(name);
    CAPTURE(text);
    const auto ids = c.at("ids_without_special").get<std::vector<uint32_t>>();
    CHECK(tokenizer->encode(text, true) == c.at("ids").get<std::vector<uint32_t>>());
    CHECK(tokenizer->encode(text, false) == ids);
    CHECK(tokenizer->decode(ids, true) == c.at("decoded").get<std::string>());
    ++checked;
  }
  CHECK(checked > 50);
}

// A byte-level tokenizer with two letters and one merge.
json small_gpt2() {
  return json::parse(R"({
    "added_tokens": [{"id": 3, "content": "<end>", "special": true}, {"id": 5, "content": "<user>", "special": false}],
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}})");
}

// A tokenizer of SentencePiece's kind.
json small_llama() {
  return json::parse(R"({
    "added_tokens": [{"id": 0, "content": "<unk>", "special": true}, {"id": 7, "content": "x▁", "special": false}],
    "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
    "decoder": {"type": "ByteFallback"},
    "model": {"type": "BPE", "byte_fallback": true, "unk_token": "<unk>",
              "vocab": {"<unk>": 0, "<0x41>": 1, "▁": 2, "a": 3, "b": 4, "ab": 5, "aab": 6},
              "merges": [["a", "b"], ["a", "ab"]]}})");
}

} // namespace

TEST_CASE("text: gpt2 to GGUF and back") {
  check_round_trip("gpt2", {.model = "gpt2", .pre = "gpt-2"});
}
TEST_CASE("text: llama3 to GGUF and back") {
  // Its pattern; but unlike the real one, it takes pieces apart that are tokens.
  check_round_trip("llama3", {.model = "gpt2", .pre = "dbrx"});
}
TEST_CASE("text: qwen2 to GGUF and back") {
  check_round_trip("qwen2", {.model = "gpt2", .pre = "qwen2", .normalizes = true});
}
TEST_CASE("text: roberta to GGUF and back") {
  // GPT-2's split, with RoBERTa's separators between two texts.
  check_round_trip("roberta", {.model = "gpt2", .pre = "roberta-bpe", .add_bos = true, .add_eos = true});
}
TEST_CASE("text: llama2 to GGUF and back") {
  check_round_trip(
      "llama2",
      {.model = "llama", .pre = "default", .add_bos = true, .add_space_prefix = true, .other_pairs = true});
}
TEST_CASE("text: gemma to GGUF and back") {
  check_round_trip("gemma", {.model = "llama", .pre = "default", .add_bos = true, .other_pairs = true});
}

TEST_CASE("text: the tables of small vocabularies") {
  text::GgufVocabularyTable table = written(small_gpt2().dump(), 7);
  CHECK(table.tokens == std::vector<std::string>{"a", "b", "ab", "<end>", "[PAD4]", "<user>", "[PAD6]"});
  CHECK(table.types == std::vector<int32_t>{1, 1, 1, 3, 5, 4, 5});
  CHECK(table.merges == std::vector<std::string>{"a b"});
  CHECK(table.scores.empty());
  CHECK(table.notes.empty());

  table = written(small_llama().dump(), 9);
  CHECK(table.tokens ==
        std::vector<std::string>{"<unk>", "<0x41>", "▁", "a", "b", "ab", "aab", "x ", "[PAD8]"});
  CHECK(table.types == std::vector<int32_t>{2, 6, 1, 1, 1, 1, 1, 4, 5});
  CHECK(table.scores == std::vector<float>{-3, -3, -3, -3, -3, -1, -2, -3, -3});
  CHECK(table.merges.empty());
  CHECK(table.notes.empty());
  CHECK(!table.add_space_prefix);
  const auto tokenizer = read_back(table);
  CHECK(tokenizer->encode("aab aA", false) == std::vector<uint32_t>{6, 2, 3, 1});

  // "aa" + "b" makes a token too, without being a merge.
  json other = small_llama();
  other["model"]["vocab"]["aa"] = 8;
  table = written(other.dump(), 9);
  REQUIRE(table.notes.size() == 1);
  CHECK(table.notes[0].find("2 pairs") != std::string::npos);

  // Added tokens without a row in the model are left out. Other tokens must have a row.
  table = written(small_gpt2().dump(), 5);
  CHECK(table.tokens.size() == 5);
  CHECK(table.notes.size() == 1);
  CHECK(says(text::gguf_vocabulary(small_gpt2().dump(), "t.json", 2), {"t.json", "model.vocab", "below 2"}) ==
        "");
}

TEST_CASE("text: Metaspace puts a space before a text") {
  for (const auto& [scheme, prefix] : {std::pair("always", true), {"first", true}, {"never", false}}) {
    json source = small_llama();
    source["normalizer"] = nullptr;
    source["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", scheme}};
    const text::GgufVocabularyTable table = written(source.dump(), 8);
    CHECK(table.add_space_prefix == prefix);
    CHECK(table.notes.size() == (prefix ? 1 : 0));
  }
}

TEST_CASE("text: the names of splits") {
  const std::string qwen2 =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  const auto split = [](const std::string& pattern, const char* behavior, bool invert) {
    return json{
        {"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", behavior}, {"invert", invert}};
  };
  const auto named = [](const json& first, bool use_regex, bool ignore_merges = false) {
    json source = small_gpt2();
    const json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", use_regex}};
    source["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {first, bytes}}};
    source["model"]["ignore_merges"] = ignore_merges;
    const auto table = text::gguf_vocabulary(source.dump(), "t.json", 20);
    return table.ok() ? table->pre : "";
  };
  CHECK(named(split(qwen2, "Isolated", false), false) == "qwen2");
  CHECK(named(split(qwen2, "Removed", true), false) == "qwen2");
  CHECK(named(split(qwen2, "Removed", false), false) == "");
  CHECK(named(split(qwen2, "MergedWithNext", false), false) == "");
  CHECK(named(split(qwen2, "Isolated", false), false, true) == "");
  CHECK(named(split(qwen2, "Isolated", false), true) == "");
  CHECK(named(json{{"type", "Digits"}, {"individual_digits", true}}, true) == "starcoder");
  CHECK(named(split(R"(\p{N})", "Removed", true), true) == "");
}

TEST_CASE("text: tokenizers that GGUF cannot express") {
  const auto refused = [](json source, const std::function<void(json&)>& change) {
    change(source);
    return text::gguf_vocabulary(source.dump(), "t.json", 20);
  };
  const json gpt2 = small_gpt2(), llama = small_llama();
  CHECK(says(refused(gpt2,
                     [](json& j) {
                       j["model"] = {{"type", "Unigram"}, {"vocab", json::array({{"a", -1.5}})}};
                     }),
             {"t.json", "model"}) == "");
  CHECK(says(refused(gpt2, [](json& j) { j["model"]["end_of_word_suffix"] = "</w>"; }),
             {"t.json", "model.end_of_word_suffix"}) == "");
  CHECK(says(refused(gpt2,
                     [](json& j) {
                       j["normalizer"] = {{"type", "Lowercase"}};
                     }),
             {"t.json", "normalizer.type", "Lowercase"}) == "");
  CHECK(says(refused(gpt2, [](json& j) { j["pre_tokenizer"]["add_prefix_space"] = true; }),
             {"t.json", "pre_tokenizer.add_prefix_space"}) == "");
  CHECK(says(refused(gpt2,
                     [](json& j) {
                       j["pre_tokenizer"] = {{"type", "Whitespace"}};
                     }),
             {"t.json", "pre_tokenizer.type", "Whitespace"}) == "");
  CHECK(says(refused(gpt2,
                     [](json& j) {
                       j["pre_tokenizer"] = json::parse(R"({"type": "Sequence", "pretokenizers": [
                         {"type": "Split", "pattern": {"Regex": "a+"}, "behavior": "Isolated"},
                         {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})");
                     }),
             {"t.json", "pre_tokenizer", "a split that GGUF has a name for"}) == "");
  CHECK(says(refused(gpt2,
                     [](json& j) {
                       j["post_processor"] = json::parse(R"({"type": "TemplateProcessing",
                         "single": [{"SpecialToken": {"id": "<end>"}}, {"SpecialToken": {"id": "<end>"}},
                                    {"Sequence": {"id": "A"}}],
                         "special_tokens": {"<end>": {"ids": [3]}}})");
                     }),
             {"t.json", "post_processor", "one token"}) == "");
  CHECK(says(refused(llama,
                     [](json& j) {
                       j["normalizer"] = {{"type", "NFKC"}};
                     }),
             {"t.json", "normalizer.type", "NFKC"}) == "");
  CHECK(says(refused(llama, [](json& j) { j["normalizer"] = nullptr; }),
             {"t.json", "normalizer", "U+2581"}) == "");
}
