// Qwen's models that see: pictures of any size in a decoder's prompt, from their pixels on, against a
// reference's answers.
#include <doctest/doctest.h>

#include <array>
#include <set>

#include "media/patches.h"
#include "step/patch_order.h"
#include "support/command/command.h"
#include "support/picture_answers.h"
#include "support/session.h"
#include "support/vision_models.h"

using namespace pumice;
using namespace picture_tests;

namespace {

constexpr const char* name = "qwen2-5-vl";
// Those that put pictures into the prompt in the same way.
constexpr const char* names[] = {"qwen2-vl", name,      "qwen3-vl",      "qwen3-vl-moe",       "qwen3-5-vl",
                                 "glm4v",    "glm-ocr", "gemma4-vision", "gemma4-vision-large"};

ImagePreparation preparation_of(const std::filesystem::path& path) {
  return require(read_patch_preparation(path, {.patch = 5}));
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

TEST_CASE("Qwen 2.5-VL and GLM-4V: pictures become the reference's patches") {
  for (const char* each : {name, "glm4v"}) {
    CAPTURE(std::string(each));
    const std::filesystem::path path = fixtures().model(each);
    const Answers answers(path / "expected.safetensors");
    const ImagePreparation preparation = preparation_of(path);
    std::vector<float> all;
    for (const auto& [height, width] : {std::pair(29u, 61u), {17u, 33u}}) {
      const PatchedPicture cut =
          require(cut_patches(patterned_picture(height, width), preparation, "picture"));
      all.insert(all.end(), cut.values.begin(), cut.values.end());
    }
    check_pixels(all, answers.floats.at("pixel_values"));
  }
}

TEST_CASE("GLM-4V: pixels are counted in both copies of a picture, and small edges grow") {
  const TemporaryFolder folder;
  folder.write("preprocessor_config.json", R"({"image_processor_type": "Glm4vImageProcessor"})");
  const PatchCutting cutting = *require(read_patch_preparation(folder.path(), {})).patches;
  CHECK(cutting.min_pixels == 112 * 112 / 2);
  CHECK(cutting.max_pixels == 28 * 28 * 15000 / 2);
  // As transformers' smart_resize() has it, in pixels.
  for (const auto& [height, width, down, across] : {std::array{480u, 640u, 476u, 644u},
                                                    {10u, 50u, 56u, 196u},
                                                    {1u, 150u, 28u, 4200u},
                                                    {27u, 27u, 84u, 84u},
                                                    {4000u, 3000u, 2800u, 2100u}}) {
    CAPTURE(height);
    const PatchGrid grid = require(patch_grid_of(height, width, cutting, "picture"));
    CHECK(grid.height * 14 == down);
    CHECK(grid.width * 14 == across);
  }
}

TEST_CASE("Gemma 4: pictures are made as large as may be, and become the reference's patches") {
  for (const char* each : {"gemma4-vision", "gemma4-vision-large"}) {
    CAPTURE(std::string(each));
    const std::filesystem::path path = fixtures().model(each);
    const Answers answers(path / "expected.safetensors");
    const ImagePreparation preparation = *load_pictures(path)->shape().encoder->preparation;
    std::vector<float> all;
    for (const auto& [height, width] : {std::pair(29u, 61u), {33u, 17u}}) {
      const PatchedPicture cut =
          require(cut_patches(patterned_picture(height, width), preparation, "picture"));
      all.insert(all.end(), cut.values.begin(), cut.values.end());
    }
    check_pixels(all, answers.floats.at("pixel_values"));
  }
  const TemporaryFolder folder;
  folder.write("preprocessor_config.json", R"({"image_processor_type": "Gemma4ImageProcessor"})");
  PatchCutting cutting{16, 1, 3};
  cutting.fills = true;
  cutting = *require(read_patch_preparation(folder.path(), cutting)).patches;
  CHECK(cutting.max_pixels == 280 * 48 * 48);
  // As transformers' get_aspect_ratio_preserving_size() has it, in pixels.
  for (const auto& [height, width, down, across] : {std::array{480u, 640u, 672u, 912u},
                                                    {10u, 50u, 336u, 1776u},
                                                    {1u, 150u, 48u, 9792u},
                                                    {1u, 1000u, 48u, 13440u},
                                                    {800u, 2u, 13440u, 48u},
                                                    {27u, 27u, 768u, 768u},
                                                    {4000u, 3000u, 912u, 672u}}) {
    CAPTURE(height);
    CAPTURE(width);
    const PatchGrid grid = require(patch_grid_of(height, width, cutting, "picture"));
    CHECK(grid.height * 16 == down);
    CHECK(grid.width * 16 == across);
  }
}

TEST_CASE("Qwen 2.5-VL: pictures are resized as the reference resizes them") {
  // As transformers' smart_resize() has it, in pixels.
  struct Case {
    uint32_t height, width, down, across;
  };
  PatchCutting cutting;
  cutting.min_pixels = 56 * 56;
  cutting.max_pixels = 28 * 28 * 1280;
  for (const Case& c : {Case{480, 640, 476, 644},
                        {1080, 1920, 728, 1316},
                        {28, 28, 56, 56},
                        {1, 200, 28, 812},
                        {14, 300, 28, 280},
                        {42, 70, 56, 56},
                        {98, 126, 112, 112},
                        {10, 10, 56, 56},
                        {4000, 20, 4004, 28}}) {
    CAPTURE(c.height);
    CAPTURE(c.width);
    const PatchGrid grid = require(patch_grid_of(c.height, c.width, cutting, "picture"));
    CHECK(grid.height * 14 == c.down);
    CHECK(grid.width * 14 == c.across);
  }
  const auto refused = patch_grid_of(1, 201, cutting, "a.png");
  REQUIRE(!refused.ok());
  CHECK(refused.error().message.find("a.png") != std::string::npos);
}

TEST_CASE("Qwen 2.5-VL: what a preprocessor_config.json says of patches") {
  const TemporaryFolder folder;
  const auto read = [&](const std::string& text) {
    folder.write("preprocessor_config.json", text);
    return read_patch_preparation(folder.path(), {});
  };
  const auto newer = require(read(R"({"image_processor_type": "Qwen2VLImageProcessor",
                                       "size": {"shortest_edge": 3136, "longest_edge": 50176}})"));
  REQUIRE(newer.patches);
  CHECK(newer.patches->min_pixels == 3136);
  CHECK(newer.patches->max_pixels == 50176);
  CHECK(newer.resampling == Resampling::bicubic);
  CHECK(newer.mean[0] == doctest::Approx(0.48145466));
  const auto older = require(read(R"({"image_processor_type": "Qwen2VLImageProcessor",
                                       "min_pixels": 784, "max_pixels": 12845056})"));
  CHECK(older.patches->min_pixels == 784);
  CHECK(older.patches->max_pixels == 12845056);
  CHECK(refused_saying(read(R"({"patch_size": 16})"), {"patch_size", "14", "16"}) == "");
  CHECK(refused_saying(read(R"({"merge_size": 1})"), {"merge_size", "2", "1"}) == "");
  CHECK(refused_saying(read(R"({"min_pixels": 800, "max_pixels": 799})"), {"max_pixels", "800", "799"}) ==
        "");
  // A tower with room for fewer pixels.
  folder.write("preprocessor_config.json", R"({"min_pixels": 784, "max_pixels": 12845056})");
  const auto limited = require(read_patch_preparation(folder.path(), {.max_pixels = 10000}));
  CHECK(limited.patches->max_pixels == 10000);
}

TEST_CASE("Qwen 2.5-VL: config.json as it was published, and what is refused of it") {
  // Of the model with 7 billion parameters: the text model's settings lie beside vision_config.
  const nlohmann::json published = {{"model_type", "qwen2_5_vl"},
                                    {"hidden_size", 3584},
                                    {"intermediate_size", 18944},
                                    {"max_position_embeddings", 128000},
                                    {"num_attention_heads", 28},
                                    {"num_hidden_layers", 28},
                                    {"num_key_value_heads", 4},
                                    {"rms_norm_eps", 1e-06},
                                    {"rope_theta", 1000000.0},
                                    {"use_sliding_window", false},
                                    {"vocab_size", 152064},
                                    {"image_token_id", 151655},
                                    {"rope_scaling", {{"type", "mrope"}, {"mrope_section", {16, 24, 24}}}},
                                    {"vision_config",
                                     {{"depth", 32},
                                      {"hidden_act", "silu"},
                                      {"hidden_size", 1280},
                                      {"intermediate_size", 3420},
                                      {"num_heads", 16},
                                      {"in_chans", 3},
                                      {"out_hidden_size", 3584},
                                      {"patch_size", 14},
                                      {"spatial_merge_size", 2},
                                      {"window_size", 112},
                                      {"fullatt_block_indexes", {7, 15, 23, 31}},
                                      {"tokens_per_second", 2},
                                      {"temporal_patch_size", 2}}}};
  const auto open = [](const nlohmann::json& config, Tower tower) {
    const std::string text = config.dump();
    const ModelFile file = require(ModelFile::from_memory(std::as_bytes(std::span(text)), "config.json"));
    return open_model_definition(file, tower);
  };
  const auto shape_of = [](const ModelDefinition& definition, const std::string& tensor) {
    for (const WeightSpec& spec : definition.weights())
      if (spec.name == tensor) return spec.shape;
    return std::vector<uint64_t>();
  };
  using Shape = std::vector<uint64_t>;
  const auto decoder = require(open(published, Tower::main));
  CHECK(decoder->shape().pictures->merge == 2);
  CHECK(decoder->shape().pictures->token == 151655);
  CHECK(shape_of(*decoder, "model.layers.27.self_attn.q_proj.bias") == Shape{3584});
  const auto tower = require(open(published, Tower::pictures));
  CHECK(shape_of(*tower, "visual.patch_embed.proj.weight") == Shape{1280, 3, 2, 14, 14});
  CHECK(shape_of(*tower, "visual.blocks.31.attn.qkv.weight") == Shape{3840, 1280});
  CHECK(shape_of(*tower, "visual.blocks.31.mlp.down_proj.bias") == Shape{1280});
  CHECK(shape_of(*tower, "visual.merger.ln_q.weight") == Shape{1280});
  CHECK(shape_of(*tower, "visual.merger.mlp.2.weight") == Shape{3584, 5120});
  CHECK(tower->shape().encoder->patch_groups->window == 4);
  CHECK(tower->shape().encoder->context == 4 * 1280); // of the processor's class, as there is no file of it

  nlohmann::json changed = published;
  changed["rope_scaling"]["mrope_section"] = {16, 24, 25};
  CHECK(refused_saying(open(changed, Tower::main), {"mrope_section", "64", "16, 24, 25"}) == "");
  changed = published;
  changed["image_token_id"] = 152064;
  CHECK(refused_saying(open(changed, Tower::main), {"image_token_id", "152064"}) == "");
  const auto refused = [&](const char* field, const nlohmann::json& value, const char* expected) {
    nlohmann::json config = published;
    config["vision_config"][field] = value;
    return refused_saying(open(config, Tower::pictures), {"vision_config." + std::string(field), expected});
  };
  CHECK(refused("in_chans", 1, "expected 3") == "");
  CHECK(refused("window_size", 27, "28 pixels") == "");
  CHECK(refused("window_size", 4000, "4096 patches") == "");
  CHECK(refused("out_hidden_size", 2048, "3584") == "");
  CHECK(refused("num_heads", 640, "multiple of 4") == "");
}

TEST_CASE("Qwen 2 VL, 3 VL and 3.5: config.json as it was published") {
  using Shape = std::vector<uint64_t>;
  const auto open = [](const nlohmann::json& config, Tower tower) {
    const std::string text = config.dump();
    const ModelFile file = require(ModelFile::from_memory(std::as_bytes(std::span(text)), "config.json"));
    return open_model_definition(file, tower);
  };
  const auto shape_of = [](const ModelDefinition& definition, const std::string& tensor) {
    for (const WeightSpec& spec : definition.weights())
      if (spec.name == tensor) return spec.shape;
    return Shape();
  };
  const nlohmann::json second = {{"model_type", "qwen2_vl"},
                                 {"hidden_size", 1536},
                                 {"intermediate_size", 8960},
                                 {"max_position_embeddings", 32768},
                                 {"num_attention_heads", 12},
                                 {"num_hidden_layers", 28},
                                 {"num_key_value_heads", 2},
                                 {"rms_norm_eps", 1e-06},
                                 {"rope_theta", 1000000.0},
                                 {"tie_word_embeddings", true},
                                 {"vocab_size", 151936},
                                 {"rope_scaling", {{"type", "mrope"}, {"mrope_section", {16, 24, 24}}}},
                                 {"vision_config",
                                  {{"depth", 32},
                                   {"embed_dim", 1280},
                                   {"mlp_ratio", 4},
                                   {"num_heads", 16},
                                   {"in_chans", 3},
                                   {"hidden_size", 1536},
                                   {"patch_size", 14},
                                   {"spatial_merge_size", 2},
                                   {"spatial_patch_size", 14},
                                   {"temporal_patch_size", 2}}}};
  const auto second_tower = require(open(second, Tower::pictures));
  CHECK(shape_of(*second_tower, "visual.blocks.31.mlp.fc1.weight") == Shape{5120, 1280});
  CHECK(shape_of(*second_tower, "visual.merger.mlp.2.bias") == Shape{1536});
  CHECK(shape_of(*second_tower, "visual.merger.ln_q.bias") == Shape{1280});
  CHECK(require(open(second, Tower::main))->shape().pictures->deep_layers == 0);

  nlohmann::json third = {
      {"model_type", "qwen3_vl"},
      {"image_token_id", 151655},
      {"tie_word_embeddings", true},
      {"text_config",
       {{"model_type", "qwen3_vl_text"},
        {"head_dim", 128},
        {"hidden_size", 2560},
        {"intermediate_size", 9728},
        {"max_position_embeddings", 262144},
        {"num_attention_heads", 32},
        {"num_hidden_layers", 36},
        {"num_key_value_heads", 8},
        {"rope_scaling",
         {{"mrope_interleaved", true}, {"mrope_section", {24, 20, 20}}, {"rope_type", "default"}}},
        {"rope_theta", 5000000},
        {"vocab_size", 151936}}},
      {"vision_config",
       {{"deepstack_visual_indexes", {5, 11, 17}},
        {"depth", 24},
        {"hidden_act", "gelu_pytorch_tanh"},
        {"hidden_size", 1024},
        {"in_channels", 3},
        {"intermediate_size", 4096},
        {"num_heads", 16},
        {"num_position_embeddings", 2304},
        {"out_hidden_size", 2560},
        {"patch_size", 16},
        {"spatial_merge_size", 2},
        {"temporal_patch_size", 2}}}};
  const auto tower = require(open(third, Tower::pictures));
  CHECK(shape_of(*tower, "visual.patch_embed.proj.weight") == Shape{1024, 3, 2, 16, 16});
  CHECK(shape_of(*tower, "visual.pos_embed.weight") == Shape{2304, 1024});
  CHECK(shape_of(*tower, "visual.merger.norm.weight") == Shape{1024});
  CHECK(shape_of(*tower, "visual.deepstack_merger_list.2.norm.weight") == Shape{4096});
  CHECK(shape_of(*tower, "visual.deepstack_merger_list.2.linear_fc2.weight") == Shape{2560, 4096});
  const auto decoder = require(open(third, Tower::main));
  CHECK(decoder->shape().pictures->deep_layers == 3);
  CHECK(decoder->shape().pictures->merge == 2);

  const auto refused = [&](const char* field, const nlohmann::json& value, const char* expected) {
    nlohmann::json config = third;
    config["vision_config"][field] = value;
    return refused_saying(open(config, Tower::pictures), {"vision_config." + std::string(field), expected});
  };
  CHECK(refused("num_position_embeddings", 2305, "square") == "");
  CHECK(refused("deepstack_visual_indexes", {5, 24}, "24 layers") == "");
  CHECK(refused("out_hidden_size", 2048, "2560") == "");

  third["model_type"] = "qwen3_5";
  third["vision_config"].erase("deepstack_visual_indexes");
  CHECK(
      shape_of(*require(open(third, Tower::pictures)), "visual.deepstack_merger_list.0.norm.weight").empty());
}

TEST_CASE("patches of a window lie side by side") {
  const PatchGrid grid{6, 10};
  const PatchGroups groups{2, 2};
  const std::vector<OrderedPatch> patches = ordered_patches(grid, groups);
  REQUIRE(patches.size() == 60);
  std::set<uint32_t> indices;
  for (uint32_t row = 0; row < patches.size(); ++row) {
    const OrderedPatch& patch = patches[row];
    indices.insert(patch.index);
    // Those with the same window have it around them, and are all in one window of 4 x 4 patches.
    for (uint32_t other = 0; other < patches.size(); ++other) {
      const bool same =
          patch.down / 4 == patches[other].down / 4 && patch.across / 4 == patches[other].across / 4;
      CHECK((patch.window == patches[other].window) == same);
      const uint32_t first = patch.window >> 12, count = patch.window & 4095;
      CHECK((other >= first && other < first + count) == same);
    }
  }
  CHECK(indices.size() == 60);
  const std::vector<uint32_t> squares = ordered_squares(grid, groups);
  CHECK(squares == std::vector<uint32_t>{0, 1, 5, 6, 2, 3, 7, 8, 4, 9, 10, 11, 12, 13, 14});
  CHECK(moved_window(window_token(3, 16), 32) == window_token(35, 16));
  // Without windows they lie as the encoder's input has them.
  const PatchGroups alone{2, 0};
  const std::vector<OrderedPatch> plain = ordered_patches(grid, alone);
  for (uint32_t row = 0; row < plain.size(); ++row) CHECK(plain[row].index == row);
  CHECK(plain[4].across == 2);
  CHECK(ordered_squares(grid, alone)[7] == 7);
}

TEST_CASE("places of a text's tokens lag behind their positions after a picture") {
  const uint32_t row = PROMPT_ROW | 5;
  std::vector<uint32_t> tokens = {1, 2};
  tokens.insert(tokens.end(), 6, row); // 2 x 3
  tokens.push_back(3);
  tokens.insert(tokens.end(), 2, row); // 2 x 1
  tokens.push_back(4);
  const RotaryPlaces places(tokens, std::vector<PatchGrid>{{2, 3}, {2, 1}});
  std::vector<std::vector<uint32_t>> found;
  for (uint32_t at = 0; at < tokens.size() + 2; ++at) {
    const RotaryPlaces::Place place = places.at(at);
    found.push_back({at - place.lag, at - place.lag + place.down, at - place.lag + place.across});
  }
  const std::vector<std::vector<uint32_t>> expected = {
      {0, 0, 0}, {1, 1, 1}, {2, 2, 2}, {2, 2, 3}, {2, 2, 4}, {2, 3, 2}, {2, 3, 3},
      {2, 3, 4}, {5, 5, 5}, {6, 6, 6}, {6, 7, 6}, {8, 8, 8}, {9, 9, 9}, {10, 10, 10}};
  CHECK(found == expected);
  CHECK(places.lag() == 3);
}

TEST_CASE("Qwen's pictures: rows are the reference's, alone and in one step") {
  for (const char* each : names) {
    CAPTURE(std::string(each));
    const std::filesystem::path path = fixtures().model(each);
    const Answers answers(path / "expected.safetensors");
    const PictureTokens shape =
        *require(open_model_definition(require(ModelFile::open(path))))->shape().pictures;
    const auto encoder = make_encoder(load_pictures(path), PictureTokens::features, 2);
    const std::vector<EncoderInput> pictures = pictures_of(answers, encoder->shape());
    REQUIRE(pictures.size() == 2);
    const size_t columns = encoder->columns(PictureTokens::features);
    const auto rows = [&](size_t input, const EncoderInput& picture) {
      return rows_of_picture(shape, encoder->shape(), picture.grid,
                             read(*encoder, PictureTokens::features, input), columns);
    };
    encode(*encoder, pictures);
    std::vector<float> together = rows(0, pictures[0]);
    const std::vector<float> second = rows(1, pictures[1]);
    together.insert(together.end(), second.begin(), second.end());
    CHECK(relative_rms(together, answers.floats.at("image_features")) <= 1e-4);
    std::vector<float> alone;
    for (const EncoderInput& picture : pictures) {
      encode(*encoder, std::span(&picture, 1));
      const std::vector<float> own = rows(0, picture);
      alone.insert(alone.end(), own.begin(), own.end());
    }
    CHECK(relative_rms(alone, answers.floats.at("image_features")) <= 1e-4);
    if (TestGpu::get().profile.cpu) CHECK(alone == together);
  }
}

TEST_CASE("Qwen 2.5-VL: pictures that are no whole squares, or too large, are refused") {
  const std::filesystem::path path = fixtures().model(name);
  const Answers answers(path / "expected.safetensors");
  const auto encoder = make_encoder(load_pictures(path), PictureTokens::features, 1);
  EncoderInput wrong = pictures_of(answers, encoder->shape())[0];
  wrong.grid.height -= 1;
  CHECK(refused_saying(encoder->encode(std::span(&wrong, 1)), {"12 x 5 patches", "multiples of 2"}) == "");
  wrong.grid.height -= 1;
  CHECK(refused_saying(encoder->encode(std::span(&wrong, 1)), {"12 x 4 patches", "150 of each"}) == "");
  wrong.grid = {1000, 1000};
  CHECK(refused_saying(encoder->encode(std::span(&wrong, 1)), {"1000 x 1000 patches", "at most"}) == "");
}

TEST_CASE("Qwen's pictures: logits and text of a prompt with two are the reference's") {
  for (const char* each : names) {
    CAPTURE(std::string(each));
    const std::filesystem::path path = fixtures().model(each);
    const Answers answers(path / "expected.safetensors");
    const auto model = load_model(path);
    REQUIRE(model->shape().pictures);
    check_answers(model, picture_prompt(path, answers, *model->shape().pictures), answers);
  }
}

TEST_CASE("Qwen 2.5-VL: caption, chat and generate show pictures of their own sizes") {
  const TemporaryFolder folder;
  write_vision_folder(folder, qwen2_5_vl());
  const std::string model = folder.path().string();
  const std::string a = (folder.path() / "a.png").string(), b = (folder.path() / "b.png").string();
  REQUIRE(write_png(patterned_picture(29, 61), a).ok());
  REQUIRE(write_png(patterned_picture(17, 33), b).ok());
  const std::filesystem::path fixture = fixtures().model(name) / "expected.safetensors";
  const Answers answers(fixture);
  const std::string expected = words(answers.ids("generated_ids", 0)) + "\n";
  const std::vector<std::string> plain = {"--temp", "0", "-n", "12"};
  const auto run = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), plain.begin(), plain.end());
    const CommandResult result = pumice_command(arguments);
    CAPTURE(result.err);
    CHECK(result.status == 0);
    return result.out;
  };
  const std::string place = "<|vision_start|><|image_pad|><|vision_end|>";
  folder.write("chat_template.jinja", text_of_prompt(answers, qwen2_5_vl()));
  CHECK(run({"chat", model, "--image", a, "--image", b, "w9", "--kv", "f32"}) == expected);
  // One picture, by a template, by the model's mark and by the general one.
  folder.write("chat_template.jinja", "w5 w6 " + place + " w7");
  const std::string alone = run({"caption", model, a});
  CHECK(alone != expected);
  CHECK(run({"caption", model, a, "--prompt", "w5 w6 <image> w7"}) == alone);
  CHECK(run({"caption", model, a, "--prompt", "w5 w6 " + place + " w7"}) == alone);
  // A smaller one, then a larger one again.
  const std::string several = run({"caption", model, b, a});
  CHECK(several.starts_with(b + "\t"));
  CHECK(several.ends_with("\n" + a + "\t" + alone));

  CHECK(fails_saying(pumice_command({"caption", model, a, "--prompt", "w5 w6"}), {"'<image>'", "0 of"}) ==
        "");
  CHECK(fails_saying(pumice_command({"embed", model, "--image", a}), {"pumice caption"}) == "");
  const std::string thin = (folder.path() / "thin.png").string();
  REQUIRE(write_png(patterned_picture(1, 300), thin).ok());
  CHECK(fails_saying(pumice_command({"caption", model, thin}), {"thin.png", "200 times"}) == "");
  const std::string written = (folder.path() / "written.safetensors").string();
  (void)run({"generate", model, "--inputs", fixture.string(), "--outputs", written, "--ignore-eos"});
  CHECK(Answers(written).ids("generated_ids", 0) == answers.ids("generated_ids", 0));
}

