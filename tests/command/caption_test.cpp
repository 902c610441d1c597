// `pumice caption` against the same picture and model put together by hand.
#include <doctest/doctest.h>

#include <fstream>
#include <numeric>

#include <nlohmann/json.hpp>

#include "generate/encoder_decoder.h"
#include "io/formats/safetensors.h"
#include "media/image.h"
#include "model/vocabulary.h"
#include "support/command/command.h"
#include "support/files/fixture_picture.h"
#include "support/files/word_folder.h"
#include "support/model.h"
#include "support/vulkan/gpu.h"
#include "task/captioner.h"

using namespace pumice;
using nlohmann::json;

namespace {

// A picture of the model's own size, so that nothing is resized.
Image picture(uint32_t seed) {
  Image image{32, 32, std::vector<uint8_t>(32 * 32 * 3)};
  for (size_t i = 0; i < image.pixels.size(); ++i)
    image.pixels[i] = static_cast<uint8_t>((i * i + seed) * 31);
  return image;
}

// `prompt`: what the decoder begins with; empty: as the model's settings say.
std::vector<uint32_t> expected_tokens(const std::filesystem::path& folder, const Image& image,
                                      uint32_t most = 8, std::vector<uint32_t> prompt = {}) {
  EncoderInput input;
  for (size_t channel = 0; channel < 3; ++channel) {
    for (size_t i = channel; i < image.pixels.size(); i += 3) {
      input.values.push_back(static_cast<float>(image.pixels[i]) / 255 * 2 - 1);
    }
  }
  const auto model = load_model(folder);
  auto writer = EncoderDecoder::create(model, {});
  REQUIRE(writer.ok());
  GenerationOptions options;
  options.config = *read_generation_config(model->file(), model->shape().vocabulary);
  options.config.max_tokens = most;
  if (!prompt.empty()) options.config.prompt = std::move(prompt);
  options.sampling.temperature = 0;
  const auto written = (*writer)->generate(std::span(&input, 1), options);
  REQUIRE(written.ok());
  return written->at(0).at(0).tokens;
}

// A picture that is resized: slopes and steps, of another shape than any model's.
Image slopes() {
  Image image{47, 31, {}};
  for (uint32_t y = 0; y < image.height; ++y) {
    for (uint32_t x = 0; x < image.width; ++x) {
      for (uint32_t c = 0; c < 3; ++c) {
        const uint32_t value = x * 5 * (c + 1) + y * y / 3 * (3 - c) + x / 6 * y / 4 * 17;
        image.pixels.push_back(static_cast<uint8_t>(value % 256));
      }
    }
  }
  return image;
}

} // namespace

// What transformers 5.12 makes of the same picture with TrOCRProcessor's steps, in 64 bits.
TEST_CASE("caption reads lines of text with TrOCR as transformers does, with its processor's steps") {
  using Ids = std::vector<uint32_t>;
  struct Case {
    const char* model;
    json processor;
    Ids greedy, beams;
  };
  const json vit = {{"image_processor_type", "ViTImageProcessor"},
                    {"size", {{"height", 20}, {"width", 20}}},
                    {"resample", 2},
                    {"image_mean", {0.5, 0.5, 0.5}},
                    {"image_std", {0.5, 0.5, 0.5}}};
  // Its other settings are the class's: it crops, and resizes by bicubic interpolation.
  const json deit = {{"feature_extractor_type", "DeiTFeatureExtractor"}, {"size", 25}, {"crop_size", 21}};
  for (const Case& c :
       {Case{"vit-trocr", vit, Ids{17, 17, 17, 65, 65, 65, 65, 65}, Ids{17, 17, 17, 17, 65, 65, 65, 65}},
        Case{"deit-trocr", deit, Ids{99, 105, 105, 105, 105, 243, 65, 65},
             Ids{99, 105, 105, 105, 105, 243, 65, 65}}}) {
    CAPTURE(std::string(c.model));
    const TemporaryFolder folder;
    write_word_folder(folder, c.model);
    folder.write("preprocessor_config.json", c.processor.dump());
    const std::string picture = (folder.path() / "line.png").string();
    REQUIRE(write_png(slopes(), picture).ok());
    const auto tokens = [&](const char* beams) -> json {
      const CommandResult result =
          pumice_command({"caption", folder.path().string(), picture, "-n", "8", "--beams", beams, "--json"});
      INFO(result.err);
      REQUIRE(result.status == 0);
      return json::parse(result.out)["tokens"];
    };
    CHECK(tokens("1") == json(c.greedy));
    CHECK(tokens("4") == json(c.beams));
  }
}

