#include "media/preprocess.h"

#include "support/command/messages.h"
#include "support/files/temporary_folder.h"

#include <cmath>
#include <cstdlib>

#include <doctest/doctest.h>

using namespace pumice;

namespace {

Image pattern(uint32_t width, uint32_t height) {
  Image image{width, height, {}};
  for (uint32_t y = 0; y < height; ++y)
    for (uint32_t x = 0; x < width; ++x)
      for (uint32_t colour = 0; colour < 3; ++colour)
        image.pixels.push_back(static_cast<uint8_t>((x * 37 + y * 91 + colour * 53 + x * y * 11) % 256));
  return image;
}

// The results of PIL 9.4 for pattern(7, 5): all colours of the 3 x 2 pictures, red of the others.
struct Expected {
  Resampling resampling;
  uint32_t width, height;
  std::vector<int> values;
};

// clang-format off
const Expected expected[] = {
    {Resampling::nearest, 3, 2, {139, 192, 245, 235, 32, 85, 75, 128, 181, 87, 140, 193, 227, 24, 77, 111, 164, 217}},
    {Resampling::lanczos, 3, 2, {107, 130, 142, 136, 138, 143, 137, 126, 130, 123, 149, 118, 126, 123, 102, 101, 132, 122}},
    {Resampling::bilinear, 3, 2, {108, 136, 143, 135, 132, 140, 131, 130, 131, 117, 145, 117, 127, 124, 113, 106, 134, 120}},
    {Resampling::bicubic, 3, 2, {107, 133, 144, 134, 136, 142, 135, 127, 131, 120, 146, 117, 125, 124, 107, 103, 133, 121}},
    {Resampling::box, 3, 2, {115, 126, 136, 121, 146, 142, 142, 110, 120, 101, 154, 143, 119, 129, 97, 94, 147, 136}},
    {Resampling::hamming, 3, 2, {104, 135, 156, 140, 129, 141, 133, 131, 134, 114, 145, 123, 130, 119, 111, 104, 136, 125}},
    {Resampling::nearest, 9, 3, {0, 37, 37, 74, 111, 148, 185, 185, 222, 182, 241, 241, 44, 103, 162, 221, 221, 24, 108, 189, 189, 14, 95, 176, 1, 1, 82}},
    {Resampling::lanczos, 9, 3, {42, 66, 100, 132, 160, 111, 106, 156, 178, 123, 177, 156, 121, 174, 100, 137, 146, 69, 58, 125, 112, 75, 147, 141, 67, 71, 134}},
    {Resampling::bilinear, 9, 3, {39, 67, 99, 132, 164, 111, 120, 152, 180, 125, 164, 147, 114, 160, 117, 138, 136, 81, 69, 120, 114, 92, 152, 125, 79, 73, 124}},
    {Resampling::bicubic, 9, 3, {39, 65, 99, 133, 163, 107, 115, 155, 181, 126, 174, 154, 113, 166, 107, 140, 143, 73, 64, 125, 115, 81, 150, 132, 72, 67, 129}},
    {Resampling::box, 9, 3, {46, 88, 88, 131, 173, 88, 130, 130, 173, 182, 241, 241, 44, 103, 162, 221, 221, 24, 63, 138, 138, 86, 161, 109, 56, 56, 132}},
    {Resampling::hamming, 9, 3, {34, 69, 91, 119, 158, 106, 128, 150, 185, 145, 194, 159, 84, 140, 126, 162, 164, 61, 74, 137, 120, 73, 145, 126, 73, 56, 119}},
    {Resampling::nearest, 1, 9, {111, 111, 235, 235, 103, 227, 227, 95, 95}},
    {Resampling::lanczos, 1, 9, {109, 115, 125, 137, 139, 133, 116, 100, 93}},
    {Resampling::bilinear, 1, 9, {111, 118, 129, 134, 138, 130, 120, 104, 95}},
    {Resampling::bicubic, 1, 9, {110, 116, 127, 136, 139, 131, 118, 102, 93}},
    {Resampling::box, 1, 9, {111, 111, 125, 125, 140, 117, 117, 95, 95}},
    {Resampling::hamming, 1, 9, {111, 115, 132, 134, 138, 129, 124, 100, 95}},
};
// clang-format on

Result<ImagePreparation> read(const TemporaryFolder& folder, std::string_view json, uint32_t size = 4) {
  folder.write("preprocessor_config.json", json);
  return read_image_preparation(folder.path(), size, size);
}

std::vector<float> values_of(const Image& image, const Result<ImagePreparation>& preparation) {
  REQUIRE_MESSAGE(preparation.ok(), says(preparation, {}));
  auto values = prepare(image, *preparation, "some.png");
  REQUIRE_MESSAGE(values.ok(), says(values, {}));
  return *values;
}

} // namespace

