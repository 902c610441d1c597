// MiniCPM-V: pictures and slices of them in a decoder's prompt, from their pixels on, against a reference's
// answers.
#include <doctest/doctest.h>

#include <fstream>
#include <set>

#include "media/tiles.h"
#include "step/patch_order.h"
#include "support/command/command.h"
#include "support/picture_answers.h"
#include "support/vision_models.h"

using namespace pumice;
using namespace picture_tests;
using nlohmann::json;

namespace {

constexpr const char* name = "minicpm-v";

ImagePreparation published(uint32_t merge) {
  ImagePreparation preparation;
  preparation.patches = PatchCutting{14, 1, merge};
  preparation.patches->max_pixels = uint64_t{4356} * 14 * 14;
  preparation.slices = Slicing();
  return preparation;
}

Result<std::unique_ptr<ModelDefinition>> open(const json& config, Tower tower) {
  const std::string text = config.dump();
  const ModelFile file = require(ModelFile::from_memory(std::as_bytes(std::span(text)), "config.json"));
  return open_model_definition(file, tower);
}

std::vector<uint64_t> shape_of(const ModelDefinition& definition, const std::string& tensor) {
  for (const WeightSpec& spec : definition.weights())
    if (spec.name == tensor) return spec.shape;
  return {};
}

// Empty if the result is an error whose message has all of these.
template <class T>
std::string refused_saying(const Result<T>& result, const std::vector<std::string>& parts) {
  if (result.ok()) return "no error";
  for (const std::string& part : parts) {
    if (result.error().message.find(part) == std::string::npos)
      return "no '" + part + "' in: " + result.error().message;
  }
  return "";
}

} // namespace

TEST_CASE("MiniCPM-V: pictures become the reference's patches") {
  const std::filesystem::path path = fixtures().model(name);
  const Answers answers(path / "expected.safetensors");
  const ImagePreparation preparation = *load_pictures(path)->shape().encoder->preparation;
  std::vector<float> all;
  size_t part = 0;
  for (const Image& image : minicpm_v().pictures) {
    const PreparedPicture picture = require(prepare_for_prompt(image, preparation, "picture"));
    for (const EncoderInput& input : picture.inputs) {
      const std::vector<uint32_t> grid = answers.ids("image_grid_thw", part++);
      CHECK(input.grid == PatchGrid{grid[1], grid[2]});
      all.insert(all.end(), input.values.begin(), input.values.end());
    }
  }
  CHECK(part == answers.shapes.at("image_grid_thw")[0]);
  check_pixels(all, answers.floats.at("pixel_values"));
}

TEST_CASE("MiniCPM-V: pictures are resized and sliced as the reference does it") {
  // As transformers' find_best_resize(), get_sliced_grid() and get_refine_size() have it.
  struct Case {
    uint32_t merge, height, width;
    PatchGrid slices;
    uint32_t down, across;             // of the whole, in pixels
    uint32_t slice_down, slice_across; // of a slice
  };
  for (const Case& c : {Case{4, 480, 640, {1, 2}, 392, 504, 560, 392},
                        {4, 1080, 1920, {2, 4}, 336, 616, 448, 448},
                        {4, 448, 448, {}, 448, 448, 0, 0},
                        {4, 449, 448, {2, 1}, 448, 448, 336, 616},
                        {4, 17, 33, {}, 336, 616, 0, 0},
                        {4, 4000, 300, {7, 1}, 1624, 112, 616, 336},
                        {4, 100, 3000, {1, 3}, 56, 2408, 168, 1400},
                        {4, 3024, 4032, {3, 3}, 392, 504, 392, 504},
                        {4, 56, 5000, {1, 3}, 56, 4200, 56, 2464},
                        {4, 1, 1, {}, 448, 448, 0, 0},
                        {4, 896, 897, {2, 2}, 448, 448, 448, 448},
                        {2, 480, 640, {1, 2}, 392, 504, 560, 364},
                        {2, 2000, 3000, {2, 4}, 364, 560, 504, 392},
                        {2, 17, 33, {}, 308, 616, 0, 0}}) {
    CAPTURE(c.height);
    CAPTURE(c.width);
    const PicturePlan plan = require(plan_slices({c.height, c.width}, published(c.merge), "picture"));
    CHECK(plan.rows == c.slices.height);
    CHECK(plan.columns == c.slices.width);
    REQUIRE(plan.parts.size() == 1 + c.slices.count());
    CHECK(plan.parts[0].grid == PatchGrid{c.down / 14, c.across / 14});
    for (size_t i = 1; i < plan.parts.size(); ++i) {
      CHECK(plan.parts[i].grid == PatchGrid{c.slice_down / 14, c.slice_across / 14});
      CHECK(plan.parts[i].height == plan.rows * c.slice_down);
      CHECK(plan.parts[i].width == plan.columns * c.slice_across);
      CHECK(plan.parts[i].window.left == static_cast<int64_t>((i - 1) % plan.columns * c.slice_across));
      CHECK(plan.parts[i].window.top == static_cast<int64_t>((i - 1) / plan.columns * c.slice_down));
    }
  }
  CHECK(refused_saying(plan_slices({1, 16384}, published(4), "a.png"),
                       {"a.png", "16384 x 1 pixels", "4356 patches"}) == "");
  ImagePreparation whole = published(4);
  whole.slices->most = 1;
  CHECK(require(plan_slices({1080, 1920}, whole, "picture")).parts.size() == 1);
}

