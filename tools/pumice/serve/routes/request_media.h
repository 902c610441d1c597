#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "media/image.h"
#include "serve/routes/request_body.h"

// The pictures and sounds that requests have in themselves. Nothing is fetched, and no path is read.
namespace pumice::serve {

inline constexpr size_t most_pictures = 16;         // of a request, its sounds included
inline constexpr uint64_t most_pixels = 32'000'000; // of a picture
inline constexpr uint32_t most_sound_minutes = 10;  // of a request

// The bytes of "data:image/png;base64,...", and of base64 alone. `field` names them in errors.
Result<std::string> read_data_url(const Json& url, const std::string& field);
Result<std::string> read_base64(const Json& text, const std::string& field);
// A PNG or JPEG.
Result<Image> read_picture(std::span<const std::byte> bytes, const std::string& field);
// The samples of a sound's file at this rate. `most`: that its request may still have.
Result<std::vector<float>> read_sound(std::string bytes, uint32_t rate, size_t most,
                                      const std::string& field);

// The part of a message that is a picture or a sound, until the chat takes it. Its bytes are what no JSON of
// a client can have: {"type": "image", "bytes": BINARY, "field": FIELD}, or "audio".
Json picture_part(const std::string& bytes, const std::string& field);
Json sound_part(const std::string& bytes, const std::string& field);
inline bool is_medium_part(const Json& part) {
  return part.is_object() && part.contains("bytes") && part["bytes"].is_binary();
}

} // namespace pumice::serve