TEST_CASE("resize: each filter gives PIL's pixels to within one") {
  const Image image = pattern(7, 5);
  for (const Expected& row : expected) {
    CAPTURE(static_cast<int>(row.resampling));
    CAPTURE(row.width);
    const Image small = resize(image, row.width, row.height, row.resampling, {0, 0, row.width, row.height});
    const size_t step = small.pixels.size() / row.values.size();
    for (size_t i = 0; i < row.values.size(); ++i)
      CHECK(std::abs(small.pixels[i * step] - row.values[i]) <= 1);
  }
}

TEST_CASE("resize: a window gives that part of the whole picture, with zeros outside of it") {
  const Image image = pattern(23, 17);
  for (const Resampling resampling : {Resampling::nearest, Resampling::bicubic}) {
    const Image whole = resize(image, 10, 30, resampling, {0, 0, 10, 30});
    const Image part = resize(image, 10, 30, resampling, {-2, 25, 8, 7});
    for (int y = 0; y < 7; ++y)
      for (int x = 0; x < 8; ++x) {
        const bool inside = x - 2 >= 0 && y + 25 < 30;
        const int found = part.pixels[static_cast<size_t>(y * 8 + x) * 3 + 1];
        CHECK(found == (inside ? whole.pixels[static_cast<size_t>((y + 25) * 10 + x - 2) * 3 + 1] : 0));
      }
  }
  const Image same = resize(image, 23, 17, Resampling::lanczos, {0, 0, 23, 17});
  CHECK(same.pixels == image.pixels);
}

TEST_CASE("preprocessing: without a file, ViT's defaults") {
  const TemporaryFolder folder;
  const auto preparation = read_image_preparation(folder.path(), 3, 5);
  const Image white{1, 1, {255, 0, 128}};
  const std::vector<float> values = values_of(white, preparation);
  REQUIRE(values.size() == 3 * 3 * 5);
  for (size_t i = 0; i < 15; ++i) {
    CHECK(values[i] == 1.0F);
    CHECK(values[15 + i] == -1.0F);
    CHECK(std::abs(values[30 + i] - (128.0F / 255 - 0.5F) / 0.5F) < 1e-6F);
  }
}

TEST_CASE("preprocessing: sizes in every form, means, deviations, scales") {
  const TemporaryFolder folder;
  const Image image = pattern(9, 6);
  const auto plain =
      values_of(image, read(folder, R"({"image_processor_type":"ViTImageProcessor","size":4})"));
  CHECK(plain ==
        values_of(image, read(folder, R"({"size":{"height":4,"width":4},"resample":2,"do_rescale":true})")));
  CHECK(plain ==
        values_of(image,
                  read(folder, R"({"size":[4,4],"image_mean":[0.5,0.5,0.5],"image_std":[0.5,0.5,0.5]})")));
  CHECK(plain != values_of(image, read(folder, R"({"size":4,"resample":3})")));
  const auto bytes = values_of(image, read(folder, R"({"size":4,"do_rescale":false,"do_normalize":false})"));
  for (size_t i = 0; i < plain.size(); ++i)
    CHECK(std::abs((bytes[i] / 255 - 0.5F) / 0.5F - plain[i]) < 1e-5F);
  const auto scaled = values_of(
      image, read(folder, R"({"size":4,"rescale_factor":1.0,"image_mean":[1,2,3],"image_std":[1,2,4]})"));
  CHECK(scaled[0] == bytes[0] - 1);
  CHECK(scaled[16] == (bytes[16] - 2) / 2);
  CHECK(scaled[32] == (bytes[32] - 3) / 4);
}

TEST_CASE("preprocessing: the shortest edge and the crop of the centre") {
  const TemporaryFolder folder;
  const std::string rest = R"("crop_size":{"height":4,"width":4},"do_rescale":false,"do_normalize":false})";
  const Image image = pattern(12, 8);
  const auto clip = read(folder, R"({"feature_extractor_type":"CLIPFeatureExtractor","size":4,)" + rest);
  REQUIRE_MESSAGE(clip.ok(), says(clip, {}));
  CHECK(clip->shortest_edge == 4U);
  CHECK(clip->resampling == Resampling::bicubic);
  const Image middle = resize(image, 6, 4, Resampling::bicubic, {1, 0, 4, 4});
  const std::vector<float> values = values_of(image, clip);
  for (size_t i = 0; i < 16; ++i) CHECK(values[i] == middle.pixels[i * 3]);
  // The picture is smaller than the crop: zeros around it, the odd row and column above and to the left.
  const auto padded =
      values_of(Image{1, 1, {9, 9, 9}}, read(folder, R"({"do_resize":false,"do_center_crop":true,)" + rest));
  for (size_t i = 0; i < 16; ++i) CHECK(padded[i] == (i == 2 * 4 + 2 ? 9 : 0));
  // A line of pixels would be resized to a huge picture; only its centre is computed.
  CHECK(values_of(pattern(60000, 1), clip).size() == 48);
  CHECK(values_of(pattern(1, 60000), clip).size() == 48);
}

