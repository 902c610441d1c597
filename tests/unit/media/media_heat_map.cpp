#include "media/heat_map.h"

#include "media/axis_marks.h"
#include "media/canvas.h"
#include "support/command/messages.h"

#include <array>
#include <cstdio>
#include <limits>
#include <set>

#include <doctest/doctest.h>

using namespace pumice;

namespace {

std::vector<std::string> names(size_t count, const std::string& stem = "token") {
  std::vector<std::string> result;
  for (size_t i = 0; i < count; ++i) result.push_back(stem + std::to_string(i));
  return result;
}

HeatMap map_of(size_t rows, size_t columns, const std::vector<float>& weights) {
  HeatMap map;
  map.rows = names(rows);
  map.columns = names(columns);
  map.weights = weights;
  return map;
}

Image drawn(const HeatMap& map) {
  auto image = draw_heat_map(map);
  REQUIRE_MESSAGE(image.ok(), says(image, {}));
  return *image;
}

double lightness(const Image& image, size_t x, size_t y) {
  const uint8_t* pixel = image.pixels.data() + (y * image.width + x) * 3;
  return 0.2126 * pixel[0] + 0.7152 * pixel[1] + 0.0722 * pixel[2];
}

// The number of different pixels.
size_t difference(const Image& a, const Image& b) {
  REQUIRE(a.pixels.size() == b.pixels.size());
  size_t count = 0;
  for (size_t i = 0; i < a.pixels.size(); ++i) count += a.pixels[i] != b.pixels[i];
  return count;
}

} // namespace

TEST_CASE("heat map: a heavier weight is darker, and only its own cell changes") {
  std::vector<float> weights(20 * 30, 0.0F);
  const Image empty = drawn(map_of(20, 30, weights));
  double before = 1e9;
  for (const float weight : {0.01F, 0.1F, 0.3F, 0.6F, 1.0F}) {
    weights[7 * 30 + 11] = weight;
    const Image image = drawn(map_of(20, 30, weights));
    size_t left = image.width, right = 0, top = image.height, bottom = 0;
    for (size_t y = 0; y < image.height; ++y)
      for (size_t x = 0; x < image.width; ++x)
        if (lightness(image, x, y) != lightness(empty, x, y))
          left = std::min(left, x), right = std::max(right, x), top = std::min(top, y),
          bottom = std::max(bottom, y);
    REQUIRE(left <= right);
    CHECK(right - left < 50);
    CHECK(bottom - top < 50);
    CHECK(lightness(image, left, top) < before);
    before = lightness(image, left, top);
  }
}

TEST_CASE("heat map: weights are only normalised on request") {
  const std::vector<float> some = {0.1F, 0.2F}, twice = {0.2F, 0.4F};
  HeatMap a = map_of(1, 2, some), b = map_of(1, 2, twice);
  CHECK(difference(drawn(a), drawn(b)) > 100);
  a.scale_to_largest = b.scale_to_largest = true;
  a.columns = b.columns = {std::string(4, 'x'), std::string(4, 'y')};
  // The same colours; the numbers in the cells and in the legend differ.
  const Image first = drawn(a), second = drawn(b);
  CHECK(difference(first, second) < first.pixels.size() / 50);
}

TEST_CASE("heat map: one token, hundreds, the frames of a sound, no labels") {
  struct Shape {
    size_t rows, columns;
  };
  for (const Shape shape : {Shape{1, 1}, {1, 300}, {300, 1}, {200, 300}, {3, 3600}, {3600, 2}}) {
    const size_t rows = shape.rows, columns = shape.columns;
    CAPTURE(rows);
    CAPTURE(columns);
    const std::vector<float> weights(rows * columns, 0.25F);
    const Image image = drawn(map_of(rows, columns, weights));
    CHECK(image.width < 4200);
    CHECK(image.height < 4200);
  }
  const std::vector<float> weights(5 * 1500, 1.0F / 1500);
  HeatMap sound = map_of(5, 1500, weights);
  for (size_t i = 0; i < 1500; ++i) sound.columns[i] = i % 250 == 0 ? std::to_string(i / 50) + " s" : "";
  CHECK(drawn(sound).width < 2000);
  sound.columns.assign(1500, "");
  sound.rows.assign(5, "");
  sound.row_axis = sound.column_axis = "";
  CHECK(drawn(sound).width < 2000);
}

TEST_CASE("heat map: labels may hold any bytes") {
  const std::vector<float> weights(6, 0.5F);
  HeatMap map = map_of(1, 6, weights);
  map.title = "\xE2\x96\x81\xC3\x9C"
              "ber \xD0\x9F\xD1\x80\xD0\xB8 \xE6\x97\xA5\xE6\x9C\xAC \xF0\x9F\x98\x80";
  map.columns = {"\xFF\xFE", std::string("a\0b", 3), "\n\t\r", " ", std::string(5000, 'w'), "e\xCC\x81"};
  CHECK(drawn(map).width < 4200);
}

TEST_CASE("canvas: characters are composed, and spaces and line ends are made visible") {
  CHECK(drawable("e\xCC\x81") == U"\u00E9");
  CHECK(drawable("\n") == U"\u21B5");
  CHECK(drawable("  ") == U"\u2423\u2423");
  CHECK(drawable("a b") == U"a b");
  CHECK(drawable("a\xFFz") == U"a\uFFFDz");
  CHECK(drawable("") == U"");
}

