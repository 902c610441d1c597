#include "media/audio_formats.h"

#include "io/bytes.h"

#include <fmt/format.h>

namespace pumice {

namespace {

enum : uint16_t { pcm = 1, floating = 3, a_law = 6, mu_law = 7, extensible = 0xFFFE };

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
  if (format.tag == extensible && !(reader.take(8, skipped) && reader.read(format.tag))) return false;
  // Whole numbers of 12 or 20 bits are the upper ones of 16 or 24.
  const auto bytes = static_cast<uint16_t>((format.bits + 7) / 8);
  if (format.tag == pcm && format.frame_bytes == format.channels * bytes)
    format.bits = static_cast<uint16_t>(bytes * 8);
  return true;
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

// Telephone samples of 8 bits (ITU-T G.711), which are a sign, an exponent and a mantissa.
int from_mu_law(const std::byte* at) {
  const int code = ~static_cast<int>(*at), size = (((code & 15) << 3) + 132) << (code >> 4 & 7);
  return code & 128 ? 132 - size : size - 132;
}

int from_a_law(const std::byte* at) {
  const int code = static_cast<int>(*at) ^ 0x55, exponent = code >> 4 & 7, mantissa = (code & 15) << 4;
  const int size = exponent == 0 ? mantissa + 8 : (mantissa + 264) << (exponent - 1);
  return code & 128 ? size : -size;
}

// Of WAVE_FORMAT_*, those that are met.
std::string name_of(uint16_t tag) {
  switch (tag) {
  case pcm:
    return "PCM";
  case floating:
    return "floating point";
  case mu_law:
  case a_law:
    return "mu-law or A-law";
  case 0x02:
    return "Microsoft ADPCM";
  case 0x11:
    return "IMA ADPCM";
  case 0x31:
    return "GSM 6.10";
  case 0x40:
  case 0x45:
  case 0x64:
    return "G.726";
  case 0x50:
  case 0x55:
    return "MP3";
  case 0xFF:
  case 0x1610:
    return "AAC";
  case 0x160:
  case 0x161:
  case 0x162:
    return "WMA";
  case 0x2000:
    return "AC-3";
  default:
    return fmt::format("format {}", tag);
  }
}

constexpr size_t piece_frames = 1 << 16; // that are converted at a time

class WavDecoder final : public AudioDecoder {
public:
  // `chunks`: the data, parts of `bytes`.
  WavDecoder(const Format& format, std::span<const std::byte> bytes,
             std::vector<std::span<const std::byte>> chunks, AudioSink& sink)
      : format_(format), bytes_(bytes), chunks_(std::move(chunks)), sink_(sink) {
    for (const std::span<const std::byte>& chunk : chunks_) announced_ += chunk.size() / format.frame_bytes;
  }

  // The error of a format that cannot be read.
  static bool check(const Format& format, AudioSink& sink) {
    if (!sink.start(format.rate, format.channels)) return false;
    const bool whole = format.tag == pcm && format.bits <= 32;
    const bool of_telephones = (format.tag == mu_law || format.tag == a_law) && format.bits == 8;
    const bool floats = format.tag == floating && (format.bits == 32 || format.bits == 64);
    if (!whole && !of_telephones && !floats) {
      const bool sized =
          format.tag == pcm || format.tag == floating || format.tag == mu_law || format.tag == a_law;
      sink.fail(
          Code::unsupported,
          fmt::format("fmt chunk: expected PCM of 8, 16, 24 or 32 bits, floating point of 32 or 64, mu-law "
                      "or A-law, found {}{}: {}",
                      name_of(format.tag), sized ? fmt::format(" of {} bits", format.bits) : "",
                      conversion_hint));
    } else if (format.bits % 8 != 0 || format.bits == 0 ||
               format.frame_bytes != format.channels * (format.bits / 8)) {
      sink.fail(Code::invalid_file,
                fmt::format("fmt chunk: expected samples of {} channels of {} bits each, found {} bytes",
                            format.channels, format.bits, format.frame_bytes));
    }
    return !sink.failed();
  }

  bool decode_more() override {
    while (next_ < chunks_.size()) {
      std::span<const std::byte>& chunk = chunks_[next_];
      const size_t frames = std::min(piece_frames, chunk.size() / format_.frame_bytes);
      const std::span<const std::byte> piece = chunk.first(frames * format_.frame_bytes);
      chunk = chunk.subspan(piece.size());
      if (frames > 0) return add(piece);
      ++next_;
    }
    return false;
  }
  uint64_t announced() const override { return announced_; }
  uint64_t position() const override {
    return next_ < chunks_.size() ? static_cast<uint64_t>(chunks_[next_].data() - bytes_.data())
                                  : bytes_.size();
  }

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
    if (format_.tag == mu_law) return add_samples(piece, 1.0F / 32768, from_mu_law);
    if (format_.tag == a_law) return add_samples(piece, 1.0F / 32768, from_a_law);
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
  std::span<const std::byte> bytes_;               // of the file
  std::vector<std::span<const std::byte>> chunks_; // what is left of them
  size_t next_ = 0;                                // of those
  AudioSink& sink_;
  uint64_t announced_ = 0;
};

// Bytes of a data chunk whose header says `size`, where `left` are left of the file. `finished`: the writer
// filled its header in.
uint64_t data_size(uint32_t size, uint64_t left, bool finished, AudioSink& sink) {
  if (size == UINT32_MAX) return left;
  if (size == 0 && left > 0 && !finished) {
    sink.damage("expected the size of the data chunk, found 0: the file was not written to its end");
    return left;
  }
  if (size > left && size < unknown_length)
    sink.damage(
        fmt::format("expected {} bytes in chunk 'data', found {}: the file is truncated", size, left));
  return std::min<uint64_t>(size, left);
}

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
  ByteReader reader(bytes.subspan(4));
  std::optional<Format> format;
  std::vector<std::span<const std::byte>> data;
  std::span<const std::byte> id, chunk;
  uint32_t size = 0;
  reader.read(size);
  reader.take(4, id);
  const bool finished = (uint64_t{size} + 9) / 2 == (bytes.size() + 1) / 2; // with or without padding
  while (reader.take(4, id) && reader.read(size)) {
    const bool is_data = as_text(id) == "data";
    if (is_data && !format) return refused(sink, Code::invalid_file, "expected a fmt chunk before the data");
    const uint64_t wanted = is_data ? data_size(size, reader.remaining(), finished, sink) : size;
    if (!reader.take(wanted, chunk)) {
      if (!data.empty()) break; // of what follows the sound, nothing is missed
      return refused(sink, Code::invalid_file,
                     fmt::format("expected {} bytes in chunk {}, found {}: the file is truncated", size,
                                 in_quotes(as_text(id)), reader.remaining()));
    }
    const bool is_format = as_text(id) == "fmt " && !format;
    if (wanted % 2 == 1) reader.take(1, id); // chunks begin at even offsets
    if (is_data) data.push_back(chunk);
    if (!is_format) continue;
    format.emplace();
    if (!read_format(chunk, *format))
      return refused(
          sink, Code::invalid_file,
          fmt::format("fmt chunk: expected at least 16 bytes, or 26 where they are extensible, found {}",
                      size));
    if (!WavDecoder::check(*format, sink)) return nullptr;
  }
  if (data.empty()) return refused(sink, Code::invalid_file, "expected a data chunk, found none");
  return std::make_unique<WavDecoder>(*format, bytes, std::move(data), sink);
}

} // namespace pumice
