// How each value of tokenizer.ggml.pre cuts text, against what Hugging Face's tokenizers makes of the same
// rules.
#include <fstream>
#include <set>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "io/model_file.h"
#include "model/vocabulary.h"
#include "support/command/messages.h"
#include "support/files/fixtures.h"
#include "support/files/gguf_builder.h"
#include "support/files/temporary_folder.h"
#include "text/formats/gguf_splits.h"
#include "text/tokenizer.h"
#include "text/unicode/byte_level.h"

using namespace pumice;
using nlohmann::json;

namespace {

json expected_splits() {
  std::ifstream in(fixtures().folder() / "gguf_splits.json");
  return json::parse(in);
}

std::vector<std::string> split(const text::GgufSplit& rules, const std::string& text) {
  const auto pre_tokenizer = text::make_gguf_split(rules);
  REQUIRE_MESSAGE(pre_tokenizer.ok(), pre_tokenizer.error().text());
  text::Pieces pieces(text);
  (*pre_tokenizer)->apply(pieces);
  std::vector<std::string> out;
  for (const text::Span span : pieces.spans) out.emplace_back(pieces.view(span));
  return out;
}

// The pieces as the tokens spell them, of the lengths in characters that the file has, or of the pieces
// themselves.
std::vector<std::string> expected_pieces(const text::GgufSplit& rules, std::string_view text,
                                         const json& lengths) {
  std::vector<std::string> out;
  for (const json& length : lengths) {
    if (length.is_string()) {
      out.push_back(length.get<std::string>());
      continue;
    }
    size_t bytes = 0;
    for (size_t i = 0; i < length.get<size_t>(); ++i)
      bytes += text::first_code_point(text.substr(bytes)).length;
    std::string piece;
    if (rules.spelling == text::GgufSpelling::bytes) {
      text::append_byte_level(piece, text.substr(0, bytes));
    } else {
      piece = text.substr(0, bytes);
    }
    out.push_back(std::move(piece));
    text.remove_prefix(bytes);
  }
  return out;
}

// A GGUF file with a byte-level vocabulary and nothing else of use.
std::vector<std::byte> gguf_with(const std::string& pre, const std::vector<std::string>& tokens) {
  GgufBuilder builder;
  builder.string("general.architecture", "llama").string("tokenizer.ggml.model", "gpt2");
  builder.string("tokenizer.ggml.pre", pre).strings("tokenizer.ggml.tokens", tokens);
  builder.numbers("tokenizer.ggml.token_type", GgufType::i32, std::vector<int32_t>(tokens.size(), 1));
  builder.strings("tokenizer.ggml.merges", {"a b"});
  return builder.build();
}

} // namespace

TEST_CASE("text: the splits that GGUF files name cut as the reference does") {
  const json expected = expected_splits();
  const std::vector<std::string> texts = expected.at("texts");
  for (const auto& entry : expected.at("pieces").items()) {
    CAPTURE(entry.key());
    const text::GgufSplit* rules = text::find_gguf_split(entry.key());
    REQUIRE(rules);
    for (size_t i = 0; i < texts.size(); ++i) {
      CAPTURE(texts[i]);
      CHECK(split(*rules, texts[i]) == expected_pieces(*rules, texts[i], entry.value().at(i)));
    }
  }
}

TEST_CASE("text: every split's rules are among those with a reference") {
  const json expected = expected_splits();
  std::set<std::string_view> names;
  for (const text::GgufSplit& one : text::gguf_splits()) {
    CAPTURE(one.name);
    CHECK(names.insert(one.name).second);
    bool has_reference = false;
    for (const auto& [name, pieces] : expected.at("pieces").items())
      has_reference |= text::find_gguf_split(name)->patterns.data() == one.patterns.data();
    CHECK(has_reference);
  }
  CHECK(names.size() >= 90);
}