TEST_CASE("caption writes what the reference makes of the same pixels, greedily and with beams") {
  for (const std::string name : {"vit-trocr", "deit-trocr", "beit-trocr", "vit-gpt2", "donut"}) {
    CAPTURE(name);
    const Answers answers(fixtures().model(name) / "expected.safetensors");
    const TemporaryFolder folder;
    write_word_folder(folder, name);
    const std::string picture = (folder.path() / "picture.png").string();
    REQUIRE(write_png(fixture_picture(answers, 0), picture).ok());
    const auto tokens = [&](const char* beams) {
      const CommandResult result =
          pumice_command({"caption", folder.path().string(), picture, "-n", "12", "--beams", beams,
                          "--length-penalty", "1", "--early-stopping", "no", "--json"});
      INFO(result.err);
      REQUIRE(result.status == 0);
      return json::parse(result.out)["tokens"].get<std::vector<uint32_t>>();
    };
    CHECK(tokens("1") == answers.ids("generated_ids", 0));
    // Of the others, rounding the pixels changes what beams find.
    if (name == "vit-trocr" || name == "beit-trocr") CHECK(tokens("4") == answers.ids("beam4_ids", 0));
  }
}

// What transformers 5.13 makes of the same picture and words with CLIPImageProcessor's steps, in 64 bits.
TEST_CASE("caption reads a picture and a prompt together with Florence-2, as transformers does") {
  using Ids = std::vector<uint32_t>;
  const TemporaryFolder folder;
  write_word_folder(folder, "florence2");
  std::filesystem::copy_file(fixtures().model("florence2") / "preprocessor_config.json",
                             folder.path() / "preprocessor_config.json");
  json tokenizer = json::parse(std::ifstream(folder.path() / "tokenizer.json"));
  json& vocabulary = tokenizer["model"]["vocab"];
  vocabulary.erase(word(188)); // a place in the picture
  vocabulary["<loc_7>"] = 188;
  tokenizer["added_tokens"].push_back(special_token(188, "<loc_7>"));
  for (const auto& [id, text] : {std::pair(60, "What"),
                                 {61, "text"},
                                 {62, "is"},
                                 {63, "in"},
                                 {64, "the"},
                                 {65, "region"},
                                 {66, "w7?"},
                                 {67, "image?"},
                                 {68, "does"},
                                 {69, "image"},
                                 {70, "describe?"}}) {
    vocabulary.erase(word(static_cast<uint32_t>(id)));
    vocabulary[text] = id;
  }
  folder.write("tokenizer.json", tokenizer.dump());
  const std::string picture = (folder.path() / "a.png").string();
  REQUIRE(write_png(slopes(), picture).ok());
  const auto caption = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"caption", folder.path().string(), picture, "-n", "8", "--json"});
    return pumice_command(more);
  };
  const auto tokens = [&](const char* beams) -> json {
    const CommandResult result = caption({"--prompt", "w200 w17 w90", "--beams", beams});
    INFO(result.err);
    REQUIRE(result.status == 0);
    CHECK(json::parse(result.out)["text"].get<std::string>().find(beams[0] == '1' ? "<loc_7>" : "w309") !=
          std::string::npos);
    return json::parse(result.out)["tokens"];
  };
  CHECK(tokens("1") == json(Ids{188, 110, 110, 110, 110, 110, 110, 110}));
  CHECK(tokens("4") == json(Ids{66, 309, 309, 309, 309, 309, 309, 309}));

  // A task's words, between those that begin and end a text.
  const auto file = ModelFile::open(folder.path());
  REQUIRE(file.ok());
  const auto own = load_tokenizer(*file);
  REQUIRE(own.ok());
  const ModelShape shape = (*open_model_definition(*file))->shape();
  const auto text = [&](const std::optional<std::string>& prompt) {
    CaptionerOptions options;
    options.prompt = prompt;
    const auto settings = read_captioner_settings(*file, shape, *own, options);
    if (!settings.ok()) FAIL(settings.error().text());
    return settings->picture_text;
  };
  CHECK(text({}) == Ids{1, 60, 68, 64, 69, 70, 2});
  CHECK(text("<OCR>") == Ids{1, 60, 62, 64, 61, 63, 64, 67, 2});
  CHECK(text("<REGION_TO_OCR> w7 ") == Ids{1, 60, 61, 62, 63, 64, 65, 66, 2});
  CHECK(text("w5 w9 w33") == Ids{1, 5, 9, 33, 2});
  const CommandResult two = caption({"--prompt", "<OCR> w5"});
  CHECK(two.status != 0);
  CHECK(two.err.find("the task <OCR> stands alone") != std::string::npos);
  std::string many;
  for (uint32_t i = 0; i < 40; ++i) many += "w5 ";
  const CommandResult crowd = caption({"--prompt", many});
  CHECK(crowd.status != 0);
  CHECK(crowd.err.find("42 tokens follows a picture of 10 rows") != std::string::npos);
  const CommandResult map =
      caption({"--prompt", "w5 w9", "--attention", (folder.path() / "map.png").string()});
  INFO(map.err);
  CHECK(map.status == 0);
}

