#include "media/image.h"

#include "support/command/messages.h"
#include "support/files/byte_writer.h"
#include "support/files/temporary_folder.h"

#include <cstdlib>
#include <string>

#include <doctest/doctest.h>
#include <jpeglib.h>
#include <png.h>

using namespace pumice;

namespace {

Image gradient(uint32_t width, uint32_t height) {
  Image image{width, height, {}};
  for (uint32_t y = 0; y < height; ++y)
    for (uint32_t x = 0; x < width; ++x)
      for (uint32_t colour = 0; colour < 3; ++colour)
        image.pixels.push_back(static_cast<uint8_t>((x * 7 + y * 3 + colour * 80) % 256));
  return image;
}

std::vector<std::byte> bytes_of(const Image& image) {
  auto bytes = png_bytes(image);
  REQUIRE_MESSAGE(bytes.ok(), says(bytes, {}));
  return *bytes;
}

// A PNG of a kind that write_png() does not write.
std::vector<std::byte> png_of(uint32_t width, uint32_t height, int bits, int type,
                              std::vector<uint8_t> data) {
  std::vector<std::byte> bytes;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  const auto append = [](png_structp from, png_bytep more, size_t count) {
    auto* out = static_cast<std::vector<std::byte>*>(png_get_io_ptr(from));
    out->insert(out->end(), reinterpret_cast<std::byte*>(more), reinterpret_cast<std::byte*>(more) + count);
  };
  png_set_write_fn(png, &bytes, append, nullptr);
  png_set_IHDR(png, info, width, height, bits, type, PNG_INTERLACE_ADAM7, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  if (type == PNG_COLOR_TYPE_PALETTE) {
    const png_color palette[] = {{1, 2, 3}, {200, 100, 50}};
    png_set_PLTE(png, info, palette, 2);
    const png_byte alpha[] = {0, 128};
    png_set_tRNS(png, info, alpha, 2, nullptr);
  }
  std::vector<png_bytep> rows;
  for (uint32_t row = 0; row < height; ++row) rows.push_back(data.data() + row * data.size() / height);
  png_set_rows(png, info, rows.data());
  png_write_png(png, info, PNG_TRANSFORM_IDENTITY, nullptr);
  png_destroy_write_struct(&png, &info);
  return bytes;
}

std::vector<uint8_t> pixels_of(const std::vector<std::byte>& bytes) {
  const auto image = parse_image(bytes, "some.png");
  REQUIRE_MESSAGE(image.ok(), says(image, {}));
  return image->pixels;
}

std::vector<std::byte> jpeg_of(std::vector<uint8_t> data, uint32_t width, uint32_t height, int colours,
                               J_COLOR_SPACE space, bool progressive = false) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* out = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &out, &size);
  info.image_width = width;
  info.image_height = height;
  info.input_components = colours;
  info.in_color_space = space;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 100, TRUE);
  if (progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  for (uint32_t row = 0; row < height; ++row) {
    JSAMPROW line = data.data() + row * width * static_cast<uint32_t>(colours);
    jpeg_write_scanlines(&info, &line, 1);
  }
  jpeg_finish_compress(&info);
  const auto* begin = reinterpret_cast<const std::byte*>(out);
  std::vector<std::byte> bytes(begin, begin + size);
  jpeg_destroy_compress(&info);
  std::free(out);
  return bytes;
}

std::vector<std::byte> first(const std::vector<std::byte>& bytes, size_t count) {
  return {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count)};
}

uint32_t crc32_of(std::span<const uint8_t> bytes) {
  uint32_t crc = 0xFFFFFFFF;
  for (const uint8_t byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320 : 0);
  }
  return ~crc;
}

} // namespace

