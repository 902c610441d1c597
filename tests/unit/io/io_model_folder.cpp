// The small files of a model: of a folder, and of a GGUF file that holds one.
#include <initializer_list>
#include <map>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "io/bytes.h"
#include "io/model_file.h"
#include "support/command/messages.h"
#include "support/files/fixtures.h"
#include "support/files/gguf_builder.h"
#include "support/files/sentence_piece.h"
#include "support/files/temporary_folder.h"
#include "support/require.h"
#include "text/tokenizer.h"

using namespace pumice;

namespace {

constexpr const char* small_config = R"({"model_type": "marian", "d_model": 8})";

std::vector<uint8_t> bytes_of(std::string_view text) {
  return {text.begin(), text.end()};
}

GgufBuilder& add_file(GgufBuilder& builder, const std::string& name, std::string_view text) {
  return builder.numbers("pumice.file." + name, GgufType::u8, bytes_of(text));
}

// A GGUF file with config.json and one tensor.
GgufBuilder small_file(uint32_t version = 1) {
  GgufBuilder builder;
  builder.string("general.architecture", "marian").u32("pumice.files", version);
  builder.tensor({"model.shared.weight", {8, 2}}).data_bytes = 64;
  return builder;
}

Result<ModelFile> open(const GgufBuilder& builder, std::vector<std::byte>& bytes) {
  bytes = builder.build();
  return ModelFile::from_memory(bytes, "m.gguf");
}

std::string complaint(const GgufBuilder& builder, std::initializer_list<std::string_view> parts) {
  std::vector<std::byte> bytes;
  return says(open(builder, bytes), parts);
}

std::string contents(const ModelFolder& folder, const char* name) {
  return std::string(as_text(require(folder.open(name)).bytes()));
}

} // namespace

TEST_CASE("a folder's files, and what it does not have") {
  const TemporaryFolder on_disk;
  on_disk.write("a.json", R"({"x": 1})");
  std::filesystem::create_directory(on_disk.path() / "1_Pooling");
  on_disk.write("1_Pooling/config.json", "[1]");
  const ModelFolder folder = on_disk.path();
  CHECK(!folder.in_gguf());
  CHECK(folder.has("a.json"));
  CHECK(!folder.has("b.json"));
  CHECK(!folder.has("1_Pooling"));
  CHECK(contents(folder, "1_Pooling/config.json") == "[1]");
  CHECK((*require(folder.object("a.json")))["x"] == 1);
  CHECK(!require(folder.object("b.json")));
  CHECK(says(folder.object("1_Pooling/config.json"), {"1_Pooling/config.json", "object"}) == "");
  CHECK(says(folder.open("b.json"), {"b.json"}) == "");
  CHECK(!ModelFolder(on_disk.path() / "none").has("a.json"));
}

TEST_CASE("a GGUF file that holds a folder is a Hugging Face model with the folder's files") {
  GgufBuilder builder = small_file();
  add_file(builder, "config.json", small_config);
  add_file(builder, "1_Pooling/config.json", R"({"pooling_mode_cls_token": true})");
  add_file(builder, "generation_config.json", "{");
  std::vector<std::byte> bytes;
  const ModelFile file = require(open(builder, bytes));
  CHECK(file.format() == ModelFile::Format::hugging_face);
  CHECK(file.architecture() == "marian");
  CHECK(require(file.fields().u32("d_model")) == 8);
  CHECK(says(file.fields().u32("none"), {"m.gguf: config.json", "none"}) == "");
  REQUIRE(file.find("model.shared.weight"));
  CHECK(file.find("model.shared.weight")->shape == std::vector<uint64_t>{2, 8});
  const ModelFolder& folder = file.folder();
  CHECK(folder.in_gguf());
  CHECK(folder.path("x.json") == "m.gguf: x.json");
  CHECK((*require(folder.object("1_Pooling/config.json")))["pooling_mode_cls_token"] == true);
  CHECK(says(folder.object("generation_config.json"), {"m.gguf: generation_config.json"}) == "");
  CHECK(!folder.has("tokenizer.json"));
  CHECK(says(folder.open("tokenizer.json"), {"m.gguf", "pumice.file.tokenizer.json"}) == "");
  CHECK(file.tokenizer_path().empty());
}

