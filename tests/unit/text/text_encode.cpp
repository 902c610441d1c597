// encode and decode with unusual text, and with settings that no fixture has.
#include <atomic>
#include <cstdio>
#include <ctime>
#include <thread>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "support/files/fixtures.h"
#include "support/sanitized.h"
#include "text/tokenizer.h"
#include "text/unicode/unicode.h"

using namespace pumice;
using nlohmann::json;
using Ids = std::vector<uint32_t>;

namespace {

std::shared_ptr<const Tokenizer> make(const char* text) {
  auto tokenizer = Tokenizer::parse_json(text, "test.json");
  REQUIRE_MESSAGE(tokenizer.ok(), tokenizer.error().text());
  return *tokenizer;
}

std::string streamed(const std::shared_ptr<const Tokenizer>& tokenizer, const Ids& ids) {
  StreamDecoder decoder(tokenizer, true);
  std::string text;
  for (uint32_t id : ids) text += decoder.push(id);
  return text + decoder.flush();
}

// Returns "" if a pre-tokenizer cuts a text into the expected pieces, otherwise the pieces that it gives.
// Each expected piece is a token; ignore_merges keeps whole pieces as tokens, and any other text is unknown.
std::string pieces(const std::string& pre_tokenizer, std::string_view text,
                   std::vector<std::string> expected) {
  json vocabulary = {{"?", 0}};
  for (const std::string& piece : expected) {
    if (!vocabulary.contains(piece)) vocabulary[piece] = vocabulary.size();
  }
  json document = {{"pre_tokenizer", json::parse(pre_tokenizer)},
                   {"model",
                    {{"type", "BPE"},
                     {"ignore_merges", true},
                     {"unk_token", "?"},
                     {"vocab", vocabulary},
                     {"merges", json::array()}}}};
  auto tokenizer = Tokenizer::parse_json(document.dump(), "test.json");
  REQUIRE_MESSAGE(tokenizer.ok(), tokenizer.error().text());
  Ids ids = (*tokenizer)->encode(text, false);
  std::string got;
  for (uint32_t id : ids) got.append((*tokenizer)->piece(id)).append("|");
  std::string wanted;
  for (const std::string& piece : expected) wanted.append(piece).append("|");
  return got == wanted ? "" : got;
}

std::string normalized(const std::string& normalizer, std::string_view text) {
  json vocabulary = json::object();
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", byte);
    vocabulary[name] = byte;
  }
  json document = {
      {"normalizer", json::parse(normalizer)},
      {"decoder", {{"type", "ByteFallback"}}},
      {"model",
       {{"type", "BPE"}, {"byte_fallback", true}, {"vocab", vocabulary}, {"merges", json::array()}}}};
  auto tokenizer = Tokenizer::parse_json(document.dump(), "test.json");
  REQUIRE_MESSAGE(tokenizer.ok(), tokenizer.error().text());
  return (*tokenizer)->decode((*tokenizer)->encode(text, false), true);
}

// In processor time, so that other work on the machine does not count.
double seconds(auto&& work) {
  std::clock_t begin = std::clock();
  work();
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

} // namespace

TEST_CASE("text: split behaviors") {
  auto split = [](std::string behavior, bool invert = false) {
    return R"({"type":"Split","pattern":{"String":"-"},"behavior":")" + behavior + R"(","invert":)" +
           (invert ? "true}" : "false}");
  };
  std::string text = "the-final--countdown";
  CHECK(pieces(split("Removed"), text, {"the", "final", "countdown"}) == "");
  CHECK(pieces(split("Isolated"), text, {"the", "-", "final", "-", "-", "countdown"}) == "");
  CHECK(pieces(split("MergedWithPrevious"), text, {"the-", "final-", "-", "countdown"}) == "");
  CHECK(pieces(split("MergedWithNext"), text, {"the", "-final", "-", "-countdown"}) == "");
  CHECK(pieces(split("Contiguous"), text, {"the", "-", "final", "--", "countdown"}) == "");
  CHECK(pieces(split("Removed", true), text, {"-", "-", "-"}) == "");
  CHECK(pieces(R"({"type":"Split","pattern":{"Regex":"\\d"},"behavior":"Removed"})", "a1b22c",
               {"a", "b", "c"}) == "");
  CHECK(pieces(R"({"type":"Split","pattern":{"Regex":""},"behavior":"Isolated"})", "ab", {"a", "b"}) == "");
}

