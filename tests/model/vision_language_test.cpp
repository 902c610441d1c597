// Decoders whose prompts have pictures, from the picture's pixels on, against a reference's answers.
#include <doctest/doctest.h>

#include <cstring>
#include <fstream>

#include <nlohmann/json.hpp>

#include "generate/prepared_picture.h"
#include "media/patches.h"
#include "media/tiles.h"
#include "support/command/command.h"
#include "support/files/fixtures.h"
#include "support/files/word_folder.h"
#include "support/picture_answers.h"
#include "support/picture_prompts.h"
#include "support/require.h"
#include "support/vision_models.h"
#include "support/vulkan/gpu.h"
#include "support/vulkan/row_bits.h"
#include "task/evaluation/picture_prompts.h"

using namespace pumice;
using namespace picture_tests;
using nlohmann::json;

TEST_CASE("SmolVLM: a picture becomes the reference's tiles") {
  const std::filesystem::path path = fixtures().model("smolvlm");
  const Answers answers(path / "expected.safetensors");
  const ImagePreparation preparation = require(read_image_preparation(path, 27, 27));
  const TiledPicture tiled = require(prepare_tiles(patterned_picture(29, 61), preparation, "picture"));
  CHECK(tiled.rows == 2);
  CHECK(tiled.columns == 3);
  std::vector<float> all;
  for (const std::vector<float>& each : tiled.pictures) all.insert(all.end(), each.begin(), each.end());
  check_pixels(all, answers.floats.at("pixel_values"));
}

TEST_CASE("SmolVLM: how pictures are cut is the reference's") {
  struct Case {
    uint32_t height, width, rows, columns;
  };
  const ImagePreparation preparation = require(read_image_preparation(fixtures().model("smolvlm"), 27, 27));
  for (const Case& c : {Case{1, 1, 4, 4},
                        {1, 100, 1, 3},
                        {100, 1, 3, 1},
                        {27, 27, 4, 4},
                        {28, 27, 3, 3},
                        {81, 81, 4, 4},
                        {80, 200, 2, 3},
                        {300, 77, 3, 1},
                        {13, 500, 1, 3},
                        {55, 54, 3, 3},
                        {54, 55, 3, 3},
                        {61, 29, 3, 2}}) {
    CAPTURE(c.height);
    CAPTURE(c.width);
    const TiledPicture tiled = require(prepare_tiles(patterned_picture(c.height, c.width), preparation, ""));
    CHECK(tiled.rows == c.rows);
    CHECK(tiled.columns == c.columns);
    REQUIRE(tiled.pictures.size() == c.rows * c.columns + 1);
    for (const std::vector<float>& each : tiled.pictures) CHECK(each.size() == 3 * 27 * 27);
  }
  ImagePreparation whole = preparation;
  whole.tiling->cuts = false;
  CHECK(require(prepare_tiles(patterned_picture(29, 61), whole, "")).pictures.size() == 1);
  ImagePreparation as_it_is = preparation;
  as_it_is.resizes = false;
  CHECK(require(prepare_tiles(patterned_picture(27, 27), as_it_is, "")).pictures.size() == 1);
  CHECK(!prepare_tiles(patterned_picture(1, 9000), as_it_is, "a.png").ok());
  CHECK(!prepare(patterned_picture(29, 61), preparation, "a.png").ok()); // it is no single picture
  CHECK(!read_image_preparation(fixtures().model("smolvlm"), 28, 28).ok());
}

TEST_CASE("SmolVLM: logits and text of a prompt with tiles are the reference's") {
  const std::filesystem::path path = fixtures().model("smolvlm");
  const Answers answers(path / "expected.safetensors");
  const auto model = load_model(path);
  REQUIRE(model->shape().pictures);
  check_answers(model, picture_prompt(path, answers, *model->shape().pictures), answers);
}