TEST_CASE("four patches of a square that are a square lie side by side") {
  const PatchGrid grid{8, 12};
  const std::vector<OrderedPatch> patches = ordered_patches(grid, {4, 0, true});
  REQUIRE(patches.size() == 96);
  std::set<uint32_t> indices;
  for (uint32_t row = 0; row < patches.size(); ++row) {
    const OrderedPatch& patch = patches[row];
    indices.insert(patch.index);
    const OrderedPatch& first = patches[row / 4 * 4];
    CHECK(patch.down == first.down / 2 * 2 + row % 4 / 2);
    CHECK(patch.across == first.across / 2 * 2 + row % 2);
    const uint32_t square = row / 16;
    CHECK(patch.down / 4 == square / 3);
    CHECK(patch.across / 4 == square % 3);
    CHECK(patch.index == 16 * square + patch.down % 4 * 4 + patch.across % 4);
  }
  CHECK(indices.size() == 96);
  CHECK(patches[4].across == 2);
  CHECK(patches[8].down == 2);
}

TEST_CASE("MiniCPM-V: a prompt's text has a picture's number, the picture and its slices") {
  const auto definition = require(open_model_definition(require(ModelFile::open(fixtures().model(name)))));
  const PictureTokens tokens = *definition->shape().pictures;
  const std::vector<PictureGrid> grids = {{2, 1, 4, 4}, {0, 0, 3, 5}};
  const PicturePlaces places = picture_places(tokens.markup, grids);
  CHECK(places.place == "<|image_pad|>");
  CHECK(places.texts[0] == "<image_id>0</image_id><image><|image_pad|></image><slice><|image_pad|></slice>\n"
                           "<slice><|image_pad|></slice>");
  CHECK(places.texts[1] == "<image_id>1</image_id><image><|image_pad|></image>");
  CHECK(tokens.merge == 4);
  CHECK(!tokens.has_places());
}

TEST_CASE("MiniCPM-V: rows are the reference's, alone and in one step") {
  const std::filesystem::path path = fixtures().model(name);
  const Answers answers(path / "expected.safetensors");
  const PictureTokens shape =
      *require(open_model_definition(require(ModelFile::open(path))))->shape().pictures;
  const auto tower = load_pictures(path);
  const std::vector<EncoderInput> pictures = pictures_of(answers, *tower->shape().encoder);
  const auto encoder = make_encoder(tower, PictureTokens::features, static_cast<uint32_t>(pictures.size()));
  const auto append_rows = [&](size_t input, const EncoderInput& picture, std::vector<float>& to) {
    const std::vector<float> rows =
        rows_of_picture(shape, encoder->shape(), picture.grid, read(*encoder, PictureTokens::features, input),
                        encoder->columns(PictureTokens::features));
    to.insert(to.end(), rows.begin(), rows.end());
  };
  std::vector<float> together, alone;
  encode(*encoder, pictures);
  for (size_t i = 0; i < pictures.size(); ++i) append_rows(i, pictures[i], together);
  for (const EncoderInput& picture : pictures) {
    encode(*encoder, std::span(&picture, 1));
    append_rows(0, picture, alone);
  }
  CHECK(relative_rms(together, answers.floats.at("image_features")) <= 1e-4);
  CHECK(relative_rms(alone, answers.floats.at("image_features")) <= 1e-4);
  if (TestGpu::get().profile.cpu) CHECK(alone == together);
}

TEST_CASE("MiniCPM-V: logits and text of a prompt with pictures are the reference's") {
  const std::filesystem::path path = fixtures().model(name);
  const Answers answers(path / "expected.safetensors");
  const auto model = load_model(path);
  REQUIRE(model->shape().pictures);
  check_answers(model, picture_prompt(path, answers, *model->shape().pictures), answers);
}