TEST_CASE("text: pre-tokenizers") {
  CHECK(pieces(R"({"type":"Digits","individual_digits":true})", "a12٣b", {"a", "1", "2", "٣", "b"}) == "");
  CHECK(pieces(R"({"type":"Digits"})", "a12٣b", {"a", "12٣", "b"}) == "");
  CHECK(pieces(R"({"type":"Punctuation"})", "a,.b「c", {"a", ",", ".", "b", "「", "c"}) == "");
  CHECK(pieces(R"({"type":"Whitespace"})", "Hey man! x_y\t--", {"Hey", "man", "!", "x_y", "--"}) == "");
  CHECK(pieces(R"({"type":"WhitespaceSplit"})", " Hey\u00A0man! ", {"Hey", "man!"}) == "");
  CHECK(pieces(R"({"type":"BertPreTokenizer"})", "Hey, man", {"Hey", ",", "man"}) == "");
  CHECK(pieces(R"({"type":"CharDelimiterSplit","delimiter":"é"})", "aébé", {"a", "b"}) == "");
  CHECK(pieces(R"({"type":"Metaspace"})", "Hey  man", {"▁Hey", "▁", "▁man"}) == "");
  CHECK(pieces(R"({"type":"Metaspace","prepend_scheme":"never"})", "Hey man", {"Hey", "▁man"}) == "");
  CHECK(pieces(R"({"type":"Metaspace","add_prefix_space":false})", "Hey man", {"Hey", "▁man"}) == "");
  CHECK(pieces(R"({"type":"Metaspace","split":false})", "Hey man", {"▁Hey▁man"}) == "");
  CHECK(
      pieces(
          R"({"type":"Sequence","pretokenizers":[{"type":"WhitespaceSplit"},{"type":"Metaspace","prepend_scheme":"first"}]})",
          "Hey man", {"▁Hey", "man"}) == "");
  CHECK(pieces(R"({"type":"Sequence","pretokenizers":[{"type":"WhitespaceSplit"},{"type":"Metaspace"}]})",
               "Hey man", {"▁Hey", "▁man"}) == "");
  CHECK(pieces(R"({"type":"ByteLevel"})", "a é", {"Ġa", "ĠÃ©"}) == "");
  CHECK(pieces(R"({"type":"Split","pattern":{"Regex":" ?[^(\\s|[.,!])]+"},"behavior":"Isolated"})", "a b.c",
               {"a", " b", ".", "c"}) == "");
  CHECK(pieces(R"({"type":"Split","pattern":{"Regex":"\\s"},"behavior":"Removed"})", "a\u180Eb\u3000c",
               {"a\u180Eb", "c"}) == "");
}

TEST_CASE("text: normalizers") {
  CHECK(normalized(R"({"type":"NFC"})", "e\u0301") == "é");
  CHECK(normalized(R"({"type":"NFD"})", "é\u0323") == "e\u0323\u0301"); // marks in order
  CHECK(normalized(R"({"type":"NFKC"})", "ﬁ½") == "fi1⁄2");
  CHECK(normalized(R"({"type":"NFKD"})", "Å한") == "A\u030A\u1112\u1161\u11AB");
  CHECK(normalized(R"({"type":"NFC"})", "\u1112\u1161\u11AB") == "한");
  CHECK(normalized(R"({"type":"Lowercase"})", "ÀBİẞ") == "àbi̇ß");
  CHECK(normalized(R"({"type":"Strip"})", " \u3000a b\n") == "a b");
  CHECK(normalized(R"({"type":"Strip","strip_left":false})", " a ") == " a");
  CHECK(normalized(R"({"type":"Prepend","prepend":"xy"})", "a") == "xya");
  CHECK(normalized(R"({"type":"Replace","pattern":{"Regex":" {2,}"},"content":"."})", "a   b c") == "a.b c");
  CHECK(normalized(R"({"type":"Replace","pattern":{"String":""},"content":"."})", "ab") == "ab");
  CHECK(normalized(R"({"type":"Sequence","normalizers":[{"type":"NFD"},{"type":"StripAccents"}]})", "éÅ") ==
        "eA");
}

