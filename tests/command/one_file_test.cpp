// `pumice convert` where llama.cpp has a form for a model but not for what belongs to it, and where a model
// is of several kinds: each command does the same with the file as with the folder.
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "io/formats/safetensors.h"
#include "support/command/command.h"
#include "support/files/bert_folder.h"
#include "support/files/fixture_picture.h"
#include "support/files/letters_folder.h"
#include "support/files/one_file.h"
#include "support/files/whisper_folder.h"
#include "support/files/word_folder.h"
#include "support/vulkan/gpu.h"

using namespace pumice;
using nlohmann::json;

namespace {

void copy_tokenizer(const std::string& name, const TemporaryFolder& folder) {
  std::filesystem::copy_file(fixtures().tokenizer(name) / "tokenizer.json", folder.path() / "tokenizer.json",
                             std::filesystem::copy_options::overwrite_existing);
}

std::string tokens(const std::filesystem::path& model, const std::string& text) {
  return printed("tokenize", model, {"--json"}, &text);
}

const std::string awkward = "The quick  brown f\u00f6x, \u65e5\u672c \U0001F600 42!";

} // namespace

TEST_CASE("an encoder whose tokenizer GGUF cannot express becomes a file that holds the folder") {
  const std::string lines = awkward + "\nand another\n";
  // GGUF has a name for RoBERTa's tokenizer, which joins a pair of texts in another way than BERT's.
  for (const std::string name : {"t5", "roberta"}) {
    CAPTURE(name);
    const TemporaryFolder folder;
    REQUIRE(BertFolder{.labels = 1}.write(folder));
    copy_tokenizer(name, folder);
    const OneFile one(folder.path());
    CHECK(one.holds_folder() == (name == "t5"));
    CHECK((one.notes.find("tokenizer.json") != std::string::npos) == (name == "t5"));
    CHECK(tokens(one.file, awkward) == tokens(folder.path(), awkward));
    CHECK(printed("embed", one.file, {}, &lines) == printed("embed", folder.path(), {}, &lines));
    CHECK(printed("rerank", one.file, {"--query", "x"}, &lines) ==
          printed("rerank", folder.path(), {"--query", "x"}, &lines));
  }
  // Without its vocabulary it has the form that llama.cpp reads, and so has a tokenizer that it knows.
  const TemporaryFolder folder;
  REQUIRE(BertFolder{}.write(folder));
  CHECK(!OneFile(folder.path()).holds_folder());
  copy_tokenizer("t5", folder);
  const auto out = (folder.path() / "model.gguf").string();
  const CommandResult bare = pumice_command({"convert", folder.path().string(), out, "--no-vocabulary"});
  CHECK(bare.status == 0);
  CHECK(bare.err.find("only Pumice") == std::string::npos);
  // A note says it without --json.
  const CommandResult said = pumice_command({"convert", folder.path().string(), out});
  CHECK(said.status == 0);
  CHECK(said.err.find("only Pumice reads the file") != std::string::npos);
}

TEST_CASE("a decoder whose tokenizer GGUF cannot express is refused, because llama.cpp has its form") {
  const TemporaryFolder folder;
  write_word_folder(folder, "llama-mha");
  CHECK(fails_saying(pumice_command({"convert", folder.path().string(), (folder.path() / "m.gguf").string()}),
                     {"tokenizer.json", "--no-vocabulary"}) == "");
}

