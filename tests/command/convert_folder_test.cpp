// `pumice convert` where llama.cpp has no form: each command does the same with the file as with the folder.
#include <algorithm>
#include <fstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "io/formats/safetensors.h"
#include "media/image.h"
#include "support/command/answers.h"
#include "support/command/command.h"
#include "support/files/converted.h"
#include "support/files/one_file.h"
#include "support/files/whisper_folder.h"
#include "support/files/word_folder.h"
#include "support/vulkan/gpu.h"

using namespace pumice;
using nlohmann::json;

namespace {

const std::filesystem::path dates = dates_model();

} // namespace

TEST_CASE("a translator in one file: translate, tokenize, inspect") {
  const OneFile alone(dates);
  CHECK(alone.holds_folder());
  const std::string lines = "le 3 mars 2021\nMay 4, 1999\n";
  CHECK(printed("translate", alone.file, {}, &lines) == "2021-03-03\n1999-05-04\n");
  CHECK(printed("translate", alone.file, {"--beams", "3", "--n-best", "2"}, &lines) ==
        printed("translate", dates, {"--beams", "3", "--n-best", "2"}, &lines));
  CHECK(printed("tokenize", alone.file, {"--json"}, &lines) ==
        printed("tokenize", dates, {"--json"}, &lines));
  json of_file = json::parse(printed("inspect", alone.file, {"--json"}));
  const json of_folder = json::parse(printed("inspect", dates, {"--json"}));
  CHECK(of_file["format"] == "GGUF of Pumice's own");
  CHECK(of_file["architecture"] == of_folder["architecture"]);
  CHECK(of_file["hyperparameters"] == of_folder["hyperparameters"]);
  CHECK(of_file["commands"] == of_folder["commands"]);

  const OneFile small(dates, "Q8_0");
  CHECK(small.holds_folder());
  CHECK(std::filesystem::file_size(small.file) < std::filesystem::file_size(alone.file) / 2);
  CHECK(printed("translate", small.file, {}, &lines) == "2021-03-03\n1999-05-04\n");
  // Once more from the file, and without a vocabulary.
  const auto again = small.folder.path() / "again.gguf";
  (void)printed("convert", alone.file, {again.string(), "--type", "Q8_0"});
  CHECK(printed("translate", again, {}, &lines) == "2021-03-03\n1999-05-04\n");
  (void)printed("convert", dates, {again.string(), "--no-vocabulary"});
  CHECK(fails_saying(pumice_command({"translate", again.string(), "May 4, 1999"}),
                     {"again.gguf", "tokenizer"}) == "");
}

TEST_CASE("a speech model in one file: transcribe, with the times of words") {
  const WhisperFolder folder(json{{"alignment_heads", {{0, 1}, {1, 2}}}});
  const OneFile alone(folder.path());
  CHECK(alone.holds_folder());
  const std::string sound = alone.folder.write("sound.wav", wav_bytes(wail(20000))).string();
  for (const char* times : {"--timestamps", "--words"}) {
    const std::vector<std::string> arguments = {sound, "--json", "-n", "20", times};
    CHECK(json::parse(printed("transcribe", alone.file, arguments)) ==
          json::parse(printed("transcribe", folder.path(), arguments)));
  }
  // The processor's file is the file's own: a folder beside it is not looked into.
  std::ofstream(alone.folder.path() / "preprocessor_config.json") << R"({"sampling_rate": 8000})";
  std::ofstream(alone.folder.path() / "generation_config.json") << "[";
  CHECK(printed("transcribe", alone.file, {sound, "-n", "20"}) ==
        printed("transcribe", folder.path(), {sound, "-n", "20"}));
}

TEST_CASE("vectors of texts from one file: pooling, prompts and dense layers are in it") {
  const TemporaryFolder folder;
  write_word_folder(folder, "mpnet");
  folder.write("config_sentence_transformers.json", R"({"prompts": {"query": "w7 w8"}})");
  folder.write("modules.json", R"([{"path": "", "type": "sentence_transformers.models.Transformer"},
                                   {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
                                   {"path": "2_Dense", "type": "sentence_transformers.models.Dense"}])");
  std::filesystem::create_directories(folder.path() / "1_Pooling");
  std::filesystem::create_directories(folder.path() / "2_Dense");
  folder.write("1_Pooling/config.json", R"({"pooling_mode_cls_token": true})");
  const auto columns =
      json::parse(std::ifstream(folder.path() / "config.json"))["hidden_size"].get<uint64_t>();
  folder.write("2_Dense/config.json",
               json{{"in_features", columns}, {"out_features", 3}, {"bias", false}}.dump());
  std::vector<float> weight(3 * columns);
  for (size_t i = 0; i < weight.size(); ++i) weight[i] = 0.01f * static_cast<float>(i % 7) - 0.02f;
  const SafetensorsFile::Entry entries[] = {
      {"linear.weight", "F32", {3, columns}, std::as_bytes(std::span(weight))}};
  REQUIRE(write_safetensors(folder.path() / "2_Dense" / "model.safetensors", entries).ok());
  const OneFile alone(folder.path());
  CHECK(alone.holds_folder());
  const std::string lines = "w5 w6 w7\nw9\n";
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{}, {"--prompt", "query"}, {"--pooling", "mean"}}) {
    const std::string vectors = printed("embed", alone.file, more, &lines);
    CHECK(vectors == printed("embed", folder.path(), more, &lines));
    CHECK(std::ranges::count(vectors, ' ') == 4); // two lines of three numbers
  }
}

TEST_CASE("classes and captions of pictures from one file, with the processor's steps") {
  const TemporaryFolder pictures;
  Image image{40, 36, std::vector<uint8_t>(40 * 36 * 3)};
  for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = static_cast<uint8_t>(i * i * 31);
  const std::string picture = (pictures.path() / "a.png").string();
  REQUIRE(write_png(image, picture).ok());
  for (const std::string name : {"vit", "resnet"}) {
    CAPTURE(name);
    const auto model = fixtures().model(name);
    const OneFile alone(model);
    CHECK(alone.holds_folder());
    CHECK(printed("classify", alone.file, {picture, "--top", "5"}) ==
          printed("classify", model, {picture, "--top", "5"}));
  }
  const TemporaryFolder folder;
  write_word_folder(folder, "vit-gpt2");
  folder.write("preprocessor_config.json",
               R"({"image_processor_type": "ViTImageProcessor", "image_std": [1, 1, 1],
                   "size": {"height": 32, "width": 32}})");
  const OneFile alone(folder.path());
  CHECK(alone.holds_folder());
  CHECK(printed("caption", alone.file, {picture, "-n", "8"}) ==
        printed("caption", folder.path(), {picture, "-n", "8"}));
}

TEST_CASE("convert writes files of whisper.cpp for names that end in .bin, and only of Whisper") {
  const TemporaryFolder folder;
  const auto out = folder.path() / "model.bin";
  CHECK(fails_saying(pumice_command({"convert", dates.string(), out.string()}),
                     {"whisper.cpp", "'transformer'", ".gguf"}) == "");
  const WhisperFolder whisper;
  CHECK(fails_saying(pumice_command({"convert", whisper.path().string(), out.string(), "--type", "Q4_K"}),
                     {"Q4_K", "256", "--type"}) == "");
  CHECK(!std::filesystem::exists(out));
}