TEST_CASE("SmolVLM: caption, chat and generate show the tiles of a picture") {
  const TemporaryFolder folder;
  write_vision_folder(folder, smolvlm());
  const std::string model = folder.path().string(), image = (folder.path() / "a.png").string();
  const std::filesystem::path fixture = fixtures().model("smolvlm") / "expected.safetensors";
  const Answers answers(fixture);
  REQUIRE(write_png(patterned_picture(29, 61), image).ok());
  const std::string expected = words(answers.ids("generated_ids", 0)) + "\n";
  const std::string prompt = prompt_text(answers, 311, "<image>");
  const std::vector<std::string> plain = {"--temp", "0", "-n", "12"};
  const auto run = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), plain.begin(), plain.end());
    const CommandResult result = pumice_command(arguments);
    CAPTURE(result.err);
    CHECK(result.status == 0);
    return result.out;
  };
  CHECK(run({"caption", model, image, "--prompt", prompt}) == expected);
  const size_t mark = prompt.find("<image>");
  folder.write("chat_template.jinja", "{% for m in messages %}" + prompt.substr(0, mark) +
                                          "{% for p in m.content if p.type == 'image' %}<image>{% endfor %}" +
                                          prompt.substr(mark + 7) + "{% endfor %}");
  CHECK(run({"caption", model, image}) == expected);
  const std::string formed = run({"caption", model, image, "--regex", "( ?w[0-9]+){2}"});
  CHECK((formed.starts_with("w") && std::ranges::count(formed, 'w') == 2));
  CHECK(run({"chat", model, "--image", image, "w9", "--kv", "f32"}) == expected);
  // Each of two pictures has its own tiles.
  const std::string small = (folder.path() / "b.png").string();
  REQUIRE(write_png(patterned_picture(12, 80), small).ok());
  const std::string two = run({"caption", model, image, small});
  CHECK(two.starts_with(image + "\t" + expected));
  CHECK(run({"chat", model, "--image", image, "--image", small, "w9", "--kv", "f32"}) != expected);

  CHECK(fails_saying(pumice_command({"caption", model, image, "--prompt", "w5 w6"}), {"'<image>'", "0 of"}) ==
        "");
  CHECK(fails_saying(pumice_command({"embed", model, "--image", image}), {"pumice caption"}) == "");
  const std::string written = (folder.path() / "written.safetensors").string();
  (void)run({"generate", model, "--inputs", fixture.string(), "--outputs", written, "--ignore-eos"});
  CHECK(Answers(written).ids("generated_ids", 0) == answers.ids("generated_ids", 0));
}

TEST_CASE("Gemma 3: pixels, logits and text of a prompt with two pictures are the reference's") {
  const std::filesystem::path path = fixtures().model("gemma3-vision");
  const Answers answers(path / "expected.safetensors");
  const ImagePreparation preparation = require(read_image_preparation(path, 30, 30));
  check_pixels(require(prepare(patterned_picture(29, 61), preparation, "a")), answers.row("pixel_values", 0));
  check_pixels(require(prepare(patterned_picture(17, 33), preparation, "b")), answers.row("pixel_values", 1));
  const auto model = load_model(path);
  REQUIRE(model->shape().pictures);
  check_answers(model, picture_prompt(path, answers, *model->shape().pictures), answers);
}