// The sizes are those that transformers 5.13's DonutImageProcessor computes.
TEST_CASE("preprocessing: Donut's pictures fit the model's size, in the middle of zeros") {
  const TemporaryFolder folder;
  folder.write(
      "preprocessor_config.json",
      R"({"image_processor_type": "DonutImageProcessor", "size": [14, 20], "do_align_long_axis": false})");
  const auto read_size = [&](uint32_t height, uint32_t width) {
    return read_image_preparation(folder.path(), height, width);
  };
  const auto preparation = read_size(20, 14); // the list has the width first
  REQUIRE_MESSAGE(preparation.ok(), says(preparation, {}));
  struct Case {
    PictureSize picture, first, fitted; // first: where it is made smaller after that
    int64_t left, top;
  };
  for (const Case& c : {Case{{31, 47}, {14, 21}, {9, 14}, 0, -5},
                        {{40, 9}, {62, 14}, {20, 4}, -5, 0},
                        {{30, 30}, {}, {14, 14}, 0, -3},
                        {{20, 14}, {}, {20, 14}, 0, 0},
                        {{47, 31}, {21, 14}, {20, 13}, 0, 0}}) {
    CAPTURE(c.picture.height);
    const auto plan = plan_whole(c.picture, *preparation, "a page");
    REQUIRE(plan.ok());
    CHECK(plan->wholes.size() == (c.first.height > 0 ? 1 : 0));
    if (!plan->wholes.empty()) {
      CHECK(plan->wholes[0].height == c.first.height);
      CHECK(plan->wholes[0].width == c.first.width);
    }
    REQUIRE(plan->parts.size() == 1);
    const PicturePlan::Part& part = plan->parts[0];
    CHECK(part.height == c.fitted.height);
    CHECK(part.width == c.fitted.width);
    CHECK(part.window.left == c.left);
    CHECK(part.window.top == c.top);
    CHECK(part.window.width == 14);
    CHECK(part.window.height == 20);
  }
  // Around the picture are black pixels, of which the mean is taken as of others.
  const std::vector<float> values = values_of(pattern(30, 30), preparation);
  REQUIRE(values.size() == size_t{3} * 20 * 14);
  CHECK(values[2 * 14 + 5] == -1.0f);
  CHECK(values[17 * 14] == -1.0f);
  CHECK(says(read_size(20, 20), {"preprocessor_config.json", "size", "20 x 20", "20 x 14"}) == "");
  CHECK(says(plan_whole({1000000000, 3}, *preparation, "a line"), {"a line", "3 x 1000000000"}) == "");
  folder.write("preprocessor_config.json",
               R"({"image_processor_type": "DonutImageProcessor", "do_thumbnail": false})");
  CHECK(says(read_size(20, 14), {"do_thumbnail", "expected true"}) == "");
}

TEST_CASE("preprocessing: unsupported steps are errors") {
  const TemporaryFolder folder;
  const std::string file = "preprocessor_config.json";
  CHECK(says(read(folder, "{"), {file}) == "");
  CHECK(says(read(folder, R"({"size":"big"})"), {file, "size"}) == "");
  CHECK(says(read(folder, R"({"size":0})"), {file, "size"}) == "");
  CHECK(says(read(folder, R"({"size":[1,2,3]})"), {file, "size", "3"}) == "");
  CHECK(says(read(folder, R"({"size":8})"), {file, "size", "4 x 4", "8 x 8"}) == "");
  CHECK(says(read(folder, R"({"size":{"shortest_edge":4}})"), {file, "size", "shortest_edge"}) == "");
  CHECK(says(read(folder, R"({"size":{"longest_edge":4}})"), {file, "longest_edge"}) == "");
  CHECK(says(read(folder, R"({"do_center_crop":true,"crop_size":5})"),
             {file, "crop_size", "4 x 4", "5 x 5"}) == "");
  CHECK(says(read(folder, R"({"resample":6})"), {file, "resample"}) == "");
  CHECK(says(read(folder, R"({"image_mean":[1,2]})"), {file, "image_mean", "three"}) == "");
  CHECK(says(read(folder, R"({"image_std":[1,0,1]})"), {file, "image_std", "above 0"}) == "");
  CHECK(says(read(folder, R"({"do_pad":true})"), {file, "do_pad"}) == "");
  const auto fixed = read(folder, R"({"do_resize":false})");
  REQUIRE(fixed.ok());
  CHECK(prepare(pattern(4, 4), *fixed, "some.png").ok());
  CHECK(says(prepare(pattern(5, 4), *fixed, "some.png"), {"some.png", "4 x 4", "5 x 4"}) == "");
}