TEST_CASE("text: tokens that spell text as it is, with marks for spaces") {
  Tokenizer::GgufVocabulary gguf;
  gguf.file = "small.gguf";
  gguf.model = "gemma4";
  gguf.tokens = {"<bos>", "▁", "a", "b", "▁a", "▁ab", "\n", "\n\n", "<0xC3>", "<0xA9>", "é"};
  gguf.types = {3, 1, 1, 1, 1, 1, 1, 1, 6, 6, 1};
  gguf.merges = {"▁ a", "▁a b", "\n \n"};
  gguf.bos = 0;
  gguf.add_bos = false; // as early files of Gemma 4 say, which need it
  const auto tokenizer = Tokenizer::from_gguf(gguf);
  REQUIRE_MESSAGE(tokenizer.ok(), tokenizer.error().text());
  const std::vector<uint32_t> ids = (*tokenizer)->encode("a ab\n\n b", true);
  CHECK(ids == std::vector<uint32_t>{0, 2, 5, 7, 1, 3});
  CHECK((*tokenizer)->decode(ids, false) == "a ab\n\n b");
  gguf.tokens.back() = "x";
  CHECK((*Tokenizer::from_gguf(gguf))->encode("é", false) == std::vector<uint32_t>{8, 9});
}

TEST_CASE("text: what a GGUF file says of its ends, and what is usual where it says nothing") {
  Tokenizer::GgufVocabulary gguf;
  gguf.file = "small.gguf";
  gguf.model = "gpt2";
  gguf.tokens = {"<s>", "</s>", "a", "b", "ab"};
  gguf.types = {3, 3, 1, 1, 1};
  gguf.merges = {"a b"};
  gguf.bos = 0;
  gguf.eos = 1;
  const auto ids = [&](std::string_view pre) {
    gguf.pre = pre;
    return (*Tokenizer::from_gguf(gguf))->encode("ab", true);
  };
  CHECK(ids("llama-bpe") == std::vector<uint32_t>{0, 4});
  CHECK(ids("tekken") == std::vector<uint32_t>{0, 4});
  CHECK(ids("qwen2") == std::vector<uint32_t>{4});
  gguf.add_bos = false;
  CHECK(ids("llama-bpe") == std::vector<uint32_t>{4});
  gguf.add_bos = gguf.add_eos = true;
  CHECK(ids("qwen2") == std::vector<uint32_t>{0, 4, 1});
  CHECK((*Tokenizer::from_gguf(gguf))->encode_pair("ab", "ab").ids == std::vector<uint32_t>{0, 4, 1, 4, 1});
  gguf.pre = "roberta-bpe"; // two separators between two texts
  CHECK((*Tokenizer::from_gguf(gguf))->encode_pair("ab", "ab").ids ==
        std::vector<uint32_t>{0, 4, 1, 1, 4, 1});
}

TEST_CASE("text: a GGUF file's unknown pre-tokenizer, and the tokenizer.json beside it") {
  const TemporaryFolder folder;
  const std::vector<std::string> tokens = {"a", "b", "ab"};
  const auto load = [&](const std::string& pre) {
    const std::filesystem::path path = folder.path() / "model.gguf";
    const std::vector<std::byte> bytes = gguf_with(pre, tokens);
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    const auto file = ModelFile::open(path);
    REQUIRE_MESSAGE(file.ok(), file.error().text());
    return load_tokenizer(*file);
  };
  const auto put_json = [&](const char* vocabulary) {
    std::ofstream(folder.path() / "tokenizer.json")
        << R"({"model": {"type": "BPE", "merges": ["a b"], "vocab": )" << vocabulary << "}}";
  };
  CHECK(load("gpt-2").ok());
  CHECK(says(load("from-next-year"),
             {"model.gguf: tokenizer.ggml.pre", "\"from-next-year\"", "tokenizer.json"}) == "");
  put_json(R"({"a": 0, "b": 1, "ab": 2})");
  const auto found = load("from-next-year");
  REQUIRE_MESSAGE(found.ok(), found.error().text());
  CHECK((*found)->encode("abb", false) == std::vector<uint32_t>{2, 1});
  put_json(R"({"b": 0, "a": 1, "ab": 2})"); // of another model
  CHECK(says(load("from-next-year"), {"tokenizer.json", "model.gguf", "\"b\" for \"a\""}) == "");
  put_json(R"({"a": 0, "b": 1, "ab": 2, "c": 3})");
  CHECK(says(load("from-next-year"), {"tokenizer.json", "model.gguf", "3", "4"}) == "");
}