TEST_CASE("canvas: the font has the documented scripts, and other characters are drawn as boxes") {
  REQUIRE(fonts().size() == 3);
  for (const Font& font : fonts()) {
    for (const char32_t code :
         U"Az09.,;!?\u00E9\u00DF\u0142\u1EA1\u03A9\u0416\u044F\u0531\u20AC\u2026\u2581\u2423\u21B5\uFFFD")
      if (code) CHECK_MESSAGE(font.find(code), "U+", static_cast<uint32_t>(code), " at ", font.size);
    CHECK(font.find(0x65E5) == nullptr);
    CHECK(text_width(U"\u65E5", font) > 0);
    CHECK(text_width(U"ab", font) == text_width(U"a", font) + text_width(U"b", font));
    const std::u32string cut = cut_to(std::u32string(100, U'w'), font, 80);
    CHECK(cut.back() == U'\u2026');
    CHECK(text_width(cut, font) <= 80);
  }
  std::set<std::vector<uint8_t>> pictures;
  for (const char32_t code : {U'\u65E5', U'\u672C', U'\U0001F600', U'a'}) {
    Canvas canvas(30, 30);
    canvas.text(5, 20, std::u32string(1, code), fonts()[1], {});
    pictures.insert(std::move(canvas).take().pixels);
  }
  CHECK(pictures.size() == 4);
}

TEST_CASE("heat map: the legend's numbers are round") {
  CHECK(axis_marks(0, 0.131, 5) == std::vector<double>{0, 0.05, 0.1});
  CHECK(axis_marks(0, 1, 5) == std::vector<double>{0, 0.2, 0.4, 0.6000000000000001, 0.8, 1});
  CHECK(axis_marks(0, 0, 5) == std::vector<double>{0});
}

TEST_CASE("canvas: text that runs upwards is text rotated by 90 degrees") {
  Canvas across(60, 60), up(60, 60);
  across.text(10, 30, U"Rg\u00DC", fonts()[1], {});
  up.text(30, 49, U"Rg\u00DC", fonts()[1], {}, Direction::up);
  const Image a = std::move(across).take(), b = std::move(up).take();
  size_t wrong = 0;
  for (size_t y = 0; y < 60; ++y)
    for (size_t x = 0; x < 60; ++x) wrong += a.pixels[(y * 60 + x) * 3] != b.pixels[((59 - x) * 60 + y) * 3];
  CHECK(wrong == 0);
}

TEST_CASE("heat map: invalid shapes and weights are refused") {
  const std::vector<float> weights = {0.5F, std::numeric_limits<float>::quiet_NaN()};
  CHECK(says(draw_heat_map(map_of(1, 2, weights)), {"finite"}) == "");
  CHECK(says(draw_heat_map(map_of(2, 2, weights)), {"2 x 2", "found 2"}) == "");
  CHECK(says(draw_heat_map(map_of(0, 2, {})), {"1 to 3600", "0 x 2"}) == "");
  const std::vector<float> many(3601, 0.0F);
  CHECK(says(draw_heat_map(map_of(1, 3601, many)), {"1 to 3600", "1 x 3601"}) == "");
}

TEST_CASE("heat map: as SVG it has the same cells, and its labels are text in any script") {
  const std::vector<float> weights = {0, 0.25F, 0.75F, 1};
  HeatMap map = map_of(2, 2, weights);
  map.rows = {"a<b&c", "\u65e5"};
  map.columns = {"\u0434", "\U00010000"};
  const auto svg = heat_map_svg(map);
  REQUIRE(svg.ok());
  for (const char* part :
       {">a&lt;b&amp;c</text>", ">\u65e5</text>", ">\u0434</text>", ">\U00010000</text>", ">0.25</text>"})
    CHECK(svg->find(part) != std::string::npos);
  CHECK(svg->starts_with("<svg "));
  CHECK(svg->ends_with("</svg>\n"));
  // A cell's colour is the one that its pixel has.
  const Image image = drawn(map);
  const auto hex = [&](size_t x, size_t y) {
    const uint8_t* pixel = image.pixels.data() + (y * image.width + x) * 3;
    char text[8];
    std::snprintf(text, sizeof text, "#%02x%02x%02x", pixel[0], pixel[1], pixel[2]);
    return std::string(text);
  };
  size_t cells = 0;
  for (size_t at = svg->find("<rect x="); at != std::string::npos; at = svg->find("<rect x=", at + 1)) {
    int x = 0, y = 0, width = 0, height = 0;
    char colour[8] = {};
    REQUIRE(std::sscanf(svg->c_str() + at, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%7s",
                        &x, &y, &width, &height, colour) == 5);
    if (width < 20 || height < 20 || width > 60) continue; // the legend, and what is behind the cells
    CHECK(hex(static_cast<size_t>(x) + 1, static_cast<size_t>(y) + 1) == colour);
    ++cells;
  }
  CHECK(cells == 4);
  const std::vector<float> many(500 * 500);
  CHECK(says(heat_map_svg(map_of(500, 500, many)), {"200000", "250000", "PNG"}) == "");
}

TEST_CASE("heat map: characters that would be boxes are told") {
  const std::vector<float> weights = {0, 0, 0, 0};
  HeatMap map = map_of(2, 2, weights);
  CHECK(boxes_in(map).empty());
  map.rows = {"\U000e0001\U000f0000", "\U000f0000"}; // an unseen tag, and a private character, twice
  CHECK(boxes_in(map) == U"\U000f0000");
}