TEST_CASE("Qwen 2.5-VL: a text beside and after one with pictures has its own places") {
  const std::filesystem::path path = fixtures().model(name);
  const Answers answers(path / "expected.safetensors");
  const auto model = load_model(path);
  const PicturePrompt prompt = picture_prompt(path, answers, *model->shape().pictures);
  const std::vector<uint32_t> expected = answers.ids("generated_ids", 0);
  const auto count = static_cast<uint32_t>(expected.size());
  PicturePrompt text;
  text.tokens = {5, 6, 7, 8, 9, 10, 11, 12, 13};
  SessionOptions options;
  options.size.cache = CacheType::f32;
  const auto fresh = require(Batch::create(model, options));
  const std::vector<uint32_t> alone = continue_prompt(*fresh, text, 20);
  CHECK(continue_prompt(*fresh, prompt, count) == expected); // in the same slot
  CHECK(continue_prompt(*fresh, text, 20) == alone);
  CHECK(continue_prompt(*fresh, prompt, count) == expected);

  options.size.sequences = 2;
  options.size.chunk = 9;
  const auto batch = require(Batch::create(model, options));
  const auto request = [](const PicturePrompt& of, uint32_t tokens) {
    SequenceRequest made;
    made.prompt = of.tokens;
    made.embeddings = of.embeddings;
    made.max_tokens = tokens;
    made.sampling.temperature = 0;
    return made;
  };
  const uint32_t first = require(batch->add(request(text, 20)));
  const uint32_t second = require(batch->add(request(prompt, count)));
  std::vector<uint32_t> of_text, of_prompt;
  while (batch->sequences() > 0) {
    const std::span<const BatchToken> tokens = require(batch->step());
    for (const BatchToken& token : tokens)
      (token.sequence == first ? of_text : of_prompt).push_back(token.token);
  }
  CHECK(second != first);
  CHECK(of_text == alone);
  CHECK(of_prompt == expected);

  SequenceRequest without = request(prompt, count);
  auto lost = std::make_shared<PromptEmbeddings>(*prompt.embeddings);
  lost->grids.pop_back();
  without.embeddings = lost;
  const auto refused = batch->add(std::move(without));
  REQUIRE(!refused.ok());
  CHECK(refused.error().message.find("sizes of its pictures") != std::string::npos);
}