TEST_CASE("Gemma 3: a picture is computed again unless all of it is the same") {
  const std::filesystem::path path = fixtures().model("gemma3-vision");
  const Answers answers(path / "expected.safetensors");
  const auto model = load_model(path);
  const PicturePrompt prompt = picture_prompt(path, answers, *model->shape().pictures);
  const std::vector<uint32_t> expected = answers.ids("generated_ids", 0);
  const auto count = static_cast<uint32_t>(expected.size());
  SessionOptions options;
  options.size.cache = CacheType::f32;
  options.size.sequences = 2;
  options.size.chunk = 4; // is made larger: a picture and a row of the other text
  const auto batch = require(Batch::create(model, options));
  CHECK(continue_prompt(*batch, prompt, count) == expected);
  // A text that ends in the middle of the second picture, so that its rows see less, and goes on.
  const auto last = std::find_if(prompt.tokens.rbegin(), prompt.tokens.rend(), is_picture_row);
  const auto cut = static_cast<size_t>(prompt.tokens.rend() - last) - 4;
  const size_t columns = prompt.embeddings->values.size() / (2 * model->shape().pictures->rows);
  PicturePrompt part;
  part.tokens.assign(prompt.tokens.begin(), prompt.tokens.begin() + static_cast<ptrdiff_t>(cut));
  part.embeddings = std::make_shared<const PromptEmbeddings>(
      PromptEmbeddings{{prompt.embeddings->values.begin(),
                        prompt.embeddings->values.end() - static_cast<ptrdiff_t>(4 * columns)},
                       {}});
  const auto fresh = require(Batch::create(model, options));
  const std::vector<uint32_t> of_part = continue_prompt(*fresh, part, count);
  CHECK(continue_prompt(*batch, part, count) == of_part);
  CHECK(continue_prompt(*batch, prompt, count) == expected);
  // Beside another text.
  SequenceRequest other;
  other.prompt = {5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20};
  other.max_tokens = 40;
  other.sampling.temperature = 0;
  const uint32_t id = require(batch->add(std::move(other)));
  std::vector<uint32_t> beside;
  SequenceRequest request;
  request.prompt = prompt.tokens;
  request.embeddings = prompt.embeddings;
  request.max_tokens = count;
  request.sampling.temperature = 0;
  const uint32_t own = require(batch->add(std::move(request)));
  while (batch->sequences() > 0) {
    const std::span<const BatchToken> tokens = require(batch->step());
    for (const BatchToken& token : tokens) {
      if (token.sequence == own) beside.push_back(token.token);
    }
  }
  CHECK(id != own);
  CHECK(beside == expected);
  // Two pictures without a token between them are too long for a step.
  PicturePrompt joined = prompt;
  std::erase_if(joined.tokens, [](uint32_t token) { return !is_picture_row(token); });
  joined.tokens.push_back(5);
  SequenceRequest refused;
  refused.prompt = joined.tokens;
  refused.embeddings = joined.embeddings;
  refused.max_tokens = 1;
  const auto status = batch->add(std::move(refused));
  REQUIRE(!status.ok());
  CHECK(status.error().message.find("side by side") != std::string::npos);
}

TEST_CASE("Gemma 3: chat and generate show pictures") {
  const TemporaryFolder folder;
  write_vision_folder(folder, gemma3_vision());
  const std::string model = folder.path().string();
  const std::string a = (folder.path() / "a.png").string(), b = (folder.path() / "b.png").string();
  REQUIRE(write_png(patterned_picture(29, 61), a).ok());
  REQUIRE(write_png(patterned_picture(17, 33), b).ok());
  const std::filesystem::path fixture = fixtures().model("gemma3-vision") / "expected.safetensors";
  const Answers answers(fixture);
  folder.write("chat_template.jinja", text_of_prompt(answers, gemma3_vision()));
  const CommandResult shown = pumice_command(
      {"chat", model, "--image", a, "--image", b, "w9", "--temp", "0", "-n", "12", "--kv", "f32"});
  CAPTURE(shown.err);
  CHECK(shown.out == words(answers.ids("generated_ids", 0)) + "\n");
  const std::string written = (folder.path() / "written.safetensors").string();
  const CommandResult generated =
      pumice_command({"generate", model, "--inputs", fixture.string(), "--outputs", written, "--ignore-eos",
                      "--temp", "0", "-n", "12"});
  CAPTURE(generated.err);
  REQUIRE(generated.status == 0);
  CHECK(Answers(written).ids("generated_ids", 0) == answers.ids("generated_ids", 0));
}

