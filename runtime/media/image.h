#pragma once

#include "base/result.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace pumice {

// A picture: rows from top to bottom, three bytes a pixel in the order red, green, blue.
struct Image {
  uint32_t width = 0;
  uint32_t height = 0;
  std::vector<uint8_t> pixels;
};

// A picture whose header gives more pixels is refused before memory is allocated for it.
inline constexpr uint64_t max_image_pixels = 100'000'000;
inline constexpr uint64_t max_image_edge = 65535; // the limit of JPEG

// Reads a PNG or a JPEG. The pixels are those of Python's PIL with convert("RGB"): grey and palettes are
// expanded, transparency is dropped, the upper 8 of 16 bits are used, and the orientation and colour profile
// of a camera are ignored. A damaged or truncated picture is an error, because half a picture would give
// wrong results.
Result<Image> read_image(const std::filesystem::path& path, uint64_t max_pixels = max_image_pixels);
Result<Image> parse_image(std::span<const std::byte> bytes, const std::string& name,
                          uint64_t max_pixels = max_image_pixels);

Result<std::vector<std::byte>> png_bytes(const Image& image);
Status write_png(const Image& image, const std::filesystem::path& path);

} // namespace pumice