TEST_CASE("an encoder with dense layers, or with vocab.txt alone, becomes a file that holds the folder") {
  const std::string lines = "the quick brown fox\n42\n";
  const TemporaryFolder folder;
  REQUIRE(BertFolder{}.write(folder));
  folder.write("modules.json", R"([{"path": "", "type": "sentence_transformers.models.Transformer"},
                                   {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
                                   {"path": "2_Dense", "type": "sentence_transformers.models.Dense"}])");
  for (const char* module : {"1_Pooling", "2_Dense"})
    std::filesystem::create_directories(folder.path() / module);
  folder.write(
      "1_Pooling/config.json",
      json{{"word_embedding_dimension", BertFolder::hidden}, {"pooling_mode_mean_tokens", true}}.dump());
  folder.write("2_Dense/config.json",
               json{{"in_features", BertFolder::hidden}, {"out_features", 3}, {"bias", false}}.dump());
  std::vector<float> weight(size_t{3} * BertFolder::hidden);
  for (size_t i = 0; i < weight.size(); ++i) weight[i] = 0.01f * static_cast<float>(i % 7) - 0.02f;
  const SafetensorsFile::Entry entries[] = {
      {"linear.weight", "F32", {3, BertFolder::hidden}, std::as_bytes(std::span(weight))}};
  REQUIRE(write_safetensors(folder.path() / "2_Dense" / "model.safetensors", entries).ok());
  const OneFile dense(folder.path());
  CHECK(dense.holds_folder());
  CHECK(dense.notes.find("modules.json") != std::string::npos);
  CHECK(printed("embed", dense.file, {}, &lines) == printed("embed", folder.path(), {}, &lines));

  const TemporaryFolder older;
  REQUIRE(BertFolder{}.write(older));
  std::filesystem::remove(older.path() / "tokenizer.json");
  std::string words = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nquick\nbrown\nfox\n##es\n42\n";
  for (size_t i = 11; i < 900; ++i) words += "w" + std::to_string(i) + "\n";
  older.write("vocab.txt", words);
  const OneFile plain(older.path());
  CHECK(plain.holds_folder());
  CHECK(plain.notes.find("no tokenizer.json") != std::string::npos);
  CHECK(tokens(plain.file, "the quick foxes") == tokens(older.path(), "the quick foxes"));
  CHECK(printed("embed", plain.file, {}, &lines) == printed("embed", older.path(), {}, &lines));
}

TEST_CASE("pictures and texts in one space, from one file") {
  for (const std::string model : {"clip", "siglip"}) {
    CAPTURE(model);
    const TemporaryFolder folder;
    write_word_folder(folder, model);
    const Answers answers(fixtures().model(model) / "expected.safetensors");
    const std::string picture = folder.write("a.png", "").string();
    REQUIRE(write_png(fixture_picture(answers, 0), picture).ok());
    const std::string lines = "w5 w6\nw7\n", labels = folder.write("labels.txt", lines).string();
    const OneFile one(folder.path());
    CHECK(one.holds_folder());
    CHECK(printed("embed", one.file, {"--image", picture}) ==
          printed("embed", folder.path(), {"--image", picture}));
    CHECK(printed("embed", one.file, {}, &lines) == printed("embed", folder.path(), {}, &lines));
    CHECK(printed("classify", one.file, {picture, "--labels", labels}) ==
          printed("classify", folder.path(), {picture, "--labels", labels}));
  }
}

TEST_CASE("translators of two kinds, and one that hears letters, from one file") {
  const std::string lines = "w5 w6 w7\n\nw9 w33 w12\n";
  for (const std::string model : {"marian", "m2m100", "t5"}) {
    CAPTURE(model);
    const TemporaryFolder folder;
    write_word_folder(folder, model);
    const OneFile one(folder.path());
    CHECK(one.holds_folder());
    CHECK(tokens(one.file, "w5 </s> x") == tokens(folder.path(), "w5 </s> x"));
    for (const std::vector<std::string>& more :
         {std::vector<std::string>{"-n", "9"}, {"-n", "9", "--beams", "3", "--n-best", "2", "--json"}}) {
      CHECK(printed("translate", one.file, more, &lines) ==
            printed("translate", folder.path(), more, &lines));
    }
  }
  const TemporaryFolder folder;
  write_letters_folder(folder, true);
  const std::string sound = folder.write("sound.wav", wav_bytes(wail(20000))).string();
  const OneFile one(folder.path());
  CHECK(one.holds_folder());
  for (const char* form : {"--json", "--timestamps"}) {
    CHECK(printed("transcribe", one.file, {sound, form}) ==
          printed("transcribe", folder.path(), {sound, form}));
  }
}
