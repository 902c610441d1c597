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
bool take_page(ByteReader& reader, std::span<const std::byte>& header, std::span<const std::byte>& content) {
  std::span<const std::byte> sizes;
  if (!reader.take(header_bytes, header) || !as_text(header).starts_with("OggS")) return false;
  if (!reader.take(static_cast<uint8_t>(header[header_bytes - 1]), sizes)) return false;
  const auto size =
      std::accumulate(sizes.begin(), sizes.end(), uint64_t{0},
                      [](uint64_t sum, std::byte part) { return sum + static_cast<uint64_t>(part); });
  return reader.take(size, content);
}

bool has_right_checksum(std::span<const std::byte> head, std::span<const std::byte> content) {
  std::vector<unsigned char> copy(head.size());
  std::memcpy(copy.data(), head.data(), head.size());
  ogg_page page = {copy.data(), static_cast<long>(copy.size()),
                   reinterpret_cast<unsigned char*>(const_cast<std::byte*>(content.data())), // is only read
                   static_cast<long>(content.size())};
  ogg_page_checksum_set(&page);
  return std::memcmp(copy.data(), head.data(), head.size()) == 0;
}

// Decoders skip damaged pages and end at truncated ones, so the pages are looked at here first. Empty:
// nothing is wrong.
struct PageDamage {
  std::string structure, contents;
};
PageDamage damage_of_pages(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  std::span<const std::byte> header, content;
  PageDamage damage;
  bool last = false;
  while (reader.remaining() > 0) {
    const uint64_t at = reader.position();
    if (!take_page(reader, header, content)) {
      damage.structure = fmt::format(
          "expected whole Ogg pages, found a damaged or truncated one at byte {} of {}", at, bytes.size());
      break;
    }
    last = (static_cast<unsigned>(header[5]) & 4) != 0;
    const auto head = bytes.subspan(at, reader.position() - at - content.size());
    if (damage.contents.empty() && !has_right_checksum(head, content))
      damage.contents =
          fmt::format("expected Ogg pages that match their checksums, found another at byte {}", at);
  }
  if (damage.contents.empty() && !last)
    damage.contents = "expected an Ogg page that says that it is the last, found none: the file is truncated";
  return damage;
}

size_t read_bytes(void* out, size_t size, size_t count, void* data) {
  auto& rest = *static_cast<std::span<const std::byte>*>(data);
  const size_t bytes = std::min(size * count, rest.size());
  std::memcpy(out, rest.data(), bytes);
  rest = rest.subspan(bytes);
  return size == 0 ? 0 : bytes / size;
}

class VorbisDecoder final : public AudioDecoder {
public:
  VorbisDecoder(std::span<const std::byte> bytes, AudioSink& sink)
      : rest_(bytes), bytes_(bytes.size()), sink_(sink) {}
  ~VorbisDecoder() override { ov_clear(&file_); }

  bool open() {
    const int opened = ov_open_callbacks(&rest_, &file_, nullptr, 0, {read_bytes, nullptr, nullptr, nullptr});
    if (opened == 0) return true;
    sink_.fail(Code::invalid_file, fmt::format("expected Vorbis headers, found damaged ones ({})", opened));
    return false;
  }

  bool decode_more() override {
    float** channels = nullptr;
    const long count = ov_read_float(&file_, &channels, 4096, nullptr);
    if (count == 0) return false;
    if (count < 0) {
      sink_.damage(fmt::format("expected whole Vorbis packets, found a damaged one after {} samples ({})",
                               sink_.count(), count));
      return count == OV_HOLE; // what follows is whole
    }
    const vorbis_info* info = ov_info(&file_, -1);
    return info && sink_.start(static_cast<uint64_t>(info->rate), static_cast<uint64_t>(info->channels)) &&
           sink_.add(static_cast<size_t>(count), 1,
                     [&](size_t frame, size_t channel) { return channels[channel][frame]; });
  }

  uint64_t position() const override { return bytes_ - rest_.size(); }

private:
  std::span<const std::byte> rest_;
  uint64_t bytes_; // of the file
  AudioSink& sink_;
  OggVorbis_File file_{};
};

// By the first page, which names the codec.
std::unique_ptr<AudioDecoder> open_codec(std::span<const std::byte> bytes, AudioSink& sink) {
  ByteReader reader(bytes);
  std::span<const std::byte> header, content;
  take_page(reader, header, content);
  const std::string_view kind = as_text(content);
  if (kind.starts_with("\x01vorbis")) {
    auto decoder = std::make_unique<VorbisDecoder>(bytes, sink);
    if (!decoder->open()) return nullptr;
    return decoder;
  }
  if (kind.starts_with("\x7F"
                       "FLAC"))
    return open_ogg_flac(bytes, sink);
  if (kind.starts_with("OpusHead")) return open_opus(bytes, sink);
  sink.fail(Code::unsupported,
            fmt::format("expected Vorbis, Opus or FLAC in the Ogg file, found a stream that begins with {}",
                        in_quotes(kind, 16)));
  return nullptr;
}

} // namespace

bool is_ogg(std::span<const std::byte> bytes) {
  return as_text(bytes).starts_with("OggS");
}

std::unique_ptr<AudioDecoder> open_ogg(std::span<const std::byte> bytes, AudioSink& sink) {
  const PageDamage damage = damage_of_pages(bytes);
  if (!damage.structure.empty()) sink.damage(damage.structure);
  std::unique_ptr<AudioDecoder> decoder = open_codec(bytes, sink);
  if (decoder && !damage.contents.empty()) sink.damage(damage.contents);
  return decoder;
}

} // namespace pumice
