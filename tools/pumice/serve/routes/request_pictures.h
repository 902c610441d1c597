#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "media/image.h"
#include "serve/routes/request_body.h"

// The pictures that requests have in themselves. Nothing is fetched, and no path is read.
namespace pumice::serve {

inline constexpr size_t most_pictures = 16;         // of a request
inline constexpr uint64_t most_pixels = 32'000'000; // of a picture

// The bytes of "data:image/png;base64,...", and of base64 alone. `field` names them in errors.
Result<std::string> read_data_url(const Json& url, const std::string& field);
Result<std::string> read_base64(const Json& text, const std::string& field);
// A PNG or JPEG.
Result<Image> read_picture(std::span<const std::byte> bytes, const std::string& field);

// The part of a message that shows a picture, until the chat takes it. Its bytes are what no JSON of a client
// can have: {"type": "image", "bytes": BINARY, "field": FIELD}.
Json picture_part(const std::string& bytes, const std::string& field);
inline bool is_picture_part(const Json& part) {
  return part.is_object() && part.contains("bytes") && part["bytes"].is_binary();
}

} // namespace pumice::serve