TEST_CASE("caption keeps Donut's markup, and begins with the task that is asked for") {
  const auto fixture = fixtures().model("donut");
  const Answers answers(fixture / "expected.safetensors");
  const std::vector<uint32_t> ids = answers.ids("generated_ids", 0);
  constexpr uint32_t task = 7;
  const TemporaryFolder folder;
  write_word_folder(folder, "donut");
  json tokenizer = json::parse(std::ifstream(folder.path() / "tokenizer.json"));
  for (const auto& [id, text] : {std::pair(ids[0], "<s_menu>"), {task, "<s_task>"}}) {
    tokenizer["model"]["vocab"].erase(word(id));
    tokenizer["model"]["vocab"][text] = id;
    tokenizer["added_tokens"].push_back(special_token(id, text));
  }
  folder.write("tokenizer.json", tokenizer.dump());
  const Image page = fixture_picture(answers, 0);
  const std::string path = (folder.path() / "page.png").string();
  REQUIRE(write_png(page, path).ok());
  const auto caption = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"caption", folder.path().string(), path, "-n", "12", "--json"});
    const CommandResult result = pumice_command(more);
    INFO(result.err);
    REQUIRE(result.status == 0);
    return json::parse(result.out);
  };
  const json usual = caption({}), asked = caption({"--prompt", "<s_task>"});
  CHECK(usual["tokens"] == json(ids));
  CHECK(usual["text"].get<std::string>().starts_with("<s_menu>"));
  CHECK(usual["text"].get<std::string>().find(word(2)) == std::string::npos); // the decoder's beginning
  CHECK(asked["tokens"] == json(expected_tokens(fixture, page, 12, std::vector{task})));
  CHECK(asked["tokens"] != usual["tokens"]);
  CHECK(caption({"--prompt", word(2)})["tokens"] == usual["tokens"]);
}

TEST_CASE("caption begins with a prompt after the start token, and writes no special tokens, but for Donut") {
  const TemporaryFolder folder;
  write_word_folder(folder, "vit-gpt2");
  const std::vector<uint32_t> ids = expected_tokens(folder.path(), picture(1));
  json tokenizer = json::parse(std::ifstream(folder.path() / "tokenizer.json"));
  tokenizer["added_tokens"].push_back(special_token(ids[0], word(ids[0])));
  folder.write("tokenizer.json", tokenizer.dump());
  const std::string path = (folder.path() / "a.png").string();
  REQUIRE(write_png(picture(1), path).ok());
  const auto caption = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"caption", folder.path().string(), path, "-n", "8", "--json"});
    const CommandResult result = pumice_command(more);
    INFO(result.err);
    REQUIRE(result.status == 0);
    return json::parse(result.out);
  };
  constexpr uint32_t start = 1, other = 33;
  CHECK(caption({"--prompt", word(other)})["tokens"] ==
        json(expected_tokens(folder.path(), picture(1), 8, {start, other})));
  CHECK(expected_tokens(folder.path(), picture(1), 8, {start, other}) !=
        expected_tokens(folder.path(), picture(1), 8, {other}));
  const std::string text = caption({})["text"].get<std::string>() + " ";
  CHECK(text.find(word(ids[0]) + " ") == text.npos);
}

