// Wrong tokenizer.json files cause an error that names the file and the field, never a crash.
#include <fstream>
#include <iterator>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "support/command/messages.h"
#include "support/files/fixtures.h"
#include "text/tokenizer.h"

using namespace pumice;
using nlohmann::json;

namespace {

const json kGood = json::parse(R"({
  "added_tokens": [
    {"id": 0, "content": "<s>", "special": true, "lstrip": false, "rstrip": false, "single_word": false, "normalized": false},
    {"id": 9, "content": "<extra>", "special": false, "normalized": false}],
  "normalizer": {"type": "Sequence", "normalizers": [
    {"type": "NFC"}, {"type": "Strip", "strip_left": false, "strip_right": false},
    {"type": "Prepend", "prepend": "_"}, {"type": "Replace", "pattern": {"String": " "}, "content": "_"}]},
  "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
    {"type": "Split", "pattern": {"Regex": "\\p{N}"}, "behavior": "Isolated", "invert": false},
    {"type": "Digits", "individual_digits": true}, {"type": "Punctuation", "behavior": "Isolated"},
    {"type": "Metaspace", "replacement": "_", "prepend_scheme": "never", "split": false},
    {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]},
  "post_processor": {"type": "Sequence", "processors": [
    {"type": "ByteLevel"}, {"type": "RobertaProcessing", "cls": ["<s>", 0], "sep": ["</s>", 1]},
    {"type": "TemplateProcessing",
     "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
     "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}}}]},
  "decoder": {"type": "Sequence", "decoders": [
    {"type": "Replace", "pattern": {"String": "_"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
    {"type": "Strip", "content": " ", "start": 1, "stop": 0}, {"type": "Metaspace", "replacement": "_"}]},
  "model": {"type": "BPE", "unk_token": "<unk>", "byte_fallback": true, "fuse_unk": true, "ignore_merges": false,
    "continuing_subword_prefix": null, "end_of_word_suffix": null,
    "vocab": {"<s>": 0, "</s>": 1, "<unk>": 2, "a": 3, "b": 4, "ab": 5}, "merges": ["a b"]}
})");

auto parse(const json& document) {
  return Tokenizer::parse_json(document.dump(), "bad.json");
}

auto with(const char* pointer, json value) {
  json document = kGood;
  document[json::json_pointer(pointer)] = std::move(value);
  return parse(document);
}

auto with_text(std::string_view model) {
  return Tokenizer::parse_json("{\"model\":" + std::string(model) + "}", "bad.json");
}

// Every value in the tree, by its pointer.
void pointers(const json& value, const std::string& path, std::vector<std::string>& out) {
  if (!path.empty()) out.push_back(path);
  if (!value.is_structured()) return;
  for (auto& [key, child] : value.items()) pointers(child, path + "/" + key, out);
}

} // namespace

TEST_CASE("text: the valid file that the bad ones are made from") {
  auto tokenizer = parse(kGood);
  REQUIRE_MESSAGE(tokenizer.ok(), tokenizer.error().text());
  CHECK((*tokenizer)->vocabulary_size() == 10);
  CHECK((*tokenizer)->encode("ab<extra>", true) == std::vector<uint32_t>{0, 0, 2, 5, 9, 1});
  CHECK((*tokenizer)->piece(9) == "<extra>");
  CHECK((*tokenizer)->piece(7) == "");
  CHECK((*tokenizer)->piece(UINT32_MAX) == "");
  CHECK((*tokenizer)->decode(std::vector<uint32_t>{7, 5, 1000, UINT32_MAX}, true) == "ab");
}

TEST_CASE("text: errors name fields of a wrong type") {
  CHECK(says(with("/model/vocab/a", "x"), {"bad.json: model.vocab[\"a\"]", "id", "x"}) == "");
  CHECK(says(with("/model/vocab/a", -1), {"bad.json: model.vocab[\"a\"]", "-1"}) == "");
  CHECK(says(with("/model/vocab/a", 1.5), {"bad.json: model.vocab[\"a\"]", "1.5"}) == "");
  CHECK(says(with("/model/vocab/a", 1ull << 32), {"bad.json: model.vocab[\"a\"]", "4294967296"}) == "");
  CHECK(says(with("/model/vocab/a", 4000000000u), {"bad.json: model.vocab", "4000000000"}) == "");
  CHECK(says(with("/model/vocab/a", 4), {"bad.json: model.vocab", "\"a\"", "\"b\"", "4"}) == "");
  CHECK(says(with("/model/vocab/a", {1}), {"bad.json: model.vocab[\"a\"]", "array"}) == "");
  CHECK(says(with("/model/vocab", json::object()), {"bad.json: model.vocab", "none"}) == "");
  CHECK(says(with("/model/vocab", nullptr), {"bad.json: model.vocab", "nothing"}) == "");
  CHECK(says(with("/model/vocab", json::array({json::array({"a", 0.5})})),
             {"bad.json: model.vocab", "list"}) == "");
  CHECK(says(with("/model/vocab", 5), {"bad.json: model.vocab"}) == "");
  CHECK(says(with("/model/merges", 5), {"bad.json: model.merges"}) == "");
  CHECK(says(with("/model/merges/0", "a c"), {"bad.json: model.merges[0]", "\"c\""}) == "");
  CHECK(says(with("/model/merges/0", "b a"), {"bad.json: model.merges[0]", "\"ba\""}) == "");
  CHECK(says(with("/model/merges/0", "ab"), {"bad.json: model.merges[0]", "\"ab\""}) == "");
  CHECK(says(with("/model/merges/0", "a b c"), {"bad.json: model.merges[0]"}) == "");
  CHECK(says(with("/model/merges/0", {"a"}), {"bad.json: model.merges[0]"}) == "");
  CHECK(says(with("/model/merges/0", {"a", "b", "c"}), {"bad.json: model.merges[0]"}) == "");
  CHECK(says(with("/model/merges/0", {"a", 1}), {"bad.json: model.merges[0]"}) == "");
  CHECK(says(with("/model/merges/0", json::object()), {"bad.json: model.merges[0]"}) == "");
  CHECK(with("/model/merges/0", {"a", "b"}).ok());
  CHECK(says(with("/model/unk_token", "zz"), {"bad.json: model.unk_token", "zz"}) == "");
  CHECK(says(with("/model/type", "CNN"), {"bad.json: model.type", "BPE", "CNN"}) == "");
  CHECK(says(with("/model/byte_fallback", 1), {"bad.json: model.byte_fallback", "true or false", "1"}) == "");
  CHECK(says(with("/added_tokens/1/id", 3), {"bad.json: added_tokens[1].id", "3", "\"a\""}) == "");
  CHECK(says(with("/added_tokens/0/id", 7), {"bad.json: added_tokens[0].id", "7", "0"}) == "");
  CHECK(says(with("/added_tokens/1/id", 4000000000u), {"bad.json: added_tokens[1].id", "4000000000"}) == "");
  CHECK(says(with("/added_tokens/1/content", ""), {"bad.json: added_tokens[1].content"}) == "");
  CHECK(says(with("/added_tokens/1/lstrip", "no"), {"bad.json: added_tokens[1].lstrip", "no"}) == "");
  CHECK(says(with("/normalizer/normalizers/0/type", "Precompiled"),
             {"normalizer.normalizers[0].precompiled_charsmap", "string"}) == "");
  CHECK(says(with("/normalizer/normalizers/0/type", "X"), {"normalizer.normalizers[0].type", "NFKC", "X"}) ==
        "");
  CHECK(says(with("/pre_tokenizer/pretokenizers/0/pattern/Regex", "(a"),
             {"pretokenizers[0].pattern", "(a"}) == "");
  CHECK(says(with("/pre_tokenizer/pretokenizers/0/pattern/Regex", "[a&&b]"),
             {"pretokenizers[0].pattern", "&&"}) == "");
  CHECK(says(with("/pre_tokenizer/pretokenizers/0/behavior", "?"),
             {"pretokenizers[0].behavior", "Isolated"}) == "");
  CHECK(says(with("/post_processor/processors/1/sep", {"</s>", 6}), {"processors[1].sep[1]", "6"}) == "");
  CHECK(says(with("/post_processor/processors/2/special_tokens", nullptr), {"special_tokens.<s>"}) == "");
  CHECK(says(with("/decoder/decoders/3/start", -1), {"decoders[3].start", "-1"}) == "");
  CHECK(says(with("/decoder/decoders/3/content", "xy"), {"decoders[3].content", "one character", "xy"}) ==
        "");
  CHECK(says(with("/decoder/type", nullptr), {"bad.json: decoder.type", "a string", "nothing"}) == "");
}

TEST_CASE("text: any field of any type gives a tokenizer or an error with the file's name") {
  std::vector<std::string> all;
  pointers(kGood, "", all);
  REQUIRE(all.size() > 100);
  for (const std::string& pointer : all) {
    for (const json& value :
         {json(nullptr), json(true), json(-1), json(1e300), json(4294967295u), json(""), json("▁"),
          json::array(), json::object(), json::array({json::array()}), json("[")}) {
      auto result = with(pointer.c_str(), value);
      if (!result.ok())
        CHECK_MESSAGE(result.error().message.starts_with("bad.json: "), result.error().message);
      if (result.ok()) (*result)->decode((*result)->encode("ab <s> 12,é\xFF", true), true);
    }
  }
}

TEST_CASE("text: a file cut off anywhere") {
  std::string whole = kGood.dump();
  for (size_t length = 0; length < whole.size(); ++length) {
    auto result = Tokenizer::parse_json(std::string_view(whole).substr(0, length), "bad.json");
    REQUIRE(says(result, {"bad.json", "not valid JSON"}) == "");
  }
  std::ifstream in(fixtures().tokenizer("llama3") / "tokenizer.json");
  std::string file((std::istreambuf_iterator<char>(in)), {});
  for (size_t length = 0; length < file.find_last_of('}'); length += 997) {
    auto result = Tokenizer::parse_json(std::string_view(file).substr(0, length), "bad.json");
    REQUIRE(says(result, {"bad.json", "not valid JSON"}) == "");
  }
}

TEST_CASE("text: files that are not tokenizers") {
  auto text = [](std::string_view document) { return Tokenizer::parse_json(document, "bad.json"); };
  CHECK(says(text(""), {"bad.json"}) == "");
  CHECK(says(text("[]"), {"bad.json", "object"}) == "");
  CHECK(says(text("{}"), {"bad.json: model", "object", "nothing"}) == "");
  CHECK(says(text("\xFF\xFE"), {"bad.json", "byte"}) == "");
  CHECK(says(text("{\"model\":{\"vocab\":{\"\xFF\":1}}}"), {"bad.json", "UTF-8"}) == "");
  CHECK(says(text(std::string(100000, '[')), {"bad.json", "64"}) == "");
  CHECK(says(with_text(R"({"vocab":{"a":0,"a":1},"merges":[]})"), {"bad.json: model.vocab", "\"a\""}) == "");
  CHECK(says(with_text(R"({"vocab":{"a":0},"vocab":{"a":0},"merges":[]})"), {"bad.json: model.vocab"}) == "");
  CHECK(says(with_text(R"({"vocab":[["a",0]],"merges":[]})"), {"bad.json: model.vocab", "object", "list"}) ==
        "");
  CHECK(says(with_text(R"({"vocab":[["a",[0]]]})"), {"bad.json: model.vocab[0]"}) == "");
  CHECK(says(with_text(R"({"vocab":[["a"]]})"), {"bad.json: model.vocab[0]"}) == "");
  CHECK(says(with_text(R"({"vocab":[[0,"a"]]})"), {"bad.json: model.vocab[0]"}) == "");
  CHECK(says(with_text(R"([{"vocab":{"a":0}}])"), {"bad.json: model"}) == "");
  CHECK(with_text(R"({"vocab":{"a":0},"merges":[]})").ok());
  CHECK(with_text(R"({"vocab":{"a":900000},"merges":[]})").ok()); // holes
  CHECK(says(Tokenizer::load("/nowhere/tokenizer.json"), {"/nowhere/tokenizer.json"}) == "");
  CHECK(says(Tokenizer::load("/"), {"/"}) == "");
}

TEST_CASE("text: steps that would make a text extremely long are refused") {
  json steps = json::array();
  for (int i = 0; i < 60; ++i)
    steps.push_back({{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}});
  CHECK(says(with("/normalizer", {{"type", "Sequence"}, {"normalizers", steps}}),
             {"bad.json: normalizer", "4096"}) == "");
  CHECK(says(with("/decoder", {{"type", "Sequence"}, {"decoders", steps}}), {"bad.json: decoder", "4096"}) ==
        "");
  json cuts = json::array();
  for (int i = 0; i < 60; ++i) cuts.push_back({{"type", "ByteLevel"}});
  CHECK(says(with("/pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", cuts}}),
             {"pre_tokenizer", "4096"}) == "");
}

TEST_CASE("text: the numbers that JSON allows for scores") {
  const auto with_score = [](std::string_view score) {
    return with_text(R"({"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["a", )" +
                     std::string(score) + R"(], ["b", -2], ["ab", -5]]})");
  };
  for (const char* score : {"-1", "-1.5", "-0.1e1", "-1E+0", "-15e-1", " -1 ", "0"}) {
    CAPTURE(score);
    const auto tokenizer = with_score(score);
    REQUIRE_MESSAGE(tokenizer.ok(), tokenizer.error().text());
    CHECK((*tokenizer)->encode("ab", false) == std::vector<uint32_t>{1, 2});
  }
  CHECK((*with_score("-3.5"))->encode("ab", false) == std::vector<uint32_t>{3});
  for (const char* score :
       {"", "-", ".5", "-.5", "1.", "01", "1e", "1e+", "+1", "nan", "-inf", "1e999", "0x1"}) {
    CAPTURE(score);
    CHECK(says(with_score(score), {"bad.json"}) == "");
  }
}