TEST_CASE("Pixtral: pictures become the reference's patches") {
  for (const VisionModel& fixture : {mistral3_vision(), pixtral(), lighton_ocr()}) {
    CAPTURE(std::string(fixture.name));
    const std::filesystem::path path = fixtures().model(fixture.name);
    const Answers answers(path / "expected.safetensors");
    const auto tower =
        require(open_model_definition(require(ModelFile::open(path)), Tower::pictures))->shape().encoder;
    std::vector<float> all;
    for (const Image& image : fixture.pictures) {
      const PatchedPicture cut = require(cut_patches(image, *tower->preparation, "picture"));
      CHECK(cut.grid.height % tower->patch_groups->merge == 0);
      all.insert(all.end(), cut.values.begin(), cut.values.end());
    }
    check_pixels(all, answers.floats.at("pixel_values"));
  }
}

TEST_CASE("Pixtral: pictures are resized as the reference resizes them") {
  // As transformers' get_resize_output_image_size() has it, in pixels.
  struct Case {
    uint32_t height, width, down, across;
  };
  PatchCutting cutting{14, 1, 2};
  cutting.max_pixels = uint64_t{16384} * 14 * 14;
  cutting.limit_edges(1540);
  for (const Case& c : {Case{480, 640, 504, 644},
                        {1080, 1920, 868, 1540},
                        {28, 28, 28, 28},
                        {29, 1, 56, 28},
                        {1540, 1541, 1540, 1540},
                        {3000, 7, 1540, 28},
                        {5000, 5000, 1540, 1540}}) {
    CAPTURE(c.height);
    CAPTURE(c.width);
    const PatchGrid grid = require(patch_grid_of(c.height, c.width, cutting, "picture"));
    CHECK(grid.height * 14 == c.down);
    CHECK(grid.width * 14 == c.across);
  }
  cutting.max_pixels = uint64_t{5120} * 14 * 14; // less than its longest edges have
  for (const auto& [height, width] : {std::pair(5000u, 5000u), {1080u, 1920u}, {1u, 9000u}}) {
    const PatchGrid grid = require(patch_grid_of(height, width, cutting, "picture"));
    CHECK(grid.count() <= 5120);
    CHECK(std::max(grid.height, grid.width) >= 70);
  }
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& text, const std::vector<std::string>& parts) {
    folder.write("preprocessor_config.json", text);
    const auto read = read_patch_preparation(folder.path(), cutting);
    REQUIRE(!read.ok());
    for (const std::string& part : parts) CHECK(read.error().message.find(part) != std::string::npos);
  };
  refused(R"({"patch_size": 16})", {"preprocessor_config.json", "patch_size", "14"});
  refused(R"({"patch_size": {"height": 14, "width": 16}})", {"patch_size.width", "14"});
  refused(R"({"size": {"height": 9, "width": 9}})", {"size", "longest_edge"});
  refused(R"({"do_center_crop": true})", {"do_center_crop"});
}

TEST_CASE("InternVL: a picture becomes the reference's tiles") {
  const VisionModel fixture = internvl();
  const std::filesystem::path path = fixtures().model(fixture.name);
  const Answers answers(path / "expected.safetensors");
  const ImagePreparation preparation = require(read_image_preparation(path, 30, 30));
  std::vector<float> all;
  for (const Image& image : fixture.pictures) {
    const TiledPicture tiled = require(prepare_tiles(image, preparation, "picture"));
    for (const std::vector<float>& each : tiled.pictures) all.insert(all.end(), each.begin(), each.end());
  }
  check_pixels(all, answers.floats.at("pixel_values"));
  // As transformers' get_optimal_tiled_canvas() has it.
  struct Case {
    uint32_t height, width, rows, columns; // of tiles; 0: it is one itself
  };
  ImagePreparation published;
  published.tiling = Tiling{.edge = 448, .least = 1, .most = 12};
  for (const Case& c : {Case{448, 448, 0, 0},
                        {640, 480, 4, 3},
                        {480, 640, 3, 4},
                        {1080, 1920, 2, 4},
                        {2000, 2000, 3, 3},
                        {700, 700, 2, 2},
                        {100, 1500, 1, 12},
                        {3000, 200, 12, 1},
                        {900, 901, 2, 2},
                        {1344, 896, 3, 2},
                        {650, 1300, 2, 4},
                        {1300, 3900, 2, 6}}) {
    CAPTURE(c.height);
    CAPTURE(c.width);
    const PicturePlan plan = require(plan_tiles({c.height, c.width}, published, "picture"));
    CHECK(plan.rows == c.rows);
    CHECK(plan.columns == c.columns);
  }
}