TEST_CASE("text: added tokens") {
  auto tokenizer = make(R"({"added_tokens":[
      {"id":2,"content":"<l>","lstrip":true},{"id":3,"content":"<r>","rstrip":true},
      {"id":4,"content":"word","single_word":true},{"id":5,"content":"<ll>","special":true},{"id":6,"content":"<l","special":false}],
    "decoder":{"type":"Fuse"},"model":{"type":"BPE","unk_token":"?","vocab":{"?":0," ":1},"merges":[]}})");
  CHECK(tokenizer->encode("   <l>  ", false) == Ids{2, 1, 1});
  CHECK(tokenizer->encode("  <r>  ", false) == Ids{1, 1, 3});
  CHECK(tokenizer->encode("word words word", false) == Ids{4, 1, 0, 0, 0, 0, 0, 1, 4});
  CHECK(tokenizer->encode("<ll><l<l>", false) == Ids{5, 6, 2});
  CHECK(tokenizer->decode(Ids{5, 6, 2}, false) == "<l<l>");
  CHECK(tokenizer->decode(Ids{5, 6, 2}, true) == "<ll><l<l>");
  CHECK(tokenizer->vocabulary_size() == 7);
  CHECK(tokenizer->find("<ll>") == 5);
  // This token is searched for after normalization, and is normalized itself.
  tokenizer = make(
      R"({"added_tokens":[{"id":1,"content":"ABC","normalized":true},{"id":2,"content":"DEF","normalized":false}],
    "normalizer":{"type":"Lowercase"},"model":{"type":"BPE","unk_token":"?","vocab":{"?":0},"merges":[]}})");
  CHECK(tokenizer->encode("AbcDEF", false) == Ids{1, 2});
  CHECK(tokenizer->encode("def", false) == Ids{0, 0, 0});
}

TEST_CASE("text: unknown characters") {
  auto model = [](const std::string& settings) {
    return make((R"({"model":{"type":"BPE","vocab":{"?":0,"a":1,"<0xC3>":2,"<0xA9>":3},"merges":[])" +
                 settings + "}}")
                    .c_str());
  };
  CHECK(model("")->encode("aéa", false) == Ids{1, 1});
  CHECK(model(R"(,"unk_token":"?")")->encode("xxa\xFF\xFE", false) == Ids{0, 0, 1, 0, 0});
  CHECK(model(R"(,"unk_token":"?","fuse_unk":true)")->encode("xxa\xFF\xFE", false) == Ids{0, 1, 0});
  CHECK(model(R"(,"unk_token":"?","byte_fallback":true)")->encode("aéx", false) == Ids{1, 2, 3, 0});
  CHECK(model(R"(,"byte_fallback":true)")->encode("a\xC3", false) == Ids{1, 2});
}

TEST_CASE("text: prefixes and suffixes of words") {
  auto tokenizer =
      make(R"({"pre_tokenizer":{"type":"WhitespaceSplit"},"model":{"type":"BPE","end_of_word_suffix":"</w>",
    "vocab":{"a":0,"b</w>":1,"ab</w>":2,"a</w>":3},"merges":["a b</w>"]}})");
  CHECK(tokenizer->encode("ab a aab", false) == Ids{2, 3, 0, 2});
  tokenizer = make(R"({"model":{"type":"BPE","continuing_subword_prefix":"##",
    "vocab":{"a":0,"##b":1,"ab":2,"##c":3,"abc":4},"merges":["a ##b","ab ##c"]}})");
  CHECK(tokenizer->encode("abc", false) == Ids{4});
}

TEST_CASE("text: decoders") {
  auto decoded = [](const std::string& decoder, const Ids& ids) {
    auto tokenizer = make(
        (R"({"decoder":)" + decoder +
         R"(,"model":{"type":"BPE","vocab":{"▁":0,"▁a":1,"b▁▁":2,"<0xC3>":3,"<0xA9>":4,"  c  ":5,"Ã":6,"©":7},"merges":[]}})")
            .c_str());
    std::string text = tokenizer->decode(ids, true);
    CHECK(streamed(tokenizer, ids) == text);
    return text;
  };
  CHECK(decoded("null", {1, 2}) == "▁a b▁▁");
  CHECK(decoded(R"({"type":"Metaspace"})", {1, 1, 2}) == "a ab  ");
  CHECK(decoded(R"({"type":"Metaspace","prepend_scheme":"never"})", {1, 1}) == " a a");
  CHECK(decoded(R"({"type":"ByteFallback"})", {3, 4, 1}) == "é▁a");
  CHECK(decoded(R"({"type":"ByteFallback"})", {4, 3, 1, 3}) == "��▁a�");
  CHECK(decoded(R"({"type":"ByteLevel"})", {6, 7, 7, 6}) == "é��");
  CHECK(decoded(R"({"type":"Strip","content":" ","start":1,"stop":3})", {5, 5}) == " c c");
  CHECK(
      decoded(
          R"({"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"Strip","content":" ","start":9,"stop":1}]})",
          {5, 5}) == "c    c ");
  CHECK(
      decoded(
          R"({"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"Replace","pattern":{"String":"    "},"content":"-"}]})",
          {5, 5}) == "  c-c  ");
  CHECK(decoded(R"({"type":"Replace","pattern":{"Regex":"[ c]+"},"content":"-"})", {5, 5}) == "--");
}

