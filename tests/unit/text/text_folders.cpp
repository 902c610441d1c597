// Folders without tokenizer.json, SentencePiece model files, and Whisper's tokens.
#include <cmath>
#include <functional>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "support/character_map.h"
#include "support/command/messages.h"
#include "support/files/sentence_piece.h"
#include "support/files/temporary_folder.h"
#include "text/formats/sentence_piece.h"
#include "text/tokenizer.h"
#include "text/whisper_tokens.h"

using namespace pumice;
using nlohmann::json;
using Ids = std::vector<uint32_t>;
using Spm = SentencePieceBuilder;

namespace {

std::shared_ptr<const Tokenizer> load(const TemporaryFolder& folder) {
  auto tokenizer = Tokenizer::load(folder.path());
  REQUIRE_MESSAGE(tokenizer.ok(), tokenizer.error().text());
  return *tokenizer;
}

// T5's order of special tokens.
Spm small_t5() {
  Spm spm;
  spm.add("<pad>", 0, Spm::control);
  spm.add("</s>", 0, Spm::control);
  spm.add("<unk>", 0, Spm::unknown);
  const std::pair<const char*, float> pieces[] = {{"▁", -2},      {"a", -1},  {"b", -1},
                                                  {"▁ab", -2.5f}, {"▁a", -3}, {"é", -4}};
  for (auto [text, score] : pieces) spm.add(text, score);
  spm.character_map = character_map({{"A", "a"}, {"e\u0301", "é"}, {"\t", " "}});
  return spm;
}

Spm small_marian() {
  Spm spm;
  spm.add("<unk>", 0, Spm::unknown);
  spm.add("<s>", 0, Spm::control);
  spm.add("</s>", 0, Spm::control);
  for (const char* text : {"▁", "▁hello", "h", "e", "l", "o", "w"}) spm.add(text, -1);
  return spm;
}

// The pieces, with "?" for unknown text.
std::string pieces_of(const text::SentencePiece& model, const text::SentencePieceFile& file,
                      std::string_view text) {
  std::vector<std::string> pieces;
  model.append_pieces(text, pieces);
  std::string joined;
  for (const std::string& piece : pieces) {
    bool known = false;
    for (const auto& other : file.pieces)
      known |= other.text == piece && other.type != text::SentencePieceFile::Type::unknown;
    joined += (known ? piece : "?") + "|";
  }
  return joined;
}

auto parse(const Spm& spm) {
  return text::parse_sentence_piece(spm.build(), "x.spm");
}

} // namespace

TEST_CASE("text: T5's folder with spiece.model") {
  TemporaryFolder folder;
  folder.write("spiece.model", small_t5().build());
  auto tokenizer = load(folder);
  CHECK(tokenizer->vocabulary_size() == 109); // with 100 sentinel tokens
  CHECK(tokenizer->encode("Ab  e\u0301 ", true) == Ids{6, 3, 8, 1});
  CHECK(tokenizer->encode("a\tb", false) == Ids{7, 3, 5});
  CHECK(tokenizer->encode("a東京", false) == Ids{7, 2});
  CHECK(tokenizer->encode("a\xFF", false) == Ids{7, 2});
  CHECK(tokenizer->encode("", true) == Ids{1});
  CHECK(tokenizer->encode("a<extra_id_0>b</s>", false) == Ids{7, 108, 3, 5, 1});
  CHECK(tokenizer->find("<extra_id_99>") == 9u);
  CHECK(tokenizer->eos() == 1u);
  CHECK(tokenizer->is_special(108));
  CHECK(tokenizer->decode(Ids{6, 3, 8, 1}, false) == "ab é");
  CHECK(tokenizer->encode_pair("a", "b").ids == Ids{7, 1, 3, 5, 1});
  folder.write("tokenizer_config.json", R"({"tokenizer_class": "T5Tokenizer", "extra_ids": 1})");
  CHECK(load(folder)->vocabulary_size() == 10);
  folder.write("tokenizer_config.json", R"({"extra_ids": -1})");
  CHECK(says(Tokenizer::load(folder.path()), {"tokenizer_config.json: extra_ids", "-1"}) == "");
  folder.write("tokenizer_config.json", R"({"tokenizer_class": "AlbertTokenizer"})");
  CHECK(says(Tokenizer::load(folder.path()), {"spiece.model", "albert"}) == "");
}