TEST_CASE("png: written pictures are read back") {
  const TemporaryFolder folder;
  for (const Image& image : {gradient(1, 1), gradient(3, 2), gradient(257, 31)}) {
    const auto path = folder.path() / "picture.png";
    REQUIRE(write_png(image, path).ok());
    const auto back = read_image(path);
    REQUIRE_MESSAGE(back.ok(), says(back, {}));
    CHECK(back->width == image.width);
    CHECK(back->height == image.height);
    CHECK(back->pixels == image.pixels);
  }
  CHECK(says(write_png(gradient(1, 1), folder.path() / "no" / "such.png"),
             {"such.png", "cannot be written"}) == "");
  CHECK(says(png_bytes(Image{2, 2, {1, 2, 3}}), {"2 x 2", "3 bytes"}) == "");
}

TEST_CASE("png: every kind becomes RGB of 8 bits, without its transparency") {
  using Bytes = std::vector<uint8_t>;
  CHECK(pixels_of(png_of(2, 1, 8, PNG_COLOR_TYPE_GRAY, {0, 200})) == Bytes{0, 0, 0, 200, 200, 200});
  CHECK(pixels_of(png_of(4, 1, 1, PNG_COLOR_TYPE_GRAY, {0b10100000})) ==
        Bytes{255, 255, 255, 0, 0, 0, 255, 255, 255, 0, 0, 0});
  CHECK(pixels_of(png_of(2, 1, 4, PNG_COLOR_TYPE_GRAY, {0x3F})) == Bytes{51, 51, 51, 255, 255, 255});
  CHECK(pixels_of(png_of(2, 1, 1, PNG_COLOR_TYPE_PALETTE, {0b01000000})) == Bytes{1, 2, 3, 200, 100, 50});
  CHECK(pixels_of(png_of(1, 2, 8, PNG_COLOR_TYPE_RGB_ALPHA, {9, 8, 7, 0, 6, 5, 4, 128})) ==
        Bytes{9, 8, 7, 6, 5, 4});
  CHECK(pixels_of(png_of(1, 1, 8, PNG_COLOR_TYPE_GRAY_ALPHA, {77, 10})) == Bytes{77, 77, 77});
  CHECK(pixels_of(png_of(1, 1, 16, PNG_COLOR_TYPE_RGB, {1, 255, 2, 255, 3, 255})) == Bytes{1, 2, 3});
}

TEST_CASE("png: every prefix of a file and every flipped bit of its pixels is an error") {
  const std::vector<std::byte> whole = bytes_of(gradient(9, 7));
  for (size_t length = 0; length < whole.size(); ++length)
    CHECK_MESSAGE(says(parse_image(first(whole, length), "cut.png"), {"cut.png"}) == "", "at ", length);
  for (size_t at = 41; at < whole.size() - 12; ++at) { // after the header and the length of the first IDAT
    std::vector<std::byte> flipped = whole;
    flipped[at] ^= std::byte{16};
    CHECK_MESSAGE(says(parse_image(flipped, "bad.png"), {"bad.png", "damaged"}) == "", "at ", at);
  }
}

TEST_CASE("png: a size that is too large is refused before memory is allocated") {
  std::vector<std::byte> bytes = bytes_of(gradient(2, 2));
  const uint8_t header[] = {'I', 'H', 'D', 'R', 0, 1, 0x86, 0xA0, 0, 1, 0x86, 0xA0, 8, 2, 0, 0, 0};
  std::memcpy(bytes.data() + 12, header, sizeof(header));
  const uint32_t checksum = crc32_of(header);
  for (int i = 0; i < 4; ++i)
    bytes[29 + static_cast<size_t>(i)] = static_cast<std::byte>(checksum >> (24 - 8 * i));
  CHECK(says(parse_image(bytes, "huge.png"),
             {"huge.png", "at most 100000000 pixels", "edges of at most 65535", "100000 x 100000"}) == "");
  CHECK(says(parse_image(bytes_of(gradient(5, 4)), "some.png", 19), {"at most 19 pixels", "5 x 4"}) == "");
  CHECK(parse_image(bytes_of(gradient(5, 4)), "some.png", 20).ok());
}