TEST_CASE("text: bytes that are no text") {
  std::string every;
  for (int byte = 0; byte < 256; ++byte) every.push_back(static_cast<char>(byte));
  for (const char* name : {"gpt2", "llama3", "qwen2", "roberta", "llama2", "gemma"}) {
    CAPTURE(name);
    auto tokenizer = *Tokenizer::load(fixtures().tokenizer(name) / "tokenizer.json");
    for (std::string text :
         {every,
          std::string("a\xFF"
                      "b"),
          std::string("\xF0\x9F\x98"), std::string("x\xED\xB2\x80y"), std::string("\x80")}) {
      Ids ids = tokenizer->encode(text, false);
      std::string expected;
      auto per = std::string_view(name) == "llama2" || std::string_view(name) == "gemma"
                     ? text::Utf8Assembler::Broken::each_byte
                     : text::Utf8Assembler::Broken::each_sequence;
      text::Utf8Assembler assembler(per);
      assembler.push(text, expected);
      assembler.finish(expected);
      CHECK(tokenizer->decode(ids, true) == expected);
      CHECK(streamed(tokenizer, ids) == expected);
    }
  }
}

TEST_CASE("text: a stream returns whole characters, and can be used again") {
  auto tokenizer = make(
      R"({"decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},
    {"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]},
    "model":{"type":"BPE","vocab":{"▁a":0,"<0xF0>":1,"<0x9F>":2,"<0x98>":3,"<0x80>":4},"merges":[]}})");
  StreamDecoder decoder(tokenizer);
  for (int round = 0; round < 2; ++round) {
    CHECK(decoder.push(0) == "a");
    CHECK(decoder.push(99) == "");
    CHECK(decoder.push(0) == " a");
    CHECK(decoder.push(1) == "");
    CHECK(decoder.push(2) == "");
    CHECK(decoder.push(3) == "");
    CHECK(decoder.push(4) == "😀");
    CHECK(decoder.push(1) == "");
    CHECK(decoder.flush() == "�");
    CHECK(decoder.flush() == "");
  }
  StreamDecoder other(std::move(decoder));
  decoder = std::move(other);
  CHECK(decoder.push(0) == "a");
}

TEST_CASE("text: long texts take time in proportion") {
  constexpr size_t kLength = sanitized ? 1 << 18 : 1 << 20;
  std::string words, accents = "e", sentences;
  while (words.size() < kLength) words += "the quick brown fox, " + std::to_string(words.size()) + "\n";
  while (accents.size() < kLength) accents += accents.size() % 4 < 2 ? "\u0323" : "\u0301";
  std::string texts[] = {std::string(kLength, 'a'),
                         std::string(kLength, ' '),
                         std::string(kLength, '\n'),
                         words,
                         accents,
                         std::string(kLength, '\xFF'),
                         std::string(kLength, ' ') + "x"};
  for (const char* name : {"gpt2", "llama3", "qwen2", "roberta", "llama2", "gemma"}) {
    auto tokenizer = *Tokenizer::load(fixtures().tokenizer(name) / "tokenizer.json");
    for (const std::string& text : texts) {
      CAPTURE(name);
      CAPTURE(text.substr(0, 8));
      Ids ids;
      double took = seconds([&] { ids = tokenizer->encode(text, true); });
      std::string back;
      double back_took = seconds([&] { back = tokenizer->decode(ids, false); });
      INFO(took << " s to encode, " << back_took << " s to decode");
      CHECK(took < (sanitized ? 10 : 2));
      CHECK(back_took < (sanitized ? 10 : 2));
      if (text::is_valid_utf8(text) && text != accents) CHECK(back == text);
    }
  }
}

TEST_CASE("text: a pattern that backtracks too long is stopped") {
  auto tokenizer =
      make(R"({"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(a+)+$|(?:a|a)*b"},"behavior":"Isolated"},
    "decoder":{"type":"Fuse"},"model":{"type":"BPE","vocab":{"a":0,"!":1},"merges":[]}})");
  std::string text(5000, 'a');
  text += "!";
  Ids ids;
  CHECK(seconds([&] { ids = tokenizer->encode(text, false); }) < 20);
  CHECK(tokenizer->decode(ids, false) == text);
}

TEST_CASE("text: one tokenizer serves many threads") {
  auto tokenizer = *Tokenizer::load(fixtures().tokenizer("llama3") / "tokenizer.json");
  Ids expected = tokenizer->encode("The quick brown fox", true);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 200; ++round)
        wrong += tokenizer->encode("The quick brown fox", true) != expected;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}
