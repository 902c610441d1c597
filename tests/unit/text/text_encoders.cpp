// Steps of the tokenizers of BERT's and T5's families, with small vocabularies: WordPiece, Unigram, character
// maps, pairs of texts and limits.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "support/character_map.h"
#include "support/command/messages.h"
#include "text/formats/base64.h"
#include "text/tokenizer.h"
#include "text/unicode/character_map.h"

using namespace pumice;
using nlohmann::json;
using Ids = std::vector<uint32_t>;

namespace {

std::shared_ptr<const Tokenizer> make(const json& document) {
  auto tokenizer = Tokenizer::parse_json(document.dump(), "test.json");
  REQUIRE_MESSAGE(tokenizer.ok(), tokenizer.error().text());
  return *tokenizer;
}

json wordpiece(std::vector<std::string> tokens) {
  json vocabulary = {{"[UNK]", 0}, {"[CLS]", 1}, {"[SEP]", 2}};
  for (const std::string& token : tokens) vocabulary[token] = vocabulary.size();
  return {{"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
          {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
          {"model", {{"type", "WordPiece"}, {"vocab", vocabulary}}}};
}

json unigram(std::initializer_list<std::pair<const char*, double>> tokens) {
  json vocabulary = json::array({json::array({"<unk>", 0.0})});
  for (auto [token, score] : tokens) vocabulary.push_back(json::array({token, score}));
  return {{"model", {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", vocabulary}}}};
}

std::string pieces(const std::shared_ptr<const Tokenizer>& tokenizer, std::string_view text) {
  std::string joined;
  for (uint32_t id : tokenizer->encode(text, false)) joined.append(tokenizer->piece(id)).append("|");
  return joined;
}

// The result of a normalizer, made visible with a vocabulary of all possible results.
std::string normalized(const json& normalizer, std::string_view text) {
  json vocabulary = json::array({json::array({"<unk>", 0.0})});
  for (int byte = 0; byte < 256; ++byte)
    vocabulary.push_back(json::array({fmt::format("<0x{:02X}>", byte), -1.0}));
  auto tokenizer =
      make({{"normalizer", normalizer},
            {"decoder", {{"type", "ByteFallback"}}},
            {"model", {{"type", "Unigram"}, {"unk_id", 0}, {"byte_fallback", true}, {"vocab", vocabulary}}}});
  return tokenizer->decode(tokenizer->encode(text, false), true);
}

} // namespace

TEST_CASE("text: WordPiece takes the longest piece from the left") {
  json document = wordpiece({"un", "una", "##aff", "##able", "##b", "##ff", "."});
  document["model"]["max_input_chars_per_word"] = 9;
  auto tokenizer = make(document);
  CHECK(pieces(tokenizer, "unaffable") == "una|##ff|##able|");
  CHECK(pieces(tokenizer, "unaffab") == "[UNK]|");
  CHECK(pieces(tokenizer, "unaff") == "una|##ff|");
  CHECK(pieces(tokenizer, "unb .") == "un|##b|.|");
  CHECK(pieces(tokenizer, "able") == "[UNK]|"); // only within a word
  CHECK(pieces(tokenizer, "unbbbbbbb un") == "un|##b|##b|##b|##b|##b|##b|##b|un|");
  CHECK(pieces(tokenizer, "unbbbbbbbb un") == "[UNK]|un|"); // ten characters
  CHECK(pieces(tokenizer, "") == "");
  CHECK(tokenizer->decode(Ids{3, 7, 9}, true) == "unb.");
  document["model"]["unk_token"] = "?";
  CHECK(says(Tokenizer::parse_json(document.dump(), "t.json"), {"t.json: model.unk_token", "\"?\""}) == "");
}

TEST_CASE("text: WordPiece's decoder cleans up each token by itself") {
  auto tokenizer = make(wordpiece({"i", "do", "not", "n't", "'", "s", "##ing", "!", "'s"}));
  auto decode = [&](std::initializer_list<const char*> names) {
    Ids ids;
    for (const char* name : names) ids.push_back(*tokenizer->find(name));
    return tokenizer->decode(ids, true);
  };
  CHECK(decode({"do", "##ing", "!"}) == "doing!");
  CHECK(decode({"do", "n't"}) == "don't");
  CHECK(decode({"i", "'s"}) == "i's");
  CHECK(decode({"do", "not"}) == "do not"); // two tokens
  CHECK(decode({"##ing"}) == "##ing");      // no token before it
}

TEST_CASE("text: BertNormalizer's options") {
  auto bert = [](json settings, std::string_view text) {
    settings["type"] = "BertNormalizer";
    return normalized(settings, text);
  };
  CHECK(bert({}, "\tÀ\u200B\u0001é東京\u00A0x") == " ae 東  京  x");
  CHECK(bert({{"lowercase", false}}, "Àé") == "Àé"); // accents follow the case
  CHECK(bert({{"lowercase", false}, {"strip_accents", true}}, "Àé") == "Ae");
  CHECK(bert({{"strip_accents", false}}, "Àé") == "àé");
  CHECK(bert({{"strip_accents", nullptr}, {"lowercase", true}}, "Àé") == "ae");
  CHECK(bert({{"clean_text", false}}, "a\tb\u200B") == "a\tb\u200B");
  CHECK(bert({{"handle_chinese_chars", false}}, "a東") == "a東");
  CHECK(normalized({{"type", "Nmt"}}, "a\u0001b\u200Bc\tD") == "ab c D");
}

TEST_CASE("text: Unigram takes the cut with the largest sum of scores") {
  auto tokenizer = make(unigram({{"a", -1}, {"b", -1}, {"ab", -3}, {"abc", -2.5}, {"c", -2}, {"bc", -0.5}}));
  CHECK(pieces(tokenizer, "ab") == "a|b|");
  CHECK(pieces(tokenizer, "abc") == "a|bc|"); // -1.5 beats -2.5
  CHECK(pieces(tokenizer, "a東京b") == "a|<unk>|b|");
  CHECK(pieces(tokenizer, "東a京") == "<unk>|a|<unk>|");
  CHECK(pieces(tokenizer, "") == "");
  // An unknown character costs 10 more than the worst token, so two are worse than one long bad token.
  auto forced = make(unigram({{"a", -1}, {"xy", -20}}));
  CHECK(pieces(forced, "axy") == "a|xy|");
  // Of equal cuts, the first one found.
  CHECK(pieces(make(unigram({{"a", -1}, {"aa", -2}})), "aaa") == "a|aa|");
}

TEST_CASE("text: Unigram's unknown characters fall back to bytes if all are in the vocabulary") {
  json document = unigram({{"a", -1}, {"<0xC3>", -5}, {"<0xA9>", -5}});
  CHECK(pieces(make(document), "aé") == "a|<unk>|");
  document["model"]["byte_fallback"] = true;
  auto tokenizer = make(document);
  CHECK(pieces(tokenizer, "aé") == "a|<0xC3>|<0xA9>|");
  CHECK(pieces(tokenizer, "aéß") == "a|<unk>|"); // one byte is missing; the run is one unknown token
  CHECK(pieces(tokenizer, "\xC3") == "<0xC3>|");
  document["model"]["unk_id"] = 9;
  CHECK(says(Tokenizer::parse_json(document.dump(), "t.json"), {"t.json: model.unk_id", "9"}) == "");
}

TEST_CASE("text: a compiled character map") {
  const std::string bytes =
      character_map({{"A", "a"}, {"e\u0301", "é"}, {"ﬁ", "fi"}, {"fx", "!"}, {"f", ""}});
  auto map = text::CharacterMap::parse(bytes, "map");
  REQUIRE_MESSAGE(map.ok(), map.error().text());
  CHECK(map->longest("fxx")->with == "!");
  CHECK(map->longest("fxx")->length == 2);
  CHECK(map->shortest("fxx")->length == 1);
  CHECK_FALSE(map->longest("xf").has_value());
  CHECK_FALSE(map->longest("").has_value());
  CHECK(map->longest_replacement() == 2);
  auto applied = [](text::NormalizerPtr normalizer, std::string text) {
    normalizer->apply(text);
    return text;
  };
  CHECK(applied(text::make_longest_map(*map), "AfxBﬁe\u0301f") == "a!Bfié");
  // A whole cluster is replaced, including characters after the match.
  CHECK(applied(text::make_grapheme_map(*map), "fxA\u0301e\u0301ﬁ") == "xaéfi");
  for (size_t length = 0; length < bytes.size(); ++length)
    CHECK_FALSE(text::CharacterMap::parse(std::string_view(bytes).substr(0, length), "map").ok());
  for (size_t at = 0; at < bytes.size(); ++at) { // an error or another map, never an invalid read
    std::string broken = bytes;
    broken[at] = static_cast<char>(broken[at] ^ 0xA5);
    auto other = text::CharacterMap::parse(broken, "map");
    if (other.ok()) applied(text::make_longest_map(*std::move(other)), "Afxé\u0301ﬁ\xF4\x8F\xBF\xBF");
  }
  json normalizer = {{"type", "Precompiled"}, {"precompiled_charsmap", "AAAA"}};
  json document = unigram({{"a", -1}});
  document["normalizer"] = normalizer;
  CHECK(says(Tokenizer::parse_json(document.dump(), "t.json"), {"t.json: normalizer.precompiled_charsmap"}) ==
        "");
  document["normalizer"]["precompiled_charsmap"] = "A*";
  CHECK(says(Tokenizer::parse_json(document.dump(), "t.json"), {"base64"}) == "");
  CHECK(text::decode_base64("aGk=") == "hi");
  CHECK(text::decode_base64("aGk") == "hi");
  CHECK(text::decode_base64("") == "");
  CHECK(text::encode_base64("") == "");
  CHECK(text::encode_base64("hi") == "aGk=");
  CHECK(text::encode_base64("\xff") == "/w==");
  CHECK(text::encode_base64("hi!") == "aGkh");
  CHECK_FALSE(text::decode_base64("a").has_value());
}

TEST_CASE("text: pairs of texts have types and limits") {
  json document = wordpiece({"a", "b"});
  auto ids = [](const Tokenizer::Encoding& e) { return e.ids; };
  auto types = [](const Tokenizer::Encoding& e) { return e.types; };
  auto none = make(document);
  CHECK(ids(none->encode_pair("a", "b b")) == Ids{3, 4, 4});
  CHECK(types(none->encode_pair("a", "b b")) == Ids{0, 1, 1});
  document["post_processor"] = {{"type", "BertProcessing"}, {"cls", {"[CLS]", 1}}, {"sep", {"[SEP]", 2}}};
  auto bert = make(document);
  CHECK(ids(bert->encode_pair("a a", "b")) == Ids{1, 3, 3, 2, 4, 2});
  CHECK(types(bert->encode_pair("a a", "b")) == Ids{0, 0, 0, 0, 1, 1});
  CHECK(ids(bert->encode_pair("", "")) == Ids{1, 2, 2});
  // The longer text is cut first, then both equally; the second gets an odd remainder.
  CHECK(ids(bert->encode_pair("a a a a", "b", 6)) == Ids{1, 3, 3, 2, 4, 2});
  CHECK(ids(bert->encode_pair("a", "b b b b", 6)) == Ids{1, 3, 2, 4, 4, 2});
  CHECK(ids(bert->encode_pair("a a a a", "b b b b", 6)) == Ids{1, 3, 2, 4, 4, 2});
  CHECK(ids(bert->encode_pair("a a a a", "b b b", 6)) == Ids{1, 3, 3, 2, 4, 2});
  CHECK(ids(bert->encode_pair("a", "b", 5)) == Ids{1, 3, 2, 4, 2});
  CHECK(ids(bert->encode_pair("a", "b", 0)) == Ids{1, 2, 2});
  CHECK(ids(bert->encode_limited("a a a", 4)) == Ids{1, 3, 3, 2});
  CHECK(types(bert->encode_limited("a a a", 4)) == Ids{0, 0, 0, 0});
  CHECK(ids(bert->encode_limited("a", 1)) == Ids{1, 2});
  CHECK(ids(bert->encode_limited("a", Tokenizer::kNoLimit)) == bert->encode("a", true));
  document["post_processor"]["type"] = "RobertaProcessing";
  CHECK(ids(make(document)->encode_pair("a", "b")) == Ids{1, 3, 2, 2, 4, 2});
  CHECK(types(make(document)->encode_pair("a", "b")) == Ids{0, 0, 0, 0, 0, 0});
  auto text = [](const char* name, int type) {
    return json{{"Sequence", {{"id", name}, {"type_id", type}}}};
  };
  auto token = [](int type) { return json{{"SpecialToken", {{"id", "x"}, {"type_id", type}}}}; };
  document["post_processor"] = {{"type", "TemplateProcessing"},
                                {"single", {token(0), text("A", 2)}},
                                {"pair", {text("B", 1), token(3), text("A", 0)}},
                                {"special_tokens", {{"x", {{"id", "x"}, {"ids", {1, 2}}}}}}};
  auto made = make(document);
  CHECK(ids(made->encode_limited("a", 9)) == Ids{1, 2, 3});
  CHECK(types(made->encode_limited("a", 9)) == Ids{0, 0, 2});
  CHECK(ids(made->encode_pair("a", "b")) == Ids{4, 1, 2, 3});
  CHECK(types(made->encode_pair("a", "b")) == Ids{1, 3, 3, 0});
  document["post_processor"]["pair"] = {text("A", 0), token(0)};
  CHECK(says(Tokenizer::parse_json(document.dump(), "t.json"), {"post_processor.pair", "\"B\""}) == "");
}

TEST_CASE("text: a suffix marks the end of a word") {
  auto tokenizer =
      make({{"decoder", {{"type", "BPEDecoder"}, {"suffix", "</w>"}}},
            {"model", {{"type", "BPE"}, {"vocab", {{"a</w>", 0}, {"b", 1}}}, {"merges", json::array()}}}});
  CHECK(tokenizer->decode(Ids{0, 1, 0}, true) == "a ba");
  CHECK(tokenizer->decode(Ids{}, true) == "");
}