TEST_CASE("text: XLM-RoBERTa's ids are shifted") {
  TemporaryFolder folder;
  folder.write("sentencepiece.bpe.model", small_marian().build()); // its special tokens are in the same order
  folder.write("config.json", R"({"model_type": "xlm-roberta"})");
  auto tokenizer = load(folder);
  CHECK(tokenizer->encode("hello hex", true) == Ids{0, 5, 4, 6, 7, 3, 2});
  CHECK(tokenizer->find("<mask>") == 11u);
  CHECK(tokenizer->encode_pair("hello", "hello").ids == Ids{0, 5, 2, 2, 5, 2});
}

TEST_CASE("text: DeBERTa's folder with spm.model") {
  TemporaryFolder folder;
  Spm pieces;
  pieces.add("[PAD]", 0, Spm::control);
  pieces.add("[CLS]", 0, Spm::control);
  pieces.add("[SEP]", 0, Spm::control);
  pieces.add("[UNK]", 0, Spm::unknown);
  for (const char* piece : {"▁hello", "▁", "h", "e", "x"}) pieces.add(piece, -1);
  folder.write("spm.model", pieces.build());
  folder.write("config.json", R"({"model_type": "deberta-v2"})");
  const auto tokenizer = load(folder);
  CHECK(tokenizer->encode("hello hex", true) == Ids{1, 4, 5, 6, 7, 8, 2});
  CHECK(tokenizer->find("[MASK]") == 9u);
  const Tokenizer::Encoding pair = tokenizer->encode_pair("hello", "x");
  CHECK(pair.ids == Ids{1, 4, 2, 5, 8, 2});
  CHECK(pair.types == Ids{0, 0, 0, 1, 1, 1});
  folder.write("tokenizer_config.json", R"({"do_lower_case": true})");
  CHECK(says(Tokenizer::load(folder.path()), {"tokenizer_config.json", "do_lower_case"}) == "");
}

TEST_CASE("text: Marian's folder encodes one language and decodes the other") {
  TemporaryFolder folder;
  Spm target;
  target.add("<unk>", 0, Spm::unknown);
  target.add("▁bonjour", -1);
  target.add("▁", -1);
  target.add("w", -1);
  folder.write("source.spm", small_marian().build());
  folder.write("target.spm", target.build());
  folder.write("vocab.json",
               R"({"</s>": 0, "<unk>": 1, "▁hello": 2, "▁bonjour": 3, ">>fra<<": 4, "w": 5, "▁": 6,
                                 "東": 8, "<pad>": 7})");
  auto tokenizer = load(folder);
  CHECK(tokenizer->encode("hello", true) == Ids{2, 0});
  CHECK(tokenizer->encode(">>fra<< hello", true) == Ids{4, 2, 0});
  CHECK(tokenizer->encode(">>deu<< hello", true) == Ids{1, 2, 0});
  CHECK(tokenizer->encode("hello >>x<<", false) == Ids{2, 6, 1}); // only at the start
  CHECK(tokenizer->encode("hello hw", false) == Ids{2, 6, 1, 5}); // a piece that the vocabulary lacks
  CHECK(tokenizer->encode("", true) == Ids{0});
  CHECK(tokenizer->decode(Ids{3, 6, 5, 0}, false) == "bonjour w");
  CHECK(*tokenizer->encode_within("bonjour w") == Ids{3, 6, 5}); // by the rules of the other language
  CHECK(*tokenizer->encode_within("bonjour w") == Ids{3, 6, 5});
  CHECK(tokenizer->encode_within("")->empty());
  CHECK(tokenizer->encode("bonjour", false) != Ids{3});
  CHECK(tokenizer->eos() == 0u);
  CHECK(tokenizer->encode_limited("hello hello hello", 3).ids == Ids{2, 2, 0});
  folder.write("vocab.json", R"({"</s>": 0, "<unk>": 1})");
  CHECK(says(Tokenizer::load(folder.path()), {"vocab.json", "\"<pad>\""}) == "");
  folder.write("vocab.json", R"({"</s>": "0"})");
  CHECK(says(Tokenizer::load(folder.path()), {"vocab.json", "</s>"}) == "");
  folder.write("target.spm", "rubbish");
  CHECK(says(Tokenizer::load(folder.path()), {"target.spm", "SentencePiece"}) == "");
}

