#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>

#include <doctest/doctest.h>

#include "io/formats/gguf.h"
#include "support/character_map.h"
#include "support/command/messages.h"
#include "support/files/fixtures.h"
#include "text/formats/gguf_splits.h"
#include "text/tokenizer.h"

using namespace pumice;
using Gguf = Tokenizer::GgufVocabulary;

namespace {

std::string streamed(const std::shared_ptr<const Tokenizer>& tokenizer, const std::vector<uint32_t>& ids) {
  StreamDecoder decoder(tokenizer);
  std::string text;
  for (uint32_t id : ids) text += decoder.push(id);
  return text + decoder.flush();
}

// Ids 0 to 2 are special tokens, then come the 256 bytes, then a few tokens in order of their scores.
struct SmallLlama {
  std::vector<std::string> names = {"<unk>", "<s>", "</s>"};
  Gguf gguf;

  SmallLlama() {
    for (int byte = 0; byte < 256; ++byte) {
      char name[8];
      std::snprintf(name, sizeof name, "<0x%02X>", byte);
      names.push_back(name);
    }
    for (const char* name : {"▁", "a", "b", "c", "aa", "ab", "bc", "▁a", "abc", "<user>"})
      names.push_back(name);
    gguf.file = "small.gguf";
    gguf.model = "llama";
    gguf.tokens.assign(names.begin(), names.end());
    for (size_t i = 0; i < names.size(); ++i) {
      gguf.scores.push_back(-static_cast<float>(i));
      gguf.types.push_back(i == 0 ? 2 : i < 3 ? 3 : i < 259 ? 6 : i + 1 == names.size() ? 4 : 1);
    }
    gguf.unknown = 0;
    gguf.bos = 1;
    gguf.eos = 2;
    gguf.add_bos = true;
  }

  std::vector<uint32_t> ids(std::initializer_list<std::string_view> pieces) const {
    std::vector<uint32_t> out;
    for (std::string_view piece : pieces) {
      for (uint32_t id = 0; id < names.size(); ++id) {
        if (names[id] == piece) out.push_back(id);
      }
    }
    return out;
  }
};

struct SmallGpt2 {
  Gguf gguf;
  SmallGpt2() {
    gguf.file = "small.gguf";
    gguf.model = "gpt2";
    gguf.pre = "gpt-2";
    gguf.tokens = {"a", "b", "Ġ", "ab", "Ġab", "Ã", "©", "<|end|>", "1", "11", "111"};
    gguf.types = {1, 1, 1, 1, 1, 1, 1, 3, 1, 1, 1};
    gguf.merges = {"a b", "Ġ ab", "1 1", "11 1"};
  }
};

} // namespace

TEST_CASE("text: a GGUF file's own vocabulary") {
  std::ifstream in(fixtures().story(), std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), {});
  auto file = GgufFile::parse(std::as_bytes(std::span(bytes)), "stories.gguf");
  REQUIRE(file.ok());
  Gguf gguf;
  gguf.file = "stories.gguf";
  gguf.model = file->metadata.at("tokenizer.ggml.model");
  gguf.tokens = file->arrays.at("tokenizer.ggml.tokens").strings();
  gguf.scores = file->arrays.at("tokenizer.ggml.scores").floats();
  for (int64_t type : file->arrays.at("tokenizer.ggml.token_type").integers()) {
    gguf.types.push_back(static_cast<int32_t>(type));
  }
  gguf.bos = file->metadata.at("tokenizer.ggml.bos_token_id").get<uint32_t>();
  gguf.eos = file->metadata.at("tokenizer.ggml.eos_token_id").get<uint32_t>();
  gguf.add_bos = true;
  auto tokenizer = Tokenizer::from_gguf(gguf);
  REQUIRE_MESSAGE(tokenizer.ok(), tokenizer.error().text());
  CHECK((*tokenizer)->vocabulary_size() == 512);
  for (std::string text : {"", "Once upon a time, there was a little girl named Lily.", " leading",
                           "two  spaces", "naïve café 東京 😀", "\n\n\t", "▁", "a\tb\r\n", "x"}) {
    CAPTURE(text);
    auto ids = (*tokenizer)->encode(text, true);
    REQUIRE(!ids.empty());
    CHECK(ids[0] == 1);
    std::string back = text == "▁" ? " " : text; // SentencePiece writes both the same
    CHECK((*tokenizer)->decode(ids, false) == back);
    CHECK(streamed(*tokenizer, ids) == back);
  }
  CHECK((*tokenizer)->encode("Once upon a time", true) == std::vector<uint32_t>{1, 403, 407, 261, 378});
}