TEST_CASE("Pixtral and InternVL: logits and text of a prompt with two pictures are the reference's") {
  for (const VisionModel& fixture : {mistral3_vision(), pixtral(), lighton_ocr(), internvl()}) {
    CAPTURE(std::string(fixture.name));
    const std::filesystem::path path = fixtures().model(fixture.name);
    const Answers answers(path / "expected.safetensors");
    const auto model = load_model(path);
    REQUIRE(model->shape().pictures);
    check_answers(model, picture_prompt(path, answers, *model->shape().pictures), answers);
  }
}

TEST_CASE("Pixtral, InternVL and DeepSeek-OCR 2: caption, chat and generate show pictures") {
  for (const VisionModel& fixture : {mistral3_vision(), lighton_ocr(), internvl(), deepseek_ocr2()}) {
    CAPTURE(std::string(fixture.name));
    const TemporaryFolder folder;
    write_vision_folder(folder, fixture);
    const std::string model = folder.path().string();
    const std::string a = (folder.path() / "a.png").string(), b = (folder.path() / "b.png").string();
    REQUIRE(write_png(fixture.pictures[0], a).ok());
    REQUIRE(write_png(fixture.pictures[1], b).ok());
    const std::filesystem::path inputs = fixtures().model(fixture.name) / "expected.safetensors";
    const Answers answers(inputs);
    const std::vector<std::string> plain = {"--temp", "0", "-n", "12"};
    const auto run = [&](std::vector<std::string> arguments) {
      arguments.insert(arguments.end(), plain.begin(), plain.end());
      const CommandResult result = pumice_command(arguments);
      CAPTURE(result.err);
      CHECK(result.status == 0);
      return result.out;
    };
    folder.write("chat_template.jinja", text_of_prompt(answers, fixture));
    CHECK(run({"chat", model, "--image", a, "--image", b, "w9", "--kv", "f32"}) ==
          words(answers.ids("generated_ids", 0)) + "\n");
    folder.write("chat_template.jinja", std::string("w5 w6 ") + fixture.place + " w7");
    const std::string alone = run({"caption", model, a});
    CHECK(run({"caption", model, a, "--prompt", "w5 w6 <image> w7"}) == alone);
    CHECK(run({"caption", model, b, a}).ends_with("\n" + a + "\t" + alone));
    CHECK(fails_saying(pumice_command({"caption", model, a, "--prompt", "w5 w6"}), {"'<image>'", "0 of"}) ==
          "");
    const std::string written = (folder.path() / "written.safetensors").string();
    (void)run({"generate", model, "--inputs", inputs.string(), "--outputs", written, "--ignore-eos"});
    CHECK(Answers(written).ids("generated_ids", 0) == answers.ids("generated_ids", 0));
  }
}

