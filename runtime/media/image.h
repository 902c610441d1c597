#pragma once

#include "base/result.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace pumice {

// A picture: rows from the top, three bytes a pixel: red, green, blue.
struct Image {
  uint32_t width = 0;
  uint32_t height = 0;
  std::vector<uint8_t> pixels;
};

// A picture that announces more is refused before memory is taken for it.
inline constexpr uint64_t most_pixels = 100'000'000;
inline constexpr uint64_t most_pixels_an_edge = 65535; // JPEG's own limit

// Reads a PNG or a JPEG. Its pixels are those that Python's PIL gives for convert("RGB"): grey and palettes
// are expanded, transparency is dropped, of 16 bits the upper 8 are kept, and the orientation and colour
// profile that a camera noted are ignored. A damaged or truncated picture is an error: half a picture would
// mislead.
Result<Image> read_image(const std::filesystem::path& path, uint64_t max_pixels = most_pixels);
Result<Image> parse_image(std::span<const std::byte> bytes, const std::string& name,
                          uint64_t max_pixels = most_pixels);

Result<std::vector<std::byte>> png_bytes(const Image& image);
Status write_png(const Image& image, const std::filesystem::path& path);

} // namespace pumice
