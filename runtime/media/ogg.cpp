#include "media/audio_formats.h"

#include "io/bytes.h"

#include <numeric>

#include <fmt/format.h>
#define OV_EXCLUDE_STATIC_CALLBACKS
#include <vorbis/vorbisfile.h>

namespace pumice {

namespace {

constexpr size_t header_bytes = 27; // of a page header, before the list of segment sizes

// Reads the page at the reader's position and moves past it.
bool take_page(ByteReader& reader, std::span<const std::byte>& content) {
  std::span<const std::byte> header, sizes;
  if (!reader.take(header_bytes, header) || !as_text(header).starts_with("OggS")) return false;
  if (!reader.take(static_cast<uint8_t>(header[header_bytes - 1]), sizes)) return false;
  const auto size =
      std::accumulate(sizes.begin(), sizes.end(), uint64_t{0},
                      [](uint64_t sum, std::byte part) { return sum + static_cast<uint64_t>(part); });
  return reader.take(size, content);
}

// Decoders skip damaged pages, so the pages are checked here first.
bool check_pages(std::span<const std::byte> bytes, AudioSink& sink) {
  ByteReader reader(bytes);
  std::span<const std::byte> content;
  while (reader.remaining() > 0) {
    const uint64_t at = reader.position();
    if (take_page(reader, content)) continue;
    sink.fail(Code::invalid_file,
              fmt::format("expected whole Ogg pages, found a damaged or truncated one at byte {} of {}", at,
                          bytes.size()));
    return false;
  }
  return true;
}

size_t read_bytes(void* out, size_t size, size_t count, void* data) {
  auto& rest = *static_cast<std::span<const std::byte>*>(data);
  const size_t bytes = std::min(size * count, rest.size());
  std::memcpy(out, rest.data(), bytes);
  rest = rest.subspan(bytes);
  return size == 0 ? 0 : bytes / size;
}

struct VorbisFile {
  OggVorbis_File file{};
  ~VorbisFile() { ov_clear(&file); }
};

void parse_vorbis(std::span<const std::byte> bytes, AudioSink& sink) {
  VorbisFile owner;
  OggVorbis_File& file = owner.file;
  std::span<const std::byte> rest = bytes;
  const int opened = ov_open_callbacks(&rest, &file, nullptr, 0, {read_bytes, nullptr, nullptr, nullptr});
  if (opened != 0)
    return sink.fail(Code::invalid_file,
                     fmt::format("expected Vorbis headers, found damaged ones ({})", opened));
  while (!sink.failed()) {
    float** channels = nullptr;
    const long count = ov_read_float(&file, &channels, 4096, nullptr);
    if (count == 0) return;
    if (count < 0)
      return sink.fail(Code::invalid_file,
                       fmt::format("expected whole Vorbis packets, found a damaged one after {} samples ({})",
                                   sink.count(), count));
    const vorbis_info* info = ov_info(&file, -1);
    if (!info || !sink.start(static_cast<uint64_t>(info->rate), static_cast<uint64_t>(info->channels)))
      return;
    sink.add(static_cast<size_t>(count), 1,
             [&](size_t frame, size_t channel) { return channels[channel][frame]; });
  }
}

} // namespace

bool is_ogg(std::span<const std::byte> bytes) {
  return as_text(bytes).starts_with("OggS");
}

void parse_ogg(std::span<const std::byte> bytes, AudioSink& sink) {
  if (!check_pages(bytes, sink)) return;
  ByteReader reader(bytes);
  std::span<const std::byte> content;
  take_page(reader, content); // the first page names the codec
  const std::string_view kind = as_text(content);
  if (kind.starts_with("\x01vorbis")) return parse_vorbis(bytes, sink);
  if (kind.starts_with("\x7F"
                       "FLAC"))
    return parse_ogg_flac(bytes, sink);
  sink.fail(Code::unsupported,
            fmt::format("expected Vorbis or FLAC in the Ogg file, found a stream that begins with {}",
                        in_quotes(kind, 16)));
}

} // namespace pumice