TEST_CASE("DeepSeek-OCR 2: a picture becomes the reference's tiles, and the whole in a square") {
  const VisionModel fixture = deepseek_ocr2();
  const std::filesystem::path path = fixtures().model(fixture.name);
  const Answers answers(path / "expected.safetensors");
  const auto tower = require(open_model_definition(require(ModelFile::open(path)), Tower::pictures));
  const ImagePreparation preparation = *tower->shape().encoder->preparation;
  std::vector<float> tiles;
  for (size_t i = 0; i < fixture.pictures.size(); ++i) {
    PreparedPicture prepared = require(prepare_for_prompt(fixture.pictures[i], preparation, "picture"));
    check_pixels(prepared.inputs.back().values, answers.row("pixel_values", i));
    CHECK(prepared.inputs.back().grid == PatchGrid());
    prepared.inputs.pop_back();
    CHECK(prepared.inputs.size() == (i == 0 ? 2 : 0));
    for (const EncoderInput& each : prepared.inputs) {
      CHECK(each.grid == PatchGrid{3, 3});
      tiles.insert(tiles.end(), each.values.begin(), each.values.end());
    }
  }
  check_pixels(tiles, answers.floats.at("pixel_values_local"));
  // As transformers' processor has it with the published sizes.
  struct Case {
    uint32_t height, width, rows, columns, down, across; // the last two of the whole
    int64_t top, left;
  };
  const TemporaryFolder folder;
  const ImagePreparation published = require(read_filled_preparation(folder.path()));
  for (const Case& c : {Case{768, 768, 0, 0, 1024, 1024, 0, 0},
                        {769, 768, 2, 2, 1024, 1023, 0, 0},
                        {100, 768, 0, 0, 133, 1024, 445, 0},
                        {600, 1000, 2, 3, 614, 1024, 205, 0},
                        {1500, 1000, 3, 2, 1024, 683, 0, 170},
                        {300, 3000, 1, 6, 102, 1024, 461, 0},
                        {3000, 301, 6, 1, 1024, 103, 0, 460},
                        {900, 1801, 1, 2, 512, 1024, 256, 0},
                        {640, 481, 0, 0, 1024, 770, 0, 127}}) {
    CAPTURE(c.height);
    CAPTURE(c.width);
    const PicturePlan plan = require(plan_tiles({c.height, c.width}, published, "picture"));
    CHECK(plan.rows == c.rows);
    CHECK(plan.columns == c.columns);
    REQUIRE(plan.parts.size() == c.rows * c.columns + 1);
    CHECK(plan.parts.back().height == c.down);
    CHECK(plan.parts.back().width == c.across);
    CHECK(plan.parts.back().window.top == -c.top);
    CHECK(plan.parts.back().window.left == -c.left);
  }
  for (const char* text : {R"({"crop_to_patches": false})", R"({"size": {"height": 9, "width": 8}})",
                           R"({"background_color": [300, 0, 0]})", R"({"tile_size": 0})"}) {
    CAPTURE(std::string(text));
    folder.write("preprocessor_config.json", text);
    const auto read = read_filled_preparation(folder.path());
    REQUIRE(!read.ok());
    const std::string field(text + 2, std::strchr(text + 2, '"'));
    CHECK(read.error().message.find(field) != std::string::npos);
  }
}

TEST_CASE("DeepSeek-OCR 2: logits and text of a prompt with two pictures are the reference's") {
  const std::filesystem::path path = fixtures().model("deepseek-ocr2");
  const Answers answers(path / "expected.safetensors");
  const auto model = load_model(path);
  REQUIRE(model->shape().pictures);
  const SafetensorsFile tensors = require(SafetensorsFile::open(path / "expected.safetensors"));
  const PicturePrompts prompts =
      require(PicturePrompts::read(tensors, "inputs", model->file(), model->shape()));
  PictureRows rows = require(PictureRows::create(load_pictures(path), *model->shape().pictures));
  check_answers(model, require(prompts.encode(rows)).at(0), answers);
}