TEST_CASE("a GGUF file that holds a folder: what is wrong with it is said") {
  CHECK(complaint(small_file(), {"m.gguf", "pumice.file.config.json", "none"}) == "");
  GgufBuilder later = small_file(2);
  CHECK(complaint(add_file(later, "config.json", small_config), {"pumice.files", "expected 1, found 2"}) ==
        "");
  GgufBuilder text = small_file();
  CHECK(complaint(text.string("pumice.file.config.json", small_config), {"pumice.file.config.json"}) == "");
  GgufBuilder numbers = small_file();
  CHECK(complaint(numbers.numbers("pumice.file.config.json", GgufType::i32, std::vector<int32_t>{1, 2}),
                  {"pumice.file.config.json", "bytes"}) == "");
  GgufBuilder damaged = small_file();
  CHECK(complaint(add_file(damaged, "config.json", "{\"a\": "), {"m.gguf: config.json"}) == "");
  GgufBuilder list = small_file();
  CHECK(complaint(add_file(list, "config.json", "[]"), {"m.gguf: config.json", "object"}) == "");
  for (const char* name :
       {"../config.json", "/etc/passwd", "a/../b", "a//b", ".", "..", "a/", "c:x", "a\\b", ""}) {
    CAPTURE(name);
    CHECK(!is_file_of_model(name));
    GgufBuilder builder = small_file();
    add_file(builder, "config.json", small_config);
    CHECK(complaint(add_file(builder, name, "{}"), {"m.gguf", "pumice.file.", "leads elsewhere"}) == "");
  }
  for (const char* name : {"config.json", "1_Pooling/config.json", "a.b", "..a"})
    CHECK(is_file_of_model(name));
  GgufBuilder kind;
  kind.string("general.architecture", "marian").string("pumice.files", "1");
  CHECK(complaint(kind, {"pumice.files"}) == "");
}

TEST_CASE("a GGUF file that holds a folder may be cut anywhere") {
  GgufBuilder builder = small_file();
  add_file(builder, "config.json", small_config);
  add_file(builder, "tokenizer_config.json", "{}");
  const std::vector<std::byte> whole = builder.build();
  for (size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    const auto file = ModelFile::from_memory(std::span(whole).first(size), "m.gguf");
    CHECK(!file.ok());
  }
}

// The same ids from a file with these files as from a folder with them.
TEST_CASE("tokenizers of every kind of folder are read from a GGUF file") {
  using Spm = SentencePieceBuilder;
  Spm spm;
  spm.add("<unk>", 0, Spm::unknown);
  spm.add("<s>", 0, Spm::control);
  spm.add("</s>", 0, Spm::control);
  for (const char* text : {"▁", "▁hello", "h", "e", "l", "o", "w"}) spm.add(text, -1);
  const std::string vocabulary =
      R"({"</s>": 0, "<unk>": 1, "▁hello": 2, "▁": 3, "h": 4, "e": 5, "l": 6, "o": 7, "w": 8, "<pad>": 9})";
  const std::map<std::string, std::vector<std::pair<std::string, std::string>>> folders = {
      {"WordPiece", {{"vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\nhello\nwo\n##w\n"}}},
      {"byte-level BPE",
       {{"vocab.json", R"({"<s>": 0, "</s>": 1, "h": 2, "e": 3, "he": 4, "l": 5, "o": 6, "w": 7, "Ġ": 8})"},
        {"merges.txt", "#version: 0.2\nh e\n"},
        {"special_tokens_map.json", R"({"cls_token": "<s>"})"}}},
      {"Marian", {{"source.spm", spm.build()}, {"target.spm", spm.build()}, {"vocab.json", vocabulary}}},
      {"XLM-RoBERTa",
       {{"sentencepiece.bpe.model", spm.build()},
        {"tokenizer_config.json", R"({"tokenizer_class": "XLMRobertaTokenizer"})"}}}};
  for (const auto& [kind, files] : folders) {
    const std::string tokenizer = kind;
    CAPTURE(tokenizer);
    const TemporaryFolder on_disk;
    GgufBuilder builder = small_file();
    add_file(builder, "config.json", "{}");
    on_disk.write("config.json", "{}");
    for (const auto& [name, text] : files) {
      on_disk.write(name, text);
      add_file(builder, name, text);
    }
    std::vector<std::byte> bytes;
    const ModelFile file = require(open(builder, bytes));
    const auto found = require(Tokenizer::load(file.folder())),
               expected = require(Tokenizer::load(on_disk.path()));
    for (const char* text : {"hello", "hello wow", "he  said", ""}) {
      const std::vector<uint32_t> ids = found->encode(text, true);
      CHECK(ids == expected->encode(text, true));
      CHECK(found->decode(ids, false) == expected->decode(ids, false));
    }
  }
}
