// Tokenizers of translators of many languages, and sentences.
#include <numeric>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "support/command/messages.h"
#include "support/files/sentence_piece.h"
#include "support/files/temporary_folder.h"
#include "text/language_tokens.h"
#include "text/tokenizer.h"
#include "text/unicode/sentences.h"

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

// Pieces 3 to 5 are "▁", "▁ja" and "n".
Spm small() {
  Spm spm;
  spm.add("<unk>", 0, Spm::unknown);
  spm.add("<s>", 0, Spm::control);
  spm.add("</s>", 0, Spm::control);
  for (const char* text : {"▁", "▁ja", "n"}) spm.add(text, -1);
  return spm;
}

std::vector<std::string> sentences(std::string_view text) {
  std::vector<std::string> found;
  for (std::string_view each : split_sentences(text)) found.emplace_back(each);
  CHECK(std::accumulate(found.begin(), found.end(), std::string()) == text);
  return found;
}

} // namespace

TEST_CASE("text: M2M-100's folder, its languages by code and by name") {
  TemporaryFolder folder;
  folder.write("sentencepiece.bpe.model", small().build());
  folder.write("vocab.json", R"({"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "▁": 5, "▁ja": 4, "n": 6})");
  folder.write("tokenizer_config.json", R"({"tokenizer_class": "M2M100Tokenizer", "src_lang": "de"})");
  const auto tokenizer = load(folder);
  const uint32_t first = 7; // the languages follow in the order of their codes
  CHECK(tokenizer->vocabulary_size() == first + 100);
  CHECK(tokenizer->find("__af__") == first);
  CHECK(tokenizer->find("__zu__") == first + 99);
  const uint32_t german = *tokenizer->find("__de__"), english = *tokenizer->find("__en__");
  CHECK(tokenizer->encode("ja nx", true) == Ids{german, 4, 5, 6, 3, 2});
  CHECK(tokenizer->decode(Ids{english, 4, 5, 6, 2}, false) == "ja n");

  const LanguageTokens languages(*tokenizer);
  CHECK(languages.languages().size() == 100);
  CHECK(languages.languages().front().code == "af");
  CHECK(!languages.in_source());
  for (const char* name : {"de", "German", "german", "deu_Latn", "deu", "de_DE"}) {
    CAPTURE(name);
    CHECK(languages.find(name).value() == german);
  }
  CHECK(languages.find("Chinese").value() == *tokenizer->find("__zh__"));
  CHECK(says(languages.find("xx"), {"'xx'", "does not have it", "af, am, ar", "zu"}) == "");
  CHECK(says(languages.find("eu"), {"'eu'"}) == "");
  Ids text = {german, 4, 2};
  languages.set_source(text, english, 3);
  CHECK(text == Ids{english, 4, 2});
  Ids bare = {4, 2};
  languages.set_source(bare, english, 2);
  CHECK(bare == Ids{4, 2}); // no room
  languages.set_source(bare, english, 3);
  CHECK(bare == Ids{english, 4, 2});

  folder.write("tokenizer_config.json", R"({"tokenizer_class": "M2M100Tokenizer", "src_lang": "xx"})");
  CHECK(says(Tokenizer::load(folder.path()), {"tokenizer_config.json", "src_lang", "xx"}) == "");
  folder.write("tokenizer_config.json",
               R"({"tokenizer_class": "M2M100Tokenizer", "language_codes": "wmt21"})");
  CHECK(says(Tokenizer::load(folder.path()), {"language_codes", "wmt21"}) == "");
}