TEST_CASE("DeepSeek-OCR 2: a picture or a tile has the same rows beside another one") {
  const std::filesystem::path path = fixtures().model("deepseek-ocr2");
  const Answers answers(path / "expected.safetensors");
  const auto tower = load_pictures(path);
  for (const char* name : {"pixel_values", "pixel_values_local"}) {
    CAPTURE(std::string(name));
    const bool tiles = std::string(name) == "pixel_values_local";
    const std::shared_ptr<const Model> model = tiles ? tower->for_tiles() : tower;
    REQUIRE(model);
    const std::vector<EncoderInput> inputs = values_of(answers, name);
    REQUIRE(inputs.size() == 2);
    const auto alone = make_encoder(model, PictureTokens::features, 1),
               both = make_encoder(model, PictureTokens::features, 2);
    encode(*both, inputs);
    for (size_t i = 0; i < inputs.size(); ++i) {
      encode(*alone, std::span(&inputs[i], 1));
      CHECK(same_in_any_step(read(*both, PictureTokens::features, i),
                             read(*alone, PictureTokens::features, 0)));
    }
  }
  EncoderInput wrong = values_of(answers, "pixel_values_local")[0];
  const auto whole = make_encoder(tower, PictureTokens::features, 1);
  CHECK(!whole->encode(std::span(&wrong, 1)).ok());
}

TEST_CASE("Pixtral: a prompt with one token for a picture has no lines") {
  const std::filesystem::path path = fixtures().model("mistral3-vision");
  const auto definition = require(open_model_definition(require(ModelFile::open(path))));
  const PictureTokens tokens = *definition->shape().pictures;
  CHECK(tokens.markup.text({0, 0, 2, 3}) == "[IMG][IMG][IMG][IMG_BREAK][IMG][IMG][IMG][IMG_END]");
  const std::vector<uint32_t> prompt = {5, 319, 6};
  const std::vector<PatchGrid> grids = {{4, 6}};
  const auto length = length_with_pictures(tokens, prompt, grids, "a prompt");
  REQUIRE(!length.ok());
  CHECK(length.error().message.find("6 in all") != std::string::npos);
}