TEST_CASE("text: the sentencepiece library and the own implementation cut alike") {
  Spm bpe = small_marian();
  bpe.kind = 2;
  bpe.add("he", -2);
  bpe.add("lo", -3);
  Spm spaces = small_t5();
  spaces.add_prefix = spaces.remove_extra = false;
  Spm bytes = small_t5();
  bytes.add_prefix = false;
  for (const Spm& spm : {small_t5(), small_marian(), bpe, spaces, bytes}) {
    auto file = parse(spm);
    REQUIRE_MESSAGE(file.ok(), file.error().text());
    auto library = text::make_sentence_piece(**file), own = text::make_own_sentence_piece(**file);
    REQUIRE_MESSAGE(library.ok(), library.error().text());
    REQUIRE_MESSAGE(own.ok(), own.error().text());
    for (std::string text :
         {"", " ", "ab", "aab ba", "  a   b ", "hello low hell", "Ab\te\u0301", "abab", "▁a"}) {
      CAPTURE(text);
      CHECK(pieces_of(**library, **file, text) == pieces_of(**own, **file, text));
    }
  }
}

TEST_CASE("text: damaged SentencePiece files give errors") {
  const std::string whole = small_t5().build();
  CHECK(text::parse_sentence_piece(whole, "x.spm").ok());
  CHECK(says(text::parse_sentence_piece("", "x.spm"), {"x.spm", "no pieces"}) == "");
  for (size_t length = 1; length < whole.size(); length += length < 300 ? 1 : 97) {
    auto file = text::parse_sentence_piece(whole.substr(0, length), "x.spm");
    if (!file.ok()) CHECK(says(file, {"x.spm"}) == "");
    if (file.ok()) (void)text::make_sentence_piece(**file); // cut off between two fields
  }
  for (size_t at = 0; at < 400; ++at) { // only pieces and settings; the map has its own test
    for (int flip : {0x01, 0x08, 0x80, 0xFF}) {
      std::string broken = whole;
      broken[at] = static_cast<char>(broken[at] ^ flip);
      auto file = text::parse_sentence_piece(broken, "x.spm");
      if (!file.ok()) continue;
      auto model = text::make_sentence_piece(**file);
      if (model.ok()) pieces_of(**model, **file, "Ab e\u0301 \xED\xB3\xBF");
    }
  }
  auto with = [](const std::function<void(Spm&)>& change) {
    Spm spm = small_t5();
    change(spm);
    return parse(spm);
  };
  CHECK(says(with([](Spm& s) { s.add("a", -1); }), {"x.spm", "\"a\"", "twice"}) == "");
  CHECK(says(with([](Spm& s) { s.add("", -1); }), {"x.spm", "piece 9", "empty"}) == "");
  CHECK(says(with([](Spm& s) { s.add(std::string_view("x\0y", 3), -1); }), {"x.spm", "piece 9"}) == "");
  CHECK(says(with([](Spm& s) { s.add("x", NAN); }), {"x.spm", "score of piece 9"}) == "");
  CHECK(says(with([](Spm& s) { s.add("x", 0, Spm::unknown); }), {"x.spm", "one unknown", "2"}) == "");
  CHECK(says(with([](Spm& s) { s.kind = 9; }), {"x.spm", "model type", "found 9"}) == "");
  CHECK(says(with([](Spm& s) { s.character_map = "1234567"; }), {"x.spm", "character map"}) == "");
  CHECK(says(with([](Spm& s) { s.extra = "\x0F"; }), {"x.spm", "damaged"}) == "");
  CHECK(says(with([](Spm& s) { s.extra = Spm::bytes(2, Spm::number(24, 1)); }), {"x.spm", "after words"}) ==
        "");
}

TEST_CASE("text: BERT's folder with vocab.txt") {
  TemporaryFolder folder;
  folder.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nab\n##c\nÀ\r\n");
  auto tokenizer = load(folder);
  CHECK(tokenizer->encode("ABc [MASK]x", true) == Ids{2, 5, 6, 4, 1, 3});
  CHECK(tokenizer->encode_pair("ab", "ab").types == Ids{0, 0, 0, 1, 1});
  CHECK(tokenizer->decode(Ids{2, 5, 6, 3}, false) == "abc");
  folder.write("tokenizer_config.json", R"({"do_lower_case": false})");
  CHECK(load(folder)->encode("À AB", true) == Ids{2, 7, 1, 3});
  folder.write("special_tokens_map.json", R"({"cls_token": "<s>"})");
  CHECK(says(Tokenizer::load(folder.path()), {"vocab.txt", "\"<s>\""}) == "");
  folder.write("special_tokens_map.json", "[");
  CHECK(says(Tokenizer::load(folder.path()), {"special_tokens_map.json"}) == "");
  TemporaryFolder empty;
  CHECK(says(Tokenizer::load(empty.path()), {"tokenizer.json", "vocab.txt"}) == "");
}

