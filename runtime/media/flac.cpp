#include "media/audio_formats.h"

#include "io/bytes.h"

#include <FLAC/stream_decoder.h>
#include <fmt/format.h>

#include <memory>

namespace pumice {

namespace {

struct Reading {
  std::span<const std::byte> rest;
  AudioSink& sink;
  uint64_t announced = 0; // samples a channel; 0 where the file does not say

  bool complete() const { return announced != 0 && sink.count() >= announced; }
};

FLAC__StreamDecoderReadStatus read_bytes(const FLAC__StreamDecoder*, FLAC__byte out[], size_t* count,
                                         void* data) {
  auto& reading = *static_cast<Reading*>(data);
  *count = std::min(*count, reading.rest.size());
  std::memcpy(out, reading.rest.data(), *count);
  reading.rest = reading.rest.subspan(*count);
  return *count == 0 ? FLAC__STREAM_DECODER_READ_STATUS_END_OF_STREAM
                     : FLAC__STREAM_DECODER_READ_STATUS_CONTINUE;
}

FLAC__StreamDecoderWriteStatus take_samples(const FLAC__StreamDecoder*, const FLAC__Frame* frame,
                                            const FLAC__int32* const buffer[], void* data) {
  auto& reading = *static_cast<Reading*>(data);
  const auto& header = frame->header;
  const float scale = 1.0F / static_cast<float>(uint64_t{1} << (header.bits_per_sample - 1));
  const bool taken = reading.sink.start(header.sample_rate, header.channels) &&
                     reading.sink.add(header.blocksize, scale,
                                      [&](size_t index, size_t channel) { return buffer[channel][index]; });
  return taken ? FLAC__STREAM_DECODER_WRITE_STATUS_CONTINUE : FLAC__STREAM_DECODER_WRITE_STATUS_ABORT;
}

void take_metadata(const FLAC__StreamDecoder*, const FLAC__StreamMetadata* metadata, void* data) {
  if (metadata->type == FLAC__METADATA_TYPE_STREAMINFO)
    static_cast<Reading*>(data)->announced = metadata->data.stream_info.total_samples;
}

// Data after the last sample, such as a tag of another format, is ignored.
void on_error(const FLAC__StreamDecoder*, FLAC__StreamDecoderErrorStatus status, void* data) {
  auto& reading = *static_cast<Reading*>(data);
  if (!reading.complete())
    reading.sink.damage(fmt::format("expected whole FLAC frames, found a damaged one after {} samples ({})",
                                    reading.sink.count(), FLAC__StreamDecoderErrorStatusString[status]));
}

class FlacDecoder final : public AudioDecoder {
public:
  FlacDecoder(std::span<const std::byte> bytes, AudioSink& sink)
      : reading_{bytes, sink}, bytes_(bytes.size()),
        decoder_(FLAC__stream_decoder_new(), FLAC__stream_decoder_delete) {}

  bool open(bool in_ogg) {
    FLAC__StreamDecoder* decoder = decoder_.get();
    if (!decoder) {
      reading_.sink.fail(Code::out_of_memory, "libFLAC cannot be initialised");
      return false;
    }
    FLAC__stream_decoder_set_md5_checking(decoder, true);
    const auto start = in_ogg ? FLAC__stream_decoder_init_ogg_stream : FLAC__stream_decoder_init_stream;
    if (start(decoder, read_bytes, nullptr, nullptr, nullptr, nullptr, take_samples, take_metadata, on_error,
              &reading_) == FLAC__STREAM_DECODER_INIT_STATUS_OK)
      return true;
    reading_.sink.fail(Code::unsupported, "this build's libFLAC does not read such a file");
    return false;
  }

  bool decode_more() override {
    if (ended_) return false;
    FLAC__StreamDecoder* decoder = decoder_.get();
    if (!reading_.sink.failed() && !reading_.complete() && FLAC__stream_decoder_process_single(decoder) &&
        FLAC__stream_decoder_get_state(decoder) != FLAC__STREAM_DECODER_END_OF_STREAM)
      return true;
    finish();
    return false;
  }
  uint64_t announced() const override { return reading_.announced; }
  uint64_t position() const override { return bytes_ - reading_.rest.size(); }

private:
  void finish() {
    ended_ = true;
    AudioSink& sink = reading_.sink;
    const auto state = FLAC__stream_decoder_get_state(decoder_.get());
    if (!reading_.complete() && state != FLAC__STREAM_DECODER_END_OF_STREAM)
      sink.damage(fmt::format("expected a FLAC stream, found a damaged one ({})",
                              FLAC__StreamDecoderStateString[state]));
    if (reading_.announced != 0 && sink.count() < reading_.announced)
      sink.damage(fmt::format("expected {} samples, found {}: the file is truncated", reading_.announced,
                              sink.count()));
    if (!FLAC__stream_decoder_finish(decoder_.get()))
      sink.damage("expected samples that match the file's checksum, found others");
  }

  Reading reading_;
  uint64_t bytes_; // of the file
  std::unique_ptr<FLAC__StreamDecoder, void (*)(FLAC__StreamDecoder*)> decoder_;
  bool ended_ = false;
};

std::unique_ptr<AudioDecoder> open_stream(std::span<const std::byte> bytes, AudioSink& sink, bool in_ogg) {
  auto decoder = std::make_unique<FlacDecoder>(bytes, sink);
  if (!decoder->open(in_ogg)) return nullptr;
  return decoder;
}

} // namespace

bool is_flac(std::span<const std::byte> bytes) {
  return as_text(bytes).starts_with("fLaC");
}

std::unique_ptr<AudioDecoder> open_flac(std::span<const std::byte> bytes, AudioSink& sink) {
  return open_stream(bytes, sink, false);
}

std::unique_ptr<AudioDecoder> open_ogg_flac(std::span<const std::byte> bytes, AudioSink& sink) {
  return open_stream(bytes, sink, true);
}

} // namespace pumice