// The settings of published models, and what of them is refused.
TEST_CASE("Pixtral and InternVL: encoders have the published sizes") {
  const auto open = [](const json& config, Tower tower) {
    const std::string text = config.dump();
    const ModelFile file = require(ModelFile::from_memory(std::as_bytes(std::span(text)), "config.json"));
    return open_model_definition(file, tower);
  };
  const auto shape_of = [](const ModelDefinition& definition, const std::string& tensor) {
    for (const WeightSpec& spec : definition.weights())
      if (spec.name == tensor) return spec.shape;
    return std::vector<uint64_t>();
  };
  const auto refused = [&](const json& config, const std::vector<std::string>& parts) {
    const auto opened = open(config, Tower::pictures);
    REQUIRE(!opened.ok());
    for (const std::string& part : parts) {
      CAPTURE(opened.error().message);
      CHECK(opened.error().message.find(part) != std::string::npos);
    }
  };
  using Shape = std::vector<uint64_t>;
  const json ministral = {{"model_type", "mistral3"},
                          {"image_token_index", 10},
                          {"spatial_merge_size", 2},
                          {"text_config", {{"model_type", "ministral3"}, {"hidden_size", 3072}}},
                          {"vision_config",
                           {{"model_type", "pixtral"},
                            {"hidden_act", "silu"},
                            {"image_size", 1540},
                            {"patch_size", 14},
                            {"rope_parameters", {{"rope_theta", 10000}}}}}};
  const auto of_lines = require(open(ministral, Tower::pictures));
  CHECK(shape_of(*of_lines, "vision_tower.patch_conv.weight") == Shape{1024, 3, 14, 14});
  CHECK(shape_of(*of_lines, "vision_tower.transformer.layers.23.feed_forward.gate_proj.weight") ==
        Shape{4096, 1024});
  CHECK(shape_of(*of_lines, "multi_modal_projector.patch_merger.merging_layer.weight") == Shape{1024, 4096});
  CHECK(shape_of(*of_lines, "multi_modal_projector.linear_1.weight") == Shape{3072, 1024});
  CHECK(of_lines->shape().encoder->context == 74 * 74); // the processor's class has edges up to 1024
  json changed = ministral;
  changed["vision_feature_layer"] = {-2, -1};
  refused(changed, {"vision_feature_layer", "expected -1"});
  changed = ministral;
  changed["vision_config"]["num_attention_heads"] = 512;
  refused(changed, {"vision_config.num_attention_heads", "multiple of 4"});

  const json intern = {{"model_type", "internvl"},
                       {"text_config", {{"model_type", "qwen2"}, {"hidden_size", 896}}},
                       {"vision_config", {{"attention_bias", true}}}};
  const auto of_tiles = require(open(intern, Tower::pictures));
  CHECK(shape_of(*of_tiles, "vision_tower.embeddings.position_embeddings") == Shape{1, 1025, 1024});
  CHECK(shape_of(*of_tiles, "vision_tower.encoder.layer.23.attention.q_proj.bias") == Shape{1024});
  CHECK(shape_of(*of_tiles, "vision_tower.encoder.layer.23.lambda_2") == Shape{1024});
  CHECK(shape_of(*of_tiles, "multi_modal_projector.layer_norm.weight") == Shape{4096});
  CHECK(shape_of(*of_tiles, "multi_modal_projector.linear_2.weight") == Shape{896, 896});
  const auto refused_vision = [&](const char* field, const json& value, const char* expected) {
    json other = intern;
    other["vision_config"][field] = value;
    refused(other, {std::string("vision_config.") + field, expected});
  };
  refused_vision("norm_type", "rms_norm", "layer_norm");
  refused_vision("use_qk_norm", true, "not supported");
  refused_vision("image_size", json{448, 224}, "the same twice");
  changed = intern;
  changed["downsample_ratio"] = 0.3;
  refused(changed, {"downsample_ratio"});
  changed["downsample_ratio"] = 0.2;
  refused(changed, {"downsample_ratio", "32 patches"});
  changed = intern;
  changed["vision_feature_select_strategy"] = "full";
  refused(changed, {"vision_feature_select_strategy"});

  // A config that says only what differs from its class.
  const json ocr = {{"model_type", "deepseek_ocr2"},
                    {"text_config", {{"hidden_size", 1280}, {"num_experts_per_tok", 6}}},
                    {"vision_config",
                     {{"encoder_config",
                       {{"hidden_size", 896},
                        {"num_attention_heads", 14},
                        {"num_key_value_heads", 2},
                        {"num_hidden_layers", 24},
                        {"intermediate_size", 4864}}}}}};
  const auto of_pages = require(open(ocr, Tower::pictures));
  CHECK(shape_of(*of_pages, "model.sam_model.pos_embed") == Shape{1, 64, 64, 768});
  CHECK(shape_of(*of_pages, "model.sam_model.blocks.2.attn.rel_pos_h") == Shape{127, 64});
  CHECK(shape_of(*of_pages, "model.sam_model.blocks.3.attn.rel_pos_w") == Shape{27, 64});
  CHECK(shape_of(*of_pages, "model.sam_model.net_3.weight") == Shape{896, 512, 3, 3});
  CHECK(shape_of(*of_pages, "model.qwen2_model.query_1024.weight") == Shape{256, 896});
  CHECK(shape_of(*of_pages, "model.qwen2_model.query_768.weight") == Shape{144, 896});
  CHECK(shape_of(*of_pages, "model.projector.layers.weight") == Shape{1280, 896});
  REQUIRE(of_pages->tiles());
  CHECK(of_pages->tiles()->shape().encoder->context == 288);
  const auto of_text = require(open(ocr, Tower::main));
  CHECK(of_text->shape().pictures->rows == 257);
  CHECK(shape_of(*of_text, "model.layers.0.mlp.shared_experts.up_proj.weight") == Shape{2814, 1280});
  changed = ocr;
  changed["vision_config"]["encoder_config"]["hidden_size"] = 448;
  refused(changed, {"vision_config.encoder_config.hidden_size", "downsample_channels", "896"});
  changed = ocr;
  changed["vision_config"]["sam_config"] = {{"num_attention_heads", 5}};
  refused(changed, {"vision_config.sam_config.num_attention_heads", "768"});
}