TEST_CASE("caption writes about pictures, draws where it looked and refuses what is none") {
  const TemporaryFolder folder;
  write_word_folder(folder, "vit-gpt2");
  const std::string model = folder.path().string();
  const auto path = [&](const char* name) { return (folder.path() / name).string(); };
  REQUIRE(write_png(picture(1), path("a.png")).ok());
  REQUIRE(write_png(picture(77), path("b.png")).ok());
  REQUIRE(write_png(Image{1, 1, {9, 200, 3}}, path("dot.png")).ok());
  const auto caption = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"caption", model, "-n", "8"});
    const CommandResult result = pumice_command(arguments);
    INFO(result.err);
    REQUIRE(result.status == 0);
    return result.out;
  };

  const json first = json::parse(caption({path("a.png"), "--json"}));
  CHECK(first["image"] == path("a.png"));
  CHECK(first["tokens"].get<std::vector<uint32_t>>() == expected_tokens(folder.path(), picture(1)));
  const std::string alone = caption({path("a.png")}), other = caption({path("b.png")});
  CHECK(alone == first["text"].get<std::string>() + "\n");
  CHECK(caption({path("b.png"), path("a.png")}) ==
        path("b.png") + "\t" + other + path("a.png") + "\t" + alone);
  CHECK(lines_of(caption({path("dot.png"), "--beams", "3", "--n-best", "2"})).size() == 2);

  for (const char* beams : {"1", "3"}) {
    const std::string chosen = caption({path("a.png"), "--choices", "w5 w6,w7 w9 w11", "--beams", beams});
    CHECK((chosen == "w5 w6\n" || chosen == "w7 w9 w11\n"));
  }
  CHECK(fails_saying(pumice_command({"caption", model, path("a.png"), "--choices", "west"}),
                     {"no token", "form"}) == "");
  const std::string weights = path("w.safetensors");
  caption({path("a.png"), "--attention", weights});
  const auto file = SafetensorsFile::open(weights);
  REQUIRE(file.ok());
  const SafetensorsFile::Entry* shown = file->find("attention");
  REQUIRE(shown);
  CHECK(shown->shape == std::vector<uint64_t>{first["tokens"].size(), 17}); // a class token and 4 x 4 patches
  const std::vector<float> rows = *SafetensorsFile::floats(*shown);
  for (size_t row = 0; row < shown->shape[0]; ++row) {
    const auto at = rows.begin() + static_cast<ptrdiff_t>(row * 17);
    CHECK(std::accumulate(at, at + 17, 0.0) == doctest::Approx(1));
  }
  caption({path("a.png"), "--attention", path("w.png")});
  CHECK(read_image(path("w.png")).ok());

  folder.write("text.png", "this is no picture");
  CHECK(fails_saying(pumice_command({"caption", model, path("text.png")}), {"text.png", "PNG"}) == "");
  CHECK(fails_saying(pumice_command({"caption", model, path("none.png")}), {"none.png"}) == "");
  const CommandResult others = pumice_command(
      {"caption", model, "-n", "8", path("none.png"), path("a.png"), path("text.png"), path("b.png")});
  CHECK(others.status == 1);
  CHECK(others.out == path("a.png") + "\t" + alone + path("b.png") + "\t" + other);
  CHECK(others.err.find("none.png") != std::string::npos);
  CHECK(others.err.find("text.png") != std::string::npos);
  CHECK(fails_saying(pumice_command({"caption", model, path("a.png"), path("b.png"), "--attention", weights}),
                     {"one picture", "2 were given"}) == "");
  const std::string marian = fixtures().model("marian").string();
  CHECK(fails_saying(pumice_command({"caption", marian, path("a.png")}), {"pumice translate"}) == "");
}
