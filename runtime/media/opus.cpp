#include "media/audio_formats.h"

#ifdef PUMICE_OPUS
#include <opus/opusfile.h>
#endif

#include <cstring>

#include <fmt/format.h>

namespace pumice {

#ifdef PUMICE_OPUS

namespace {

constexpr uint32_t opus_rate = 48000; // of every file, whatever was recorded
constexpr int most_samples = 5760;    // of a packet, a channel
constexpr int most_channels = 8;

int read_bytes(void* data, unsigned char* out, int count) {
  auto& rest = *static_cast<std::span<const std::byte>*>(data);
  const size_t bytes = std::min(static_cast<size_t>(std::max(count, 0)), rest.size());
  std::memcpy(out, rest.data(), bytes);
  rest = rest.subspan(bytes);
  return static_cast<int>(bytes);
}

class OpusFileDecoder final : public AudioDecoder {
public:
  OpusFileDecoder(std::span<const std::byte> bytes, AudioSink& sink)
      : rest_(bytes), bytes_(bytes.size()), sink_(sink) {}
  ~OpusFileDecoder() override { op_free(file_); }

  bool open() {
    const OpusFileCallbacks callbacks = {read_bytes, nullptr, nullptr, nullptr};
    int error = 0;
    file_ = op_open_callbacks(&rest_, &callbacks, nullptr, 0, &error);
    if (file_) return true;
    sink_.fail(Code::invalid_file, fmt::format("expected Opus headers, found damaged ones ({})", error));
    return false;
  }

  bool decode_more() override {
    int link = 0;
    const int count = op_read_float(file_, samples_, most_samples * most_channels, &link);
    if (count == 0) return false;
    if (count < 0) {
      sink_.damage(fmt::format("expected whole Opus packets, found a damaged one after {} samples ({})",
                               sink_.count(), count));
      return count == OP_HOLE; // what follows is whole
    }
    const auto channels = static_cast<size_t>(op_channel_count(file_, link));
    return sink_.start(opus_rate, channels) &&
           sink_.add(static_cast<size_t>(count), 1,
                     [&](size_t frame, size_t channel) { return samples_[frame * channels + channel]; });
  }
  uint64_t position() const override { return bytes_ - rest_.size(); }

private:
  std::span<const std::byte> rest_;
  uint64_t bytes_; // of the file
  AudioSink& sink_;
  OggOpusFile* file_ = nullptr;
  float samples_[most_samples * most_channels];
};

} // namespace

std::unique_ptr<AudioDecoder> open_opus(std::span<const std::byte> bytes, AudioSink& sink) {
  auto decoder = std::make_unique<OpusFileDecoder>(bytes, sink);
  if (!decoder->open()) return nullptr;
  return decoder;
}

#else

std::unique_ptr<AudioDecoder> open_opus(std::span<const std::byte>, AudioSink& sink) {
  sink.fail(
      Code::unsupported,
      fmt::format("expected Vorbis or FLAC in the Ogg file, found Opus, which this build cannot read: build "
                  "it with libopusfile, or {}",
                  conversion_hint));
  return nullptr;
}

#endif

} // namespace pumice