TEST_CASE("Qwen's pictures: a session goes on after them, is copied, suspended and cut") {
  for (const char* each : {name, "qwen3-vl", "qwen3-5-vl"}) {
    CAPTURE(std::string(each));
    const std::filesystem::path path = fixtures().model(each);
    const Answers answers(path / "expected.safetensors");
    const auto model = load_model(path);
    const PicturePrompt prompt = picture_prompt(path, answers, *model->shape().pictures);
    const std::vector<uint32_t> expected = answers.ids("generated_ids", 0);
    SessionOptions options;
    options.size.cache = CacheType::f32;
    SamplingParams greedy;
    greedy.temperature = 0;
    const size_t half = expected.size() / 2;
    const std::vector<uint32_t> rest(expected.begin() + static_cast<ptrdiff_t>(half), expected.end());
    const auto session = require(Session::create(model, options));
    REQUIRE(session->set_prompt(prompt.tokens, greedy, {}, prompt.embeddings).ok());
    (void)take(*session, half);
    const auto copy = require(Session::create(model, options));
    REQUIRE(copy->copy(*session).ok());
    REQUIRE(session->suspend().ok());
    REQUIRE(session->resume(model).ok());
    CHECK(take(*session, rest.size()) == rest);
    CHECK(take(*copy, rest.size()) == rest);

    // A prompt in two parts, each with a picture.
    size_t cut = 0; // before the second one
    for (size_t i = 1; i < prompt.tokens.size(); ++i)
      if (is_picture_row(prompt.tokens[i]) && !is_picture_row(prompt.tokens[i - 1])) cut = i;
    const auto rows = static_cast<ptrdiff_t>(std::count_if(
        prompt.tokens.begin(), prompt.tokens.begin() + static_cast<ptrdiff_t>(cut), is_picture_row));
    const std::vector<float>& values = prompt.embeddings->values;
    const auto all = std::ranges::count_if(prompt.tokens, is_picture_row);
    const auto columns = static_cast<ptrdiff_t>(values.size()) / all;
    const auto given = [](auto from, auto to, const PatchGrid& grid) {
      return std::make_shared<const PromptEmbeddings>(PromptEmbeddings{{from, to}, {grid}});
    };
    const auto middle = values.begin() + rows * columns;
    const auto parts = require(Session::create(model, options));
    REQUIRE(parts
                ->set_prompt(std::span(prompt.tokens).first(cut), greedy, {},
                             given(values.begin(), middle, prompt.embeddings->grids[0]))
                .ok());
    REQUIRE(parts
                ->begin({{prompt.tokens.begin() + static_cast<ptrdiff_t>(cut), prompt.tokens.end()},
                         false,
                         UINT32_MAX,
                         greedy,
                         given(middle, values.end(), prompt.embeddings->grids[1])})
                .ok());
    CHECK(take(*parts, expected.size()) == expected);
    // From before the second picture on it is a text with the first one.
    parts->end_at(cut);
    const auto first = require(Session::create(model, options));
    REQUIRE(first
                ->set_prompt(std::span(prompt.tokens).first(cut), greedy, {},
                             given(values.begin(), middle, prompt.embeddings->grids[0]))
                .ok());
    CHECK(take(*parts, 5) == take(*first, 5));
  }
}