TEST_CASE("jpeg: colours, grey and CMYK are decoded to RGB") {
  const Image image = gradient(37, 19);
  for (const bool progressive : {false, true}) {
    const auto back = parse_image(jpeg_of(image.pixels, 37, 19, 3, JCS_RGB, progressive), "some.jpg");
    REQUIRE_MESSAGE(back.ok(), says(back, {}));
    CHECK(back->width == 37);
    CHECK(back->height == 19);
  }
  const std::vector<uint8_t> flat = {200, 100, 50};
  const auto colour = parse_image(jpeg_of(flat, 1, 1, 3, JCS_RGB), "some.jpg");
  REQUIRE(colour.ok());
  for (size_t i = 0; i < 3; ++i) CHECK(std::abs(colour->pixels[i] - flat[i]) <= 2);
  const auto grey = parse_image(jpeg_of({90}, 1, 1, 1, JCS_GRAYSCALE), "some.jpg");
  REQUIRE(grey.ok());
  for (const uint8_t value : grey->pixels) CHECK(std::abs(value - 90) <= 1);
  // libjpeg marks the CMYK files that it writes as Adobe's, so these values are amounts of light.
  const auto print = parse_image(jpeg_of({255, 128, 0, 255}, 1, 1, 4, JCS_CMYK), "some.jpg");
  REQUIRE(print.ok());
  CHECK(std::abs(print->pixels[0] - 255) <= 1);
  CHECK(std::abs(print->pixels[1] - 128) <= 1);
  CHECK(std::abs(print->pixels[2] - 0) <= 1);
}

TEST_CASE("jpeg: a truncated file is an error, not half a picture") {
  const Image image = gradient(64, 64);
  for (const bool progressive : {false, true}) {
    const std::vector<std::byte> whole = jpeg_of(image.pixels, 64, 64, 3, JCS_RGB, progressive);
    for (size_t length = 0; length < whole.size() - 2; ++length)
      CHECK_MESSAGE(says(parse_image(first(whole, length), "cut.jpg"), {"cut.jpg"}) == "", "at ", length);
  }
  CHECK(says(parse_image(jpeg_of(image.pixels, 64, 64, 3, JCS_RGB), "large.jpg", 1000),
             {"at most 1000 pixels", "64 x 64"}) == "");
}

TEST_CASE("the error for a file that is not a picture says what was found") {
  const TemporaryFolder folder;
  CHECK(says(read_image(folder.write("notes.png", "Dear diary, today")),
             {"notes.png", "PNG or JPEG", "Dear diary"}) == "");
  using namespace std::string_view_literals;
  for (const auto& [begin, format] : {std::pair{"GIF89a\x01\0\x01\0"sv, "a GIF"sv},
                                      {"RIFF\x20\0\0\0WEBPVP8 "sv, "a WebP"sv},
                                      {"BM\x46\x01\0\0\0\0\0\0"sv, "a BMP"sv},
                                      {"II*\0\x08\0\0\0"sv, "a TIFF"sv},
                                      {"MM\0*\0\0\0\x08"sv, "a TIFF"sv},
                                      {"\0\0\0\x1C"
                                       "ftypavif"sv,
                                       "an AVIF"sv},
                                      {"\0\0\0\x18"
                                       "ftypheic"sv,
                                       "a HEIC"sv},
                                      {"<svg xmlns="sv, "an SVG"sv}}) {
    const std::string_view found = format;
    CAPTURE(found);
    CHECK(says(read_image(folder.write("other.png", begin)),
               {"other.png", "PNG or JPEG", found, "convert IN OUT.png"}) == "");
  }
  CHECK(says(read_image(folder.write("note.png", "BM is what I call it")), {"begins with"}) == "");
  CHECK(says(read_image(folder.write("empty.jpg", "")), {"empty.jpg", "PNG or JPEG", "empty"}) == "");
  CHECK(says(read_image(folder.path() / "missing.png"), {"missing.png"}) == "");
  CHECK(read_image(folder.path() / "missing.png").error().code == Code::not_found);
}