TEST_CASE("text: NLLB's and mBART's folders put the language before or after a text") {
  TemporaryFolder folder;
  folder.write("sentencepiece.bpe.model", small().build());
  folder.write("config.json", R"({"model_type": "m2m_100"})"); // no vocab.json: NLLB
  const uint32_t first = 7; // after <s>, <pad>, </s>, <unk> and three pieces
  auto tokenizer = load(folder);
  CHECK(tokenizer->find("ace_Arab") == first);
  CHECK(tokenizer->find("zul_Latn") == first + 201);
  CHECK(tokenizer->find("<mask>") == first + 202);
  CHECK(tokenizer->encode("ja", true) == Ids{*tokenizer->find("eng_Latn"), 5, 2});
  const LanguageTokens nllb(*tokenizer);
  CHECK(nllb.find("Basque").value() == *tokenizer->find("eus_Latn"));
  CHECK(nllb.find("eus").value() == *tokenizer->find("eus_Latn"));
  CHECK(nllb.find("zh").value() == *tokenizer->find("zho_Hans"));

  folder.write("tokenizer_config.json",
               R"({"tokenizer_class": "NllbTokenizer", "src_lang": "fra_Latn", "legacy_behaviour": true})");
  tokenizer = load(folder);
  CHECK(tokenizer->encode("ja", true) == Ids{5, 2, *tokenizer->find("fra_Latn")});
  Ids text = tokenizer->encode("ja", true);
  LanguageTokens(*tokenizer).set_source(text, first, 3);
  CHECK(text == Ids{5, 2, first});

  folder.write("tokenizer_config.json", R"({"tokenizer_class": "MBart50Tokenizer", "src_lang": "fr_XX"})");
  tokenizer = load(folder);
  CHECK(tokenizer->find("ar_AR") == first);
  CHECK(tokenizer->find("af_ZA") == first + 25);
  CHECK(tokenizer->find("sl_SI") == first + 51);
  CHECK(tokenizer->encode("ja", true) == Ids{*tokenizer->find("fr_XX"), 5, 2});

  folder.write("tokenizer_config.json", R"({"tokenizer_class": "MBartTokenizer"})");
  tokenizer = load(folder);
  CHECK(tokenizer->find("zh_CN") == first + 24);
  CHECK(!tokenizer->find("af_ZA"));
  CHECK(tokenizer->encode("ja", true) == Ids{5, 2, *tokenizer->find("en_XX")});
}

TEST_CASE("text: PEGASUS's folder") {
  TemporaryFolder folder;
  Spm spm;
  spm.add("<pad>", 0, Spm::control);
  spm.add("</s>", 0, Spm::control);
  spm.add("<unk>", 0, Spm::unknown);
  for (const char* text : {"▁", "▁ja", "n"}) spm.add(text, -1);
  folder.write("spiece.model", spm.build());
  folder.write("tokenizer_config.json", R"({"tokenizer_class": "PegasusTokenizer"})");
  const auto tokenizer = load(folder);
  CHECK(tokenizer->encode("ja nx", true) == Ids{107, 106, 108, 105, 1});
  CHECK(tokenizer->find("<mask_1>") == 2u);
  CHECK(tokenizer->find("<unk_2>") == 4u);
  CHECK(tokenizer->find("<unk_102>") == 104u);
  folder.write("tokenizer_config.json", R"({"tokenizer_class": "PegasusTokenizer", "offset": 0})");
  CHECK(load(folder)->encode("ja", true) == Ids{4, 1});
  folder.write("tokenizer_config.json", R"({"tokenizer_class": "PegasusTokenizer", "offset": -3})");
  CHECK(says(Tokenizer::load(folder.path()), {"offset", "-3"}) == "");
}

TEST_CASE("text: a model without tokens for languages says so") {
  TemporaryFolder folder;
  folder.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nde\n");
  folder.write("config.json", R"({"model_type": "bert"})");
  const LanguageTokens languages(*load(folder));
  CHECK(languages.languages().empty());
  CHECK(says(languages.find("de"), {"'de'", "no tokens for languages"}) == "");
}

// All of Unicode's own cases (SentenceBreakTest.txt of version 15) were tried once; these are a few of each
// rule.
TEST_CASE("text: sentences by Unicode's rules") {
  using Parts = std::vector<std::string>;
  CHECK(sentences("").empty());
  CHECK(sentences("One. Two") == Parts{"One. ", "Two"});
  CHECK(sentences("No end") == Parts{"No end"});
  CHECK(sentences("It is 3.14 or 2. Yes!") == Parts{"It is 3.14 or 2. ", "Yes!"});
  CHECK(sentences("e.g. this goes on. Next") == Parts{"e.g. this goes on. ", "Next"});
  CHECK(sentences("The U.S. Army") == Parts{"The U.S. ", "Army"});
  CHECK(sentences("“Stop!” he said. “Why?” Then he left.") ==
        Parts{"“Stop!” ", "he said. ", "“Why?” ", "Then he left."});
  CHECK(sentences("What?!  Really...  yes") == Parts{"What?!  ", "Really...  yes"});
  CHECK(sentences("She (twice.) Then") == Parts{"She (twice.) ", "Then"});
  CHECK(sentences("A line\nAnother\r\nThird\u2029x") == Parts{"A line\n", "Another\r\n", "Third\u2029", "x"});
  CHECK(sentences("これは文です。次の文です！") == Parts{"これは文です。", "次の文です！"});
  CHECK(sentences("यह है। फिर") == Parts{"यह है। ", "फिर"});
  CHECK(sentences("Etc., and so on. É\u0301so") == Parts{"Etc., and so on. ", "É\u0301so"});
  CHECK(sentences("a.\xFF b") == Parts{"a.", "\xFF b"});
}