TEST_CASE("MiniCPM-V: caption, chat and generate show a picture and its slices") {
  const VisionModel fixture = minicpm_v();
  const TemporaryFolder folder;
  write_vision_folder(folder, fixture);
  const std::string model = folder.path().string();
  const std::string a = (folder.path() / "a.png").string(), b = (folder.path() / "b.png").string();
  REQUIRE(write_png(fixture.pictures[0], a).ok());
  REQUIRE(write_png(fixture.pictures[1], b).ok());
  const std::filesystem::path inputs = fixtures().model(name) / "expected.safetensors";
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
  const std::string several = run({"caption", model, b, a});
  CHECK(several.starts_with(b + "\t"));
  CHECK(several.ends_with("\n" + a + "\t" + alone));
  const std::string written = (folder.path() / "written.safetensors").string();
  (void)run({"generate", model, "--inputs", inputs.string(), "--outputs", written, "--ignore-eos"});
  CHECK(Answers(written).ids("generated_ids", 0) == answers.ids("generated_ids", 0));
}

TEST_CASE("MiniCPM-V: config.json that says little, and what is refused of it") {
  using Shape = std::vector<uint64_t>;
  // What a published one has beside its class's defaults.
  const json config = {{"model_type", "minicpmv4_6"},
                       {"image_token_id", 248056},
                       {"text_config", {{"hidden_size", 1024}, {"vocab_size", 248094}}},
                       {"vision_config",
                        {{"hidden_size", 1152},
                         {"intermediate_size", 4304},
                         {"num_hidden_layers", 27},
                         {"num_attention_heads", 16},
                         {"image_size", 980},
                         {"patch_size", 14}}}};
  const auto tower = require(open(config, Tower::pictures));
  CHECK(shape_of(*tower, "model.vision_tower.embeddings.position_embedding.weight") == Shape{4900, 1152});
  CHECK(shape_of(*tower, "model.vision_tower.vit_merger.linear_1.weight") == Shape{17216, 4608});
  CHECK(shape_of(*tower, "model.vision_tower.vit_merger.self_attn.k_proj.bias") == Shape{1152});
  CHECK(shape_of(*tower, "model.vision_tower.encoder.layers.26.mlp.fc2.weight") == Shape{1152, 4304});
  CHECK(shape_of(*tower, "model.merger.mlp.0.linear_2.weight") == Shape{1024, 4608});
  CHECK(tower->shape().encoder->context == 4356);
  CHECK(tower->shape().encoder->preparation->slices->most == 9);
  json changed = config;
  changed["downsample_mode"] = "4x";
  const auto finer = require(open(changed, Tower::pictures));
  CHECK(finer->shape().encoder->patch_groups->merge == 2);
  CHECK(shape_of(*finer, "model.vision_tower.vit_merger.linear_1.weight").empty());
  json whole = json::parse(std::ifstream(fixtures().model(name) / "config.json"));
  CHECK(require(open(whole, Tower::main))->shape().pictures->token == 319);
  whole.erase("image_token_id");
  CHECK(!require(open(whole, Tower::main))->shape().pictures);

  const auto refused = [&](const char* field, const json& value, const std::string& expected) {
    json wrong = config;
    wrong[field] = value;
    return refused_saying(open(wrong, Tower::pictures), {field, expected});
  };
  CHECK(refused("downsample_mode", "8x", "16x or 4x") == "");
  CHECK(refused("insert_layer_id", 27, "27 layers") == "");
  CHECK(refused("insert_layer_id", -1, "insert_layer_id") == "");
  CHECK(refused("merger_times", 2, "expected 1") == "");
  CHECK(refused("merge_kernel_size", {2, 4}, "2 x 2") == "");
  const TemporaryFolder folder;
  const auto read = [&](const std::string& text) {
    folder.write("preprocessor_config.json", text);
    return read_slice_preparation(folder.path(), PatchCutting{14, 1, 4});
  };
  const auto said = require(read(R"({"slice_mode": false, "scale_resolution": 336, "use_image_id": false})"));
  CHECK(said.slices->most == 1);
  CHECK(said.slices->edge == 336);
  CHECK(!said.slices->numbered);
  CHECK(said.mean[0] == 0.5f);
  CHECK(refused_saying(read(R"({"downsample_mode": "4x"})"), {"downsample_mode", "16x", "4x"}) == "");
  CHECK(refused_saying(read(R"({"patch_size": 16})"), {"patch_size", "14"}) == "");
  CHECK(refused_saying(read(R"({"do_resize": false})"), {"do_resize"}) == "");
}