TEST_CASE("text: SentencePiece joins the best pair first and falls back to bytes") {
  SmallLlama small;
  auto tokenizer = *Tokenizer::from_gguf(small.gguf);
  CHECK(tokenizer->encode("", true) == std::vector<uint32_t>{1});
  CHECK(tokenizer->encode("", false).empty());
  CHECK(tokenizer->encode("abc", false) == small.ids({"▁", "abc"})); // ab beats bc and ▁a, abc beats them all
  CHECK(tokenizer->encode("aaa", false) == small.ids({"▁", "aa", "a"})); // the leftmost of two equal pairs
  CHECK(tokenizer->encode("bé", false) == small.ids({"▁", "b", "<0xC3>", "<0xA9>"}));
  CHECK(tokenizer->encode("\xC3\xFF", false) == small.ids({"▁", "<0xC3>", "<0xFF>"}));
  CHECK(tokenizer->encode("b</s>b", false) == small.ids({"▁", "b", "</s>", "▁", "b"}));
  CHECK(tokenizer->encode("<user>", false) == small.ids({"<user>"}));
  CHECK(tokenizer->decode(small.ids({"▁a", "</s>", "<user>"}), false) == "a<user>");
  CHECK(tokenizer->decode(small.ids({"▁a", "</s>"}), true) == "a</s>");
  CHECK(tokenizer->decode(small.ids({"<0xE6>", "<0x9D>", "a"}), false) == "��a");
  CHECK(tokenizer->is_special(1));
  CHECK_FALSE(tokenizer->is_special(tokenizer->find("<user>").value()));
  small.gguf.add_space_prefix = false;
  small.gguf.add_eos = true;
  tokenizer = *Tokenizer::from_gguf(small.gguf);
  CHECK(tokenizer->encode("b", true) == small.ids({"<s>", "b", "</s>"}));
  CHECK(tokenizer->decode(small.ids({"▁", "b"}), false) == " b");
}

TEST_CASE("text: byte-level vocabularies of GGUF files") {
  SmallGpt2 small;
  auto tokenizer = *Tokenizer::from_gguf(small.gguf);
  CHECK(tokenizer->encode("ab ab<|end|>é", true) == std::vector<uint32_t>{3, 4, 7, 5, 6});
  CHECK(tokenizer->decode(std::vector<uint32_t>{3, 4, 7, 5, 6}, false) == "ab abé");
  CHECK(tokenizer->encode("\xC3", false) == std::vector<uint32_t>{5}); // half a character
  CHECK(tokenizer->decode(std::vector<uint32_t>{5}, false) == "\xEF\xBF\xBD");
  CHECK(tokenizer->encode("1111", false) == std::vector<uint32_t>{9, 9});
  small.gguf.pre = "llama-bpe"; // three digits at a time
  tokenizer = *Tokenizer::from_gguf(small.gguf);
  CHECK(tokenizer->encode("1111", false) == std::vector<uint32_t>{10, 8});
  small.gguf.pre = "qwen2"; // one by one
  tokenizer = *Tokenizer::from_gguf(small.gguf);
  CHECK(tokenizer->encode("1111", false) == std::vector<uint32_t>{8, 8, 8, 8});
}

TEST_CASE("text: a byte-level vocabulary with each split that GGUF files name") {
  SmallGpt2 small;
  small.gguf.pre = "?";
  CHECK(says(Tokenizer::from_gguf(small.gguf), {"small.gguf", "tokenizer.ggml.pre", "\"?\""}) == "");
  for (const text::GgufSplit& split : text::gguf_splits()) {
    if (split.spelling != text::GgufSpelling::bytes) continue;
    small.gguf.pre = split.name;
    CAPTURE(small.gguf.pre);
    auto tokenizer = Tokenizer::from_gguf(small.gguf);
    REQUIRE_MESSAGE(tokenizer.ok(), tokenizer.error().text());
    CHECK((*tokenizer)->decode((*tokenizer)->encode("ab ab, 11é", false), false) ==
          "ab ab 11é"); // it has no comma
  }
}

TEST_CASE("text: BERT's vocabulary in a GGUF file") {
  Gguf gguf;
  gguf.file = "small.gguf";
  gguf.model = "bert";
  gguf.tokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "▁un", "able", "▁东", "▁.", "[MASK]"};
  auto tokenizer = *Tokenizer::from_gguf(gguf);
  CHECK(tokenizer->encode("Unable. 东x[MASK]", true) == std::vector<uint32_t>{2, 4, 5, 7, 6, 1, 8, 3});
  CHECK(tokenizer->encode_pair("un", "un").types == std::vector<uint32_t>{0, 0, 0, 1, 1});
  CHECK(tokenizer->decode(std::vector<uint32_t>{2, 4, 5, 7, 3}, false) == "unable.");
  CHECK(tokenizer->piece(5) == "##able");
  CHECK(tokenizer->bos() == 2u);
  gguf.tokens.push_back("▁UN"); // a capital letter, so the text is not lower-cased
  CHECK((*Tokenizer::from_gguf(gguf))->encode("UN Un", false) == std::vector<uint32_t>{9, 1});
  gguf.tokens[3] = "[sep]";
  CHECK(says(Tokenizer::from_gguf(gguf), {"small.gguf: tokenizer.ggml.seperator_token_id", "[SEP]"}) == "");
  gguf.separator = 3;
  CHECK(Tokenizer::from_gguf(gguf).ok());
  gguf.separator = 99;
  CHECK(says(Tokenizer::from_gguf(gguf), {"seperator_token_id", "99"}) == "");
}

