// Where the settings of a picture's preparation are: in a file of their own, as older transformers write
// them, or with those of a model's other processors in one file.
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "media/patches.h"
#include "media/tiles.h"
#include "support/command/messages.h"
#include "support/files/temporary_folder.h"
#include "support/require.h"

using namespace pumice;
using nlohmann::json;

namespace {

constexpr const char* old_file = "preprocessor_config.json";
constexpr const char* new_file = "processor_config.json";
constexpr uint32_t edge = 12; // of the models' pictures
constexpr PatchCutting patches = {.patch = 3};

json nested(const json& settings) {
  return {{"processor_class", "SomeProcessor"}, {"image_processor", settings}};
}

Result<ImagePreparation> read(const TemporaryFolder& folder, bool in_patches) {
  return in_patches ? read_patch_preparation(folder.path(), patches)
                    : read_image_preparation(folder.path(), edge, edge);
}

// All that a model reads of a picture.
std::vector<float> values_of(const TemporaryFolder& folder, bool in_patches) {
  const ImagePreparation preparation = require(read(folder, in_patches));
  Image image{40, 17, std::vector<uint8_t>(size_t{40} * 17 * 3)};
  for (size_t i = 0; i < image.pixels.size(); ++i)
    image.pixels[i] = static_cast<uint8_t>((i * i * 7 + i * 13) % 251);
  if (in_patches) return require(cut_patches(image, preparation, "a picture")).values;
  std::vector<float> all;
  for (const std::vector<float>& each : require(prepare_tiles(image, preparation, "a picture")).pictures)
    all.insert(all.end(), each.begin(), each.end());
  return all;
}

struct Kind {
  const char* name;
  json settings;
  bool in_patches = false;
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {
      {"ViT",
       {{"image_processor_type", "ViTImageProcessorFast"}, {"size", edge}, {"image_mean", {0.1, 0.2, 0.3}}}},
      {"CLIP",
       {{"image_processor_type", "CLIPImageProcessorFast"},
        {"size", {{"shortest_edge", 15}}},
        {"crop_size", {{"height", edge}, {"width", edge}}}}},
      {"SigLIP",
       {{"image_processor_type", "SiglipImageProcessor"},
        {"size", {{"height", edge}, {"width", edge}}},
        {"resample", 3},
        {"rescale_factor", 0.01}}},
      {"Gemma 3",
       {{"image_processor_type", "Gemma3ImageProcessorFast"},
        {"do_pan_and_scan", nullptr},
        {"size", {{"height", edge}, {"width", edge}}},
        {"resample", 0}}},
      {"SmolVLM",
       {{"image_processor_type", "SmolVLMImageProcessorFast"},
        {"do_image_splitting", true},
        {"do_pad", true},
        {"max_image_size", {{"longest_edge", edge}}},
        {"size", {{"longest_edge", 3 * edge}}}}},
      {"InternVL",
       {{"image_processor_type", "GotOcr2ImageProcessorFast"},
        {"max_patches", 4},
        {"size", {{"height", edge}, {"width", edge}}}}},
      {"Qwen 2.5-VL",
       {{"image_processor_type", "Qwen2VLImageProcessorFast"},
        {"patch_size", 3},
        {"merge_size", 2},
        {"size", {{"shortest_edge", 36}, {"longest_edge", 360}}}},
       true}};
  return all;
}

} // namespace

TEST_CASE("each kind of model finds its settings in processor_config.json, too") {
  for (const Kind& kind : kinds()) {
    CAPTURE(kind.name);
    const TemporaryFolder none, older, newer;
    older.write(old_file, kind.settings.dump());
    newer.write(new_file, nested(kind.settings).dump());
    const std::vector<float> expected = values_of(older, kind.in_patches);
    CHECK(values_of(newer, kind.in_patches) == expected);
    CHECK(values_of(none, kind.in_patches) != expected); // the settings are not a class's own
  }
}

TEST_CASE("processor_config.json is read before preprocessor_config.json, if it has settings for pictures") {
  for (const Kind& kind : kinds()) {
    CAPTURE(kind.name);
    json other = kind.settings;
    other["image_std"] = {0.9, 0.8, 0.7};
    const TemporaryFolder first, second, both;
    first.write(old_file, kind.settings.dump());
    second.write(old_file, other.dump());
    both.write(old_file, kind.settings.dump());
    both.write(new_file, nested(other).dump());
    CHECK(values_of(both, kind.in_patches) == values_of(second, kind.in_patches));
    for (const char* without :
         {R"({"processor_class": "SomeProcessor", "image_seq_length": 9})", R"({"image_processor": null})"}) {
      both.write(new_file, std::string_view(without));
      CHECK(values_of(both, kind.in_patches) == values_of(first, kind.in_patches));
    }
  }
}

TEST_CASE("the size of pictures is found in either file") {
  const TemporaryFolder folder;
  CHECK(!require(read_picture_size(folder.path())));
  folder.write(old_file, json{{"size", 20}}.dump());
  CHECK(require(read_picture_size(folder.path()))->height == 20);
  folder.write(new_file, nested({{"size", {{"height", 30}, {"width", 40}}}}).dump());
  CHECK(require(read_picture_size(folder.path()))->height == 30);
  CHECK(require(read_picture_size(folder.path()))->width == 40);
}

TEST_CASE("what is wrong in processor_config.json is named with the file and the field") {
  struct Wrong {
    json settings;
    std::string_view field, found;
    bool in_patches = false;
  };
  const TemporaryFolder folder;
  folder.write(old_file, std::string_view("{}")); // is not read in its place
  for (const Wrong& wrong : std::vector<Wrong>{
           {"a text", "'image_processor'", "a text"},
           {json::array(), "'image_processor'", "array"},
           {{{"size", "big"}}, "'image_processor.size'", "big"},
           {{{"size", {{"height", 0}, {"width", 1}}}}, "'image_processor.size.height'", "0"},
           {{{"size", 5}}, "'image_processor.size'", "5 x 5"},
           {{{"image_std", {1, 0, 1}}}, "'image_processor.image_std'", "found 0"},
           {{{"do_pan_and_scan", true}}, "'image_processor.do_pan_and_scan'", "not supported"},
           {{{"image_processor_type", 7}}, "'image_processor.image_processor_type'", "7"},
           {{{"image_processor_type", "SmolVLMImageProcessor"}, {"max_image_size", {{"longest_edge", 7}}}},
            "'image_processor.max_image_size'",
            "7"},
           {{{"image_processor_type", "SmolVLMImageProcessor"}, {"size", {{"longest_edge", 0}}}},
            "'image_processor.size.longest_edge'",
            "0"},
           {{{"patch_size", 16}}, "'image_processor.patch_size'", "16", true},
           {{{"size", {{"shortest_edge", "x"}}}}, "'image_processor.size.shortest_edge'", "x", true},
           {{{"min_pixels", 800}, {"max_pixels", 799}}, "'image_processor.max_pixels'", "799", true}}) {
    CAPTURE(wrong.settings.dump());
    folder.write(new_file, nested(wrong.settings).dump());
    const std::string named = "/" + std::string(new_file);
    CHECK(says(read(folder, wrong.in_patches), {named, wrong.field, wrong.found}) == "");
  }
  folder.write(new_file, std::string_view("{"));
  CHECK(says(read(folder, false), {new_file}) == "");
  CHECK(says(read(folder, true), {new_file}) == "");
  folder.write(new_file, std::string_view("[]"));
  CHECK(says(read_picture_size(folder.path()), {new_file}) == "");
}
