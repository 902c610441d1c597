#pragma once

#include "media/image.h"

// Decoders of the formats that image.cpp recognises by their first bytes.
namespace pumice {

bool is_png(std::span<const std::byte> bytes);
Result<Image> parse_png(std::span<const std::byte> bytes, const std::string& name, uint64_t max_pixels);

bool is_jpeg(std::span<const std::byte> bytes);
Result<Image> parse_jpeg(std::span<const std::byte> bytes, const std::string& name, uint64_t max_pixels);

// An image of this size for the decoder to fill, or an error if it is empty or too large.
Result<Image> blank_image(uint64_t width, uint64_t height, const std::string& name, uint64_t max_pixels);

} // namespace pumice