TEST_CASE("text: T5's vocabulary in a GGUF file") {
  const std::string map = character_map({{"A", "a"}, {"\t", " "}});
  Gguf gguf;
  gguf.file = "small.gguf";
  gguf.model = "t5";
  gguf.tokens = {"<pad>", "</s>", "<unk>", "▁", "a", "b", "▁ab", "▁a", "<user>"};
  gguf.scores = {0, 0, 0, -2, -1, -1, -2.5f, -3, -50};
  gguf.types = {3, 3, 2, 1, 1, 1, 1, 1, 4};
  gguf.eos = 1;
  gguf.unknown = 2;
  gguf.add_eos = true;
  gguf.character_map = map;
  gguf.remove_extra_whitespaces = true;
  auto tokenizer = *Tokenizer::from_gguf(gguf);
  CHECK(tokenizer->encode(" Ab\t\tb ", true) == std::vector<uint32_t>{6, 3, 5, 1});
  CHECK(tokenizer->encode("a東京a", false) == std::vector<uint32_t>{7, 2, 4});
  CHECK(tokenizer->encode("<user></s>", true) == std::vector<uint32_t>{8, 1, 1});
  CHECK(tokenizer->decode(std::vector<uint32_t>{6, 3, 5, 1}, false) == "ab b");
  gguf.remove_extra_whitespaces = false;
  CHECK((*Tokenizer::from_gguf(gguf))->encode("a  b", false) == std::vector<uint32_t>{7, 3, 3, 5});
  gguf.character_map = "damaged";
  CHECK(says(Tokenizer::from_gguf(gguf), {"small.gguf: tokenizer.ggml.precompiled_charsmap"}) == "");
  gguf.scores.clear();
  CHECK(says(Tokenizer::from_gguf(gguf), {"scores"}) == "");
}

TEST_CASE("text: wrong GGUF vocabularies") {
  auto broken = [](auto&& break_it) {
    SmallLlama small;
    break_it(small.gguf);
    return Tokenizer::from_gguf(small.gguf);
  };
  CHECK(says(broken([](Gguf& g) { g.model = "rwkv"; }), {"small.gguf", "tokenizer.ggml.model", "rwkv"}) ==
        "");
  CHECK(says(broken([](Gguf& g) { g.scores.pop_back(); }), {"scores", "269", "268"}) == "");
  CHECK(says(broken([](Gguf& g) { g.scores.clear(); }), {"scores", "269"}) == "");
  CHECK(says(broken([](Gguf& g) { g.scores[7] = NAN; }), {"scores[7]", "NaN"}) == "");
  CHECK(says(broken([](Gguf& g) { g.types.push_back(1); }), {"token_type", "269", "270"}) == "");
  CHECK(says(broken([](Gguf& g) { g.types[4] = 77; }), {"token_type[4]", "77"}) == "");
  CHECK(says(broken([](Gguf& g) { g.bos = 269; }), {"bos_token_id", "269"}) == "");
  CHECK(says(broken([](Gguf& g) { g.eos = UINT32_MAX; }), {"eos_token_id", "4294967295"}) == "");
  CHECK(says(broken([](Gguf& g) { g.tokens.clear(), g.scores.clear(), g.types.clear(); }), {"small.gguf"}) ==
        "");
  CHECK(broken([](Gguf& g) { g.types.clear(); }).ok());
  const auto without_bos = broken([](Gguf& g) { g.bos.reset(); }); // though add_bos_token says true
  REQUIRE(without_bos.ok());
  CHECK((*without_bos)->encode("a", true) == SmallLlama().ids({"▁a"}));
  CHECK(broken([](Gguf& g) { g.tokens[268] = g.tokens[267] = ""; }).ok());
  CHECK(broken([](Gguf& g) { g.tokens[268] = "\xFF\xED\xB2"; }).ok());

  SmallGpt2 small;
  small.gguf.merges.push_back("ab");
  CHECK(says(Tokenizer::from_gguf(small.gguf), {"small.gguf", "tokenizer.ggml.merges[4]", "ab"}) == "");
  small.gguf.merges.back() = "a zz";
  CHECK(says(Tokenizer::from_gguf(small.gguf), {"small.gguf", "tokenizer.ggml.merges[4]", "zz"}) == "");
}