TEST_CASE("text: folders with vocab.json and merges.txt") {
  TemporaryFolder folder;
  folder.write(
      "vocab.json",
      R"({"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "a": 4, "b": 5, "ab": 6, "Ġ": 7, "<mask>": 8})");
  folder.write("merges.txt", "#version: 0.2\na b\n");
  auto roberta = load(folder);
  CHECK(roberta->encode("ab <mask>a", true) == Ids{0, 6, 8, 4, 2}); // the mask takes the space before it
  CHECK(roberta->encode_pair("a", "b").ids == Ids{0, 4, 2, 2, 5, 2});
  CHECK(roberta->decode(Ids{0, 6, 7, 4, 2}, false) == "ab a");
  folder.write("merges.txt", "a b\na  b\n");
  CHECK(says(Tokenizer::load(folder.path()), {"merges.txt", "line 2"}) == "");
  TemporaryFolder gpt2;
  gpt2.write("vocab.json", R"({"a": 0, "<|endoftext|>": 1})");
  gpt2.write("merges.txt", "");
  CHECK(load(gpt2)->encode("a<|endoftext|>", true) == Ids{0, 1});
  CHECK(load(gpt2)->is_special(1));
  gpt2.write("vocab.json", "{");
  CHECK(says(Tokenizer::load(gpt2.path()), {"vocab.json"}) == "");
}

TEST_CASE("text: Whisper's tokens are found by name") {
  TemporaryFolder folder;
  folder.write("config.json", R"({"model_type": "whisper"})");
  folder.write("vocab.json", R"({"a": 0, "b": 1, "<|endoftext|>": 2})");
  folder.write("merges.txt", "#version: 0.2\n");
  folder.write("added_tokens.json",
               R"({"<|startoftranscript|>": 3, "<|en|>": 4, "<|yue|>": 5, "<|translate|>": 6,
                                        "<|transcribe|>": 7, "<|notimestamps|>": 9, "<|nocaptions|>": 8})");
  auto tokenizer = load(folder);
  CHECK(tokenizer->encode("ab", true) == Ids{3, 9, 0, 1, 2});
  CHECK(tokenizer->encode("<|en|>a", false) == Ids{4, 0});
  auto found = WhisperTokens::find(*tokenizer);
  REQUIRE_MESSAGE(found.ok(), found.error().text());
  const WhisperTokens& whisper = *found;
  CHECK(whisper.start() == 3);
  CHECK(whisper.end() == 2);
  CHECK(*whisper.language("yue") == 5);
  CHECK(*whisper.language("Cantonese") == 5);
  CHECK(*whisper.language("english") == *whisper.language("en"));
  CHECK(says(whisper.language("German"), {"\"German\"", "en, yue"}) == "");
  CHECK(whisper.languages().size() == 2);
  CHECK(*whisper.transcribe() == 7);
  CHECK(*whisper.translate() == 6);
  CHECK(says(whisper.language("xx"), {"\"xx\"", "en, yue"}) == "");
  CHECK(whisper.first_timestamp() == 10); // not in the vocabulary
  CHECK_FALSE(whisper.seconds(9).has_value());
  CHECK(whisper.seconds(10) == 0.0);
  CHECK(whisper.seconds(1510).value() == doctest::Approx(30.0));
  CHECK(whisper.timestamp(2.0) == 110);
  folder.write("added_tokens.json", R"({"<|startoftranscript|>": 3, "<|notimestamps|>": 4, "<|0.00|>": 20})");
  auto english = WhisperTokens::find(*load(folder));
  REQUIRE(english.ok());
  CHECK(english->first_timestamp() == 20);
  CHECK(says(english->translate(), {"<|translate|>"}) == "");
  CHECK(says(english->language("en"), {"no tokens for languages"}) == "");
  folder.write("added_tokens.json", R"({"<|startoftranscript|>": 3})");
  CHECK(says(WhisperTokens::find(*load(folder)), {"<|notimestamps|>"}) == "");
}
