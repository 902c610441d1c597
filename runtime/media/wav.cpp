#include "media/audio_formats.h"

#include "io/bytes.h"

#include <fmt/format.h>

namespace pumice {

namespace {

enum : uint16_t { pcm = 1, floating = 3, extensible = 0xFFFE };

struct Format {
  uint16_t tag = 0;
  uint16_t channels = 0;
  uint32_t rate = 0;
  uint32_t bytes_a_second = 0;
  uint16_t frame_bytes = 0; // a frame is one sample of each channel
  uint16_t bits = 0;
};

// Writers to a pipe do not know the length and write the largest number, or nearly the largest.
constexpr uint32_t unknown_length = 0x7FFF'0000;

bool read_format(std::span<const std::byte> chunk, Format& format) {
  ByteReader reader(chunk);
  if (!reader.read(format.tag) || !reader.read(format.channels) || !reader.read(format.rate) ||
      !reader.read(format.bytes_a_second) || !reader.read(format.frame_bytes) || !reader.read(format.bits))
    return false;
  std::span<const std::byte> skipped;
  // The extension's size, valid bits and speaker positions come before the real format tag.
  return format.tag != extensible || (reader.take(8, skipped) && reader.read(format.tag));
}

template <class T>
T number(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

int32_t number_of_24_bits(const std::byte* bytes) {
  const uint32_t upper = static_cast<uint32_t>(bytes[0]) << 8 | static_cast<uint32_t>(bytes[1]) << 16 |
                         static_cast<uint32_t>(bytes[2]) << 24;
  return static_cast<int32_t>(upper) >> 8;
}

constexpr size_t piece_frames = 1 << 16; // that are converted at a time

class WavDecoder final : public AudioDecoder {
public:
  // `begin`: where the data begins in the file.
  WavDecoder(const Format& format, std::span<const std::byte> data, uint64_t begin, AudioSink& sink)
      : format_(format), data_(data.first(data.size() / format.frame_bytes * format.frame_bytes)),
        end_(begin + data_.size()), sink_(sink), announced_(data_.size() / format.frame_bytes) {}

  // The error of a format that cannot be read.
  static bool check(const Format& format, AudioSink& sink) {
    if (!sink.start(format.rate, format.channels)) return false;
    if (format.bits % 8 != 0 || format.frame_bytes != format.channels * (format.bits / 8)) {
      sink.fail(Code::invalid_file,
                fmt::format("fmt chunk: expected samples of {} channels of {} bits each, found {} bytes",
                            format.channels, format.bits, format.frame_bytes));
      return false;
    }
    const bool whole = format.tag == pcm && format.bits >= 8 && format.bits <= 32;
    if (whole || (format.tag == floating && (format.bits == 32 || format.bits == 64))) return true;
    sink.fail(Code::unsupported, fmt::format("fmt chunk: expected PCM of 8, 16, 24 or 32 bits or floating "
                                             "point of 32 or 64, found format {} of {} bits",
                                             format.tag, format.bits));
    return false;
  }

  bool decode_more() override {
    const size_t frames = std::min(piece_frames, data_.size() / format_.frame_bytes);
    if (frames == 0) return false;
    const std::span<const std::byte> piece = data_.first(frames * format_.frame_bytes);
    data_ = data_.subspan(piece.size());
    return add(piece);
  }
  uint64_t announced() const override { return announced_; }
  uint64_t position() const override { return end_ - data_.size(); }

private:
  template <class Read>
  bool add_samples(std::span<const std::byte> piece, float scale, Read read) {
    const size_t width = format_.bits / 8;
    return sink_.add(piece.size() / format_.frame_bytes, scale, [&](size_t frame, size_t channel) {
      return read(piece.data() + frame * format_.frame_bytes + channel * width);
    });
  }

  bool add(std::span<const std::byte> piece) {
    if (format_.tag == floating)
      return format_.bits == 32 ? add_samples(piece, 1, number<float>)
                                : add_samples(piece, 1, number<double>);
    switch (format_.bits) {
    case 8:
      return add_samples(piece, 1.0F / 128, [](const std::byte* at) { return static_cast<int>(*at) - 128; });
    case 16:
      return add_samples(piece, 1.0F / 32768, number<int16_t>);
    case 24:
      return add_samples(piece, 1.0F / 8388608, number_of_24_bits);
    default:
      return add_samples(piece, 1.0F / 2147483648.0F, number<int32_t>);
    }
  }

  Format format_;
  std::span<const std::byte> data_; // that is left
  uint64_t end_;                    // in the file
  AudioSink& sink_;
  uint64_t announced_;
};

std::unique_ptr<AudioDecoder> refused(AudioSink& sink, Code code, const std::string& what) {
  sink.fail(code, what);
  return nullptr;
}

} // namespace

bool is_wav(std::span<const std::byte> bytes) {
  const std::string_view text = as_text(bytes);
  return text.size() >= 12 && (text.starts_with("RIFF") || text.starts_with("RF64")) &&
         text.substr(8, 4) == "WAVE";
}

std::unique_ptr<AudioDecoder> open_wav(std::span<const std::byte> bytes, AudioSink& sink) {
  ByteReader reader(bytes.subspan(12));
  const bool large = as_text(bytes).starts_with("RF64"); // a chunk of its own gives sizes above 4 GiB
  std::optional<Format> format;
  std::span<const std::byte> id, chunk;
  uint32_t size = 0;
  while (reader.take(4, id) && reader.read(size)) {
    const bool data = as_text(id) == "data";
    if (size > reader.remaining()) {
      if (!data || (size < unknown_length && !large))
        return refused(sink, Code::invalid_file,
                       fmt::format("expected {} bytes in chunk {}, found {}: the file is truncated", size,
                                   in_quotes(as_text(id)), reader.remaining()));
      size = static_cast<uint32_t>(std::min<uint64_t>(reader.remaining(), UINT32_MAX));
      if (reader.remaining() > UINT32_MAX)
        return refused(sink, Code::unsupported, "expected a data chunk below 4 GiB");
    }
    reader.take(size, chunk);
    if (size % 2 == 1 && reader.remaining() > 0) reader.take(1, id); // chunks begin at even offsets
    if (data) {
      if (!format) return refused(sink, Code::invalid_file, "expected a fmt chunk before the data");
      if (!WavDecoder::check(*format, sink)) return nullptr;
      return std::make_unique<WavDecoder>(*format, chunk, static_cast<uint64_t>(chunk.data() - bytes.data()),
                                          sink);
    }
    if (as_text(id) == "fmt ") {
      format.emplace();
      if (!read_format(chunk, *format))
        return refused(
            sink, Code::invalid_file,
            fmt::format("fmt chunk: expected at least 16 bytes, or 26 where they are extensible, found {}",
                        size));
    }
  }
  return refused(sink, Code::invalid_file, "expected a data chunk, found none");
}

} // namespace pumice
