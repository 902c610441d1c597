#include "serve/routes/request_media.h"

#include <memory>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "media/audio.h"
#include "text/formats/base64.h"
#include "text/formats/data_url.h"

namespace pumice::serve {

Result<std::string> read_data_url(const Json& url, const std::string& field) {
  Result<std::string> bytes = text::parse_data_url(url);
  if (!bytes.ok()) return bad_field(field, bytes.error().message);
  return bytes;
}

Result<std::string> read_base64(const Json& text, const std::string& field) {
  if (!text.is_string()) return bad_field(field, "expected base64 of a file's bytes in a string");
  std::optional<std::string> bytes = text::decode_base64(text.get_ref<const std::string&>());
  if (!bytes || bytes->empty()) return bad_field(field, "expected base64 of a file's bytes");
  return *std::move(bytes);
}

Result<Image> read_picture(std::span<const std::byte> bytes, const std::string& field) {
  return parse_image(bytes, request_field(field), most_pixels);
}

Result<std::vector<float>> read_sound(std::string bytes, uint32_t rate, size_t most,
                                      const std::string& field) {
  constexpr size_t piece = 1 << 18;
  PUMICE_TRY(const std::unique_ptr<AudioStream> stream,
             AudioStream::parse(std::move(bytes), request_field(field), rate));
  std::vector<float> samples;
  for (size_t before = 1; before != samples.size();) {
    before = samples.size();
    stream->read(piece, samples);
    if (samples.size() > most) {
      return bad_field(field,
                       fmt::format("expected at most {} minutes of sound in a request", most_sound_minutes));
    }
  }
  if (const std::string damage = stream->damage(); !damage.empty())
    return Error{Code::invalid_argument, damage};
  return samples;
}

namespace {

Json medium_part(const char* type, const std::string& bytes, const std::string& field) {
  return {{"type", type},
          {"bytes", Json::binary(std::vector<uint8_t>(bytes.begin(), bytes.end()))},
          {"field", field}};
}

} // namespace

Json picture_part(const std::string& bytes, const std::string& field) {
  return medium_part("image", bytes, field);
}

Json sound_part(const std::string& bytes, const std::string& field) {
  return medium_part("audio", bytes, field);
}

} // namespace pumice::serve
