#include "media/audio.h"

#include "media/resample.h"
#include "support/command/messages.h"
#include "support/files/byte_writer.h"
#include "support/files/temporary_folder.h"

#include <chrono>
#include <cmath>
#include <limits>
#include <numbers>

#include <FLAC/stream_encoder.h>
#include <doctest/doctest.h>
#ifdef PUMICE_OPUS
#include <opus/opus.h>
#endif
#include <vorbis/vorbisenc.h>

using namespace pumice;

namespace {

struct Wav {
  uint16_t tag = 1, channels = 1;
  uint32_t rate = 16000;
  uint16_t bits = 16;
  int frame = -1;         // -1: computed from the channels and bits
  int64_t data_size = -1; // -1: the real size
  bool extensible = false, odd_chunk = false;

  template <class T>
  std::vector<std::byte> bytes(const std::vector<T>& samples) const {
    const std::span<const std::byte> data = std::as_bytes(std::span(samples));
    ByteWriter chunk;
    chunk.number<uint16_t>(extensible ? 0xFFFE : tag).number(channels).number(rate);
    chunk.number<uint32_t>(rate * channels * bits / 8)
        .number<uint16_t>(static_cast<uint16_t>(frame < 0 ? channels * bits / 8 : frame));
    chunk.number(bits);
    if (extensible)
      chunk.number<uint16_t>(22).number(bits).number<uint32_t>(0).number(tag).text(
          "\x00\x00\x00\x00\x10\x00\x80");
    ByteWriter out;
    out.text("RIFF").number<uint32_t>(0).text("WAVE");
    if (odd_chunk) out.text("LIST").number<uint32_t>(3).text("abc").number<uint8_t>(0);
    out.text("fmt ").number<uint32_t>(static_cast<uint32_t>(chunk.size())).raw(chunk.bytes());
    out.text("data")
        .number<uint32_t>(static_cast<uint32_t>(data_size < 0 ? data.size() : data_size))
        .raw(data);
    return out.bytes();
  }
};

Audio parsed(const std::vector<std::byte>& bytes) {
  auto audio = parse_audio(bytes, "some.wav");
  REQUIRE_MESSAGE(audio.ok(), says(audio, {}));
  return *audio;
}

std::vector<float> tone(uint32_t rate, size_t count, double hertz) {
  std::vector<float> samples(count);
  for (size_t i = 0; i < count; ++i)
    samples[i] =
        static_cast<float>(0.5 * std::sin(2 * std::numbers::pi * hertz * static_cast<double>(i) / rate));
  return samples;
}

std::vector<std::byte> flac_of(const std::vector<int32_t>& interleaved, uint32_t channels, uint32_t rate,
                               uint32_t bits, bool ogg = false) {
  std::vector<std::byte> bytes;
  size_t position = 0;
  struct State {
    std::vector<std::byte>* bytes;
    size_t* position;
  } state{&bytes, &position};
  FLAC__StreamEncoder* encoder = FLAC__stream_encoder_new();
  FLAC__stream_encoder_set_channels(encoder, channels);
  FLAC__stream_encoder_set_sample_rate(encoder, rate);
  FLAC__stream_encoder_set_bits_per_sample(encoder, bits);
  FLAC__stream_encoder_set_blocksize(encoder, 256);
  const auto write = [](const FLAC__StreamEncoder*, const FLAC__byte more[], size_t count, uint32_t, uint32_t,
                        void* data) {
    auto& out = *static_cast<State*>(data);
    if (out.bytes->size() < *out.position + count) out.bytes->resize(*out.position + count);
    std::memcpy(out.bytes->data() + *out.position, more, count);
    *out.position += count;
    return FLAC__STREAM_ENCODER_WRITE_STATUS_OK;
  };
  const auto seek = [](const FLAC__StreamEncoder*, FLAC__uint64 to, void* data) {
    *static_cast<State*>(data)->position = static_cast<size_t>(to);
    return FLAC__STREAM_ENCODER_SEEK_STATUS_OK;
  };
  const auto tell = [](const FLAC__StreamEncoder*, FLAC__uint64* at, void* data) {
    *at = *static_cast<State*>(data)->position;
    return FLAC__STREAM_ENCODER_TELL_STATUS_OK;
  };
  const auto started =
      ogg ? FLAC__stream_encoder_init_ogg_stream(encoder, nullptr, write, nullptr, nullptr, nullptr, &state)
          : FLAC__stream_encoder_init_stream(encoder, write, seek, tell, nullptr, &state);
  REQUIRE(started == FLAC__STREAM_ENCODER_INIT_STATUS_OK);
  REQUIRE(FLAC__stream_encoder_process_interleaved(encoder, interleaved.data(),
                                                   static_cast<uint32_t>(interleaved.size() / channels)));
  REQUIRE(FLAC__stream_encoder_finish(encoder));
  FLAC__stream_encoder_delete(encoder);
  return bytes;
}

void append(std::vector<std::byte>& out, const ogg_page& page) {
  const auto add = [&](const unsigned char* bytes, long count) {
    out.insert(out.end(), reinterpret_cast<const std::byte*>(bytes),
               reinterpret_cast<const std::byte*>(bytes) + count);
  };
  add(page.header, page.header_len);
  add(page.body, page.body_len);
}

std::vector<std::byte> vorbis_of(const std::vector<float>& samples, uint32_t rate) {
  vorbis_info info;
  vorbis_info_init(&info);
  REQUIRE(vorbis_encode_init_vbr(&info, 1, rate, 0.4F) == 0);
  vorbis_comment comment;
  vorbis_comment_init(&comment);
  vorbis_dsp_state dsp;
  vorbis_block block;
  vorbis_analysis_init(&dsp, &info);
  vorbis_block_init(&dsp, &block);
  ogg_stream_state stream;
  ogg_stream_init(&stream, 7);
  ogg_packet headers[3];
  vorbis_analysis_headerout(&dsp, &comment, &headers[0], &headers[1], &headers[2]);
  for (ogg_packet& header : headers) ogg_stream_packetin(&stream, &header);
  std::vector<std::byte> bytes;
  ogg_page page;
  while (ogg_stream_flush(&stream, &page)) append(bytes, page);
  float** buffer = vorbis_analysis_buffer(&dsp, static_cast<int>(samples.size()));
  std::copy(samples.begin(), samples.end(), buffer[0]);
  vorbis_analysis_wrote(&dsp, static_cast<int>(samples.size()));
  vorbis_analysis_wrote(&dsp, 0);
  ogg_packet packet;
  while (vorbis_analysis_blockout(&dsp, &block) == 1) {
    vorbis_analysis(&block, nullptr);
    vorbis_bitrate_addblock(&block);
    while (vorbis_bitrate_flushpacket(&dsp, &packet)) ogg_stream_packetin(&stream, &packet);
    while (ogg_stream_flush(&stream, &page)) append(bytes, page);
  }
  ogg_stream_clear(&stream);
  vorbis_block_clear(&block);
  vorbis_dsp_clear(&dsp);
  vorbis_comment_clear(&comment);
  vorbis_info_clear(&info);
  return bytes;
}

struct Heard {
  std::vector<float> samples; // 16000 a second
  std::string damage;
  double seconds = 0;
};

Heard heard(const std::vector<std::byte>& bytes, const std::string& name = "some.wav") {
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  auto stream = AudioStream::parse(text, name, 16000);
  REQUIRE_MESSAGE(stream.ok(), says(stream, {}));
  Heard result;
  for (size_t before = 1; before != result.samples.size();) {
    before = result.samples.size();
    (*stream)->read(1000, result.samples);
  }
  result.damage = (*stream)->damage();
  result.seconds = (*stream)->seconds();
  return result;
}

std::vector<std::byte> first(const std::vector<std::byte>& bytes, size_t count) {
  return {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count)};
}

} // namespace

TEST_CASE("wav: each kind of sample") {
  using Floats = std::vector<float>;
  CHECK(parsed(Wav{}.bytes(std::vector<int16_t>{0, 16384, -32768})).samples == Floats{0, 0.5F, -1});
  CHECK(parsed(Wav{.bits = 8}.bytes(std::vector<uint8_t>{128, 192, 0})).samples == Floats{0, 0.5F, -1});
  CHECK(parsed(Wav{.bits = 24}.bytes(std::vector<uint8_t>{0, 0, 0x40, 0, 0, 0x80})).samples ==
        Floats{0.5F, -1});
  CHECK(parsed(Wav{.bits = 32}.bytes(std::vector<int32_t>{1 << 30, INT32_MIN})).samples == Floats{0.5F, -1});
  CHECK(parsed(Wav{.tag = 3, .bits = 32}.bytes(Floats{0.25F, -2})).samples == Floats{0.25F, -2});
  CHECK(parsed(Wav{.tag = 3, .bits = 64}.bytes(std::vector<double>{0.25, -2})).samples == Floats{0.25F, -2});
  CHECK(parsed(Wav{.extensible = true}.bytes(std::vector<int16_t>{16384})).samples == Floats{0.5F});
  CHECK(parsed(Wav{.tag = 3, .bits = 32, .extensible = true}.bytes(Floats{0.25F})).samples == Floats{0.25F});
}

TEST_CASE("wav: channels are averaged, odd chunks padded, one sample is enough") {
  const Audio stereo =
      parsed(Wav{.channels = 2, .rate = 44100}.bytes(std::vector<int16_t>{16384, 0, -16384, -16384}));
  CHECK(stereo.rate == 44100);
  CHECK(stereo.samples == std::vector<float>{0.25F, -0.5F});
  CHECK(parsed(Wav{.odd_chunk = true}.bytes(std::vector<int16_t>{16384})).samples ==
        std::vector<float>{0.5F});
  CHECK(parsed(Wav{}.bytes(std::vector<int16_t>(100, 0))).samples == std::vector<float>(100, 0.0F));
  // The last frame is incomplete; the frames before it are read.
  CHECK(parsed(Wav{.channels = 2}.bytes(std::vector<int16_t>{1, 2, 3})).samples.size() == 1);
}

TEST_CASE("wav: an unknown length means to the end of the file, a wrong one is an error") {
  const std::vector<int16_t> samples = {1, 2, 3};
  CHECK(parsed(Wav{.data_size = 0xFFFFFFFF}.bytes(samples)).samples.size() == 3);
  CHECK(parsed(Wav{.data_size = 0x7FFFFFFF}.bytes(samples)).samples.size() == 3);
  CHECK(says(parse_audio(Wav{.data_size = 100}.bytes(samples), "cut.wav"),
             {"cut.wav", "100 bytes", "found 6", "truncated"}) == "");
  const std::vector<std::byte> whole = Wav{.extensible = true, .odd_chunk = true}.bytes(samples);
  for (size_t length = 0; length < whole.size(); ++length)
    CHECK_MESSAGE(says(parse_audio(first(whole, length), "cut.wav"), {"cut.wav"}) == "", "at ", length);
}

TEST_CASE("wav: hostile headers are refused") {
  const std::vector<int16_t> samples(64, 1);
  CHECK(says(parse_audio(Wav{.rate = 0}.bytes(samples), "x.wav"), {"x.wav", "1000 to 1000000", "found 0"}) ==
        "");
  CHECK(says(parse_audio(Wav{.rate = 0xFFFFFFFF}.bytes(samples), "x.wav"), {"4294967295"}) == "");
  CHECK(says(parse_audio(Wav{.channels = 0}.bytes(samples), "x.wav"), {"channels", "found 0"}) == "");
  CHECK(says(parse_audio(Wav{.channels = 65535}.bytes(samples), "x.wav"), {"channels", "found 65535"}) == "");
  CHECK(says(parse_audio(Wav{.frame = 0}.bytes(samples), "x.wav"), {"fmt chunk", "found 0"}) == "");
  CHECK(says(parse_audio(Wav{.frame = 1}.bytes(samples), "x.wav"), {"fmt chunk", "found 1"}) == "");
  CHECK(says(parse_audio(Wav{.bits = 0}.bytes(samples), "x.wav"), {"of 0 bits"}) == "");
  CHECK(says(parse_audio(Wav{.bits = 12}.bytes(samples), "x.wav"), {"12 bits"}) == "");
  CHECK(says(parse_audio(Wav{.tag = 9, .bits = 8}.bytes(samples), "x.wav"), {"format 9", "ffmpeg"}) == "");
  CHECK(says(parse_audio(Wav{.tag = 2, .bits = 4}.bytes(samples), "x.wav"), {"ADPCM", "ffmpeg"}) == "");
  CHECK(says(parse_audio(Wav{.tag = 0x31, .bits = 0}.bytes(samples), "x.wav"), {"GSM", "ffmpeg"}) == "");
  CHECK(says(parse_audio(Wav{}.bytes(std::vector<int16_t>{}), "x.wav"), {"x.wav", "none"}) == "");
  CHECK(says(parse_audio(Wav{}.bytes(samples), "x.wav", 63), {"at most 63 samples"}) == "");
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 1e30F})
    CHECK(says(parse_audio(Wav{.tag = 3, .bits = 32}.bytes(std::vector<float>{0, bad}), "x.wav"),
               {"x.wav", "finite samples", "at 1"}) == "");
}

TEST_CASE("flac: samples come back exactly, alone and in ogg") {
  std::vector<int32_t> samples;
  for (int i = 0; i < 3000; ++i) samples.push_back((i * 7919) % 65536 - 32768);
  for (const bool ogg : {false, true}) {
    const Audio audio = parsed(flac_of(samples, 2, 22050, 16, ogg));
    CHECK(audio.rate == 22050);
    REQUIRE(audio.samples.size() == 1500);
    for (size_t i = 0; i < 1500; ++i)
      CHECK(audio.samples[i] ==
            (static_cast<float>(samples[2 * i]) + static_cast<float>(samples[2 * i + 1])) / 65536);
  }
  CHECK(parsed(flac_of({1 << 22}, 1, 16000, 24)).samples == std::vector<float>{0.5F});
}

TEST_CASE("flac: damaged and truncated files are errors, a foreign tag at the end is not") {
  std::vector<int32_t> samples;
  for (int i = 0; i < 1000; ++i) samples.push_back((i * 7919) % 2000);
  std::vector<std::byte> whole = flac_of(samples, 1, 16000, 16);
  for (size_t length = 0; length < whole.size(); length += 7)
    CHECK_MESSAGE(says(parse_audio(first(whole, length), "cut.flac"), {"cut.flac"}) == "", "at ", length);
  std::vector<std::byte> flipped = whole;
  flipped[whole.size() - 100] ^= std::byte{64};
  CHECK(says(parse_audio(flipped, "bad.flac"), {"bad.flac"}) == "");
  whole.resize(whole.size() + 128, std::byte{'T'});
  CHECK(parsed(whole).samples.size() == 1000);
  CHECK(says(parse_audio(whole, "long.flac", 999), {"long.flac", "at most 999"}) == "");
}

TEST_CASE("a tag of ID3 before a sound is left out, and does not make an MP3 of it") {
  using namespace std::string_view_literals;
  const auto tagged = [](std::string_view head, size_t size, const std::vector<std::byte>& sound) {
    std::vector<std::byte> bytes(std::max(head.size(), size));
    std::memcpy(bytes.data(), head.data(), head.size());
    bytes.insert(bytes.end(), sound.begin(), sound.end());
    return bytes;
  };
  const std::vector<std::byte> flac = flac_of({1 << 14, 0, 1 << 13}, 1, 16000, 16);
  CHECK(parsed(tagged("ID3\x04\0\0\0\0\x01\x02"sv, 10 + 130, flac)).samples.size() == 3);
  CHECK(parsed(tagged("ID3\x04\0\x10\0\0\0\x05"sv, 10 + 5 + 10, flac)).samples.size() == 3); // a footer
  CHECK(parsed(tagged("ID3\x03\0\0\0\0\0\0"sv, 10, Wav{}.bytes(std::vector<int16_t>{16384}))).samples ==
        std::vector<float>{0.5F});
  CHECK(says(parse_audio(tagged("ID3\x03\0\0\0\0\x7F\x7F"sv, 10, {}), "x.mp3"), {"x.mp3", "MP3"}) == "");
}

TEST_CASE("wav: whole numbers of 12 and 20 bits are the upper ones of their bytes") {
  CHECK(parsed(Wav{.bits = 12, .frame = 2}.bytes(std::vector<int16_t>{16384, -32768})).samples ==
        std::vector<float>{0.5F, -1});
  CHECK(parsed(Wav{.bits = 20, .frame = 3}.bytes(std::vector<uint8_t>{0, 0, 0x40})).samples ==
        std::vector<float>{0.5F});
  CHECK(says(parse_audio(Wav{.bits = 64}.bytes(std::vector<int64_t>{1}), "x.wav"), {"PCM of 64 bits"}) == "");
}

TEST_CASE("vorbis: a tone is decoded nearly unchanged") {
  const std::vector<float> samples = tone(16000, 16000, 440);
  const std::vector<std::byte> bytes = vorbis_of(samples, 16000);
  const Audio audio = parsed(bytes);
  CHECK(audio.rate == 16000);
  REQUIRE(audio.samples.size() == samples.size());
  double error = 0;
  for (size_t i = 0; i < samples.size(); ++i) error += std::pow(audio.samples[i] - samples[i], 2);
  CHECK(std::sqrt(error / static_cast<double>(samples.size())) < 0.02);
  for (size_t length = 0; length < bytes.size(); length += 11) {
    const auto cut = parse_audio(first(bytes, length), "cut.ogg");
    if (cut.ok()) // cut at the end of a page, so the pages before are whole
      CHECK(cut->samples.size() < samples.size());
    else
      CHECK_MESSAGE(says(cut, {"cut.ogg"}) == "", "at ", length);
  }
}

#ifdef PUMICE_OPUS
namespace {

// Whole frames of 20 ms at 48 kHz, one channel (RFC 7845).
std::vector<std::byte> opus_of(const std::vector<float>& samples) {
  constexpr int frame = 960;
  constexpr uint16_t skipped = 312;
  int error = 0;
  OpusEncoder* encoder = opus_encoder_create(48000, 1, OPUS_APPLICATION_AUDIO, &error);
  REQUIRE(error == OPUS_OK);
  ogg_stream_state stream;
  ogg_stream_init(&stream, 7);
  std::vector<std::byte> bytes;
  ogg_page page;
  int64_t number = 0;
  const auto put = [&](std::span<const std::byte> packet, int64_t position, bool last) {
    ogg_packet next = {};
    next.packet = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(packet.data()));
    next.bytes = static_cast<long>(packet.size());
    next.b_o_s = number == 0;
    next.e_o_s = last;
    next.granulepos = position;
    next.packetno = number++;
    ogg_stream_packetin(&stream, &next);
    if (position == 0 || last || number % 10 == 0) {
      while (ogg_stream_flush(&stream, &page)) append(bytes, page);
    }
  };
  ByteWriter head, tags;
  head.text("OpusHead").number<uint8_t>(1).number<uint8_t>(1).number(skipped).number<uint32_t>(48000);
  head.number<uint16_t>(0).number<uint8_t>(0);
  tags.text("OpusTags").number<uint32_t>(4).text("test").number<uint32_t>(0);
  put(head.bytes(), 0, false);
  put(tags.bytes(), 0, false);
  for (size_t at = 0; at + frame <= samples.size(); at += frame) {
    std::vector<std::byte> packet(4000);
    const int size = opus_encode_float(encoder, samples.data() + at, frame,
                                       reinterpret_cast<unsigned char*>(packet.data()), 4000);
    REQUIRE(size > 0);
    packet.resize(static_cast<size_t>(size));
    put(packet, static_cast<int64_t>(at + frame), at + 2 * frame > samples.size());
  }
  ogg_stream_clear(&stream);
  opus_encoder_destroy(encoder);
  return bytes;
}

} // namespace

TEST_CASE("opus: a tone is decoded nearly unchanged") {
  const std::vector<float> samples = tone(48000, 48000, 440);
  const std::vector<std::byte> bytes = opus_of(samples);
  const Audio audio = parsed(bytes);
  CHECK(audio.rate == 48000);
  REQUIRE(audio.samples.size() == samples.size() - 312);
  double error = 0;
  for (size_t i = 2000; i < audio.samples.size(); ++i) error += std::pow(audio.samples[i] - samples[i], 2);
  CHECK(std::sqrt(error / 48000) < 0.02);
  for (size_t length = 0; length < bytes.size(); length += 11) {
    const auto cut = parse_audio(first(bytes, length), "cut.opus");
    CHECK_MESSAGE(says(cut, {"cut.opus"}) == "", "at ", length);
  }
}
#endif

TEST_CASE("ogg: errors name other streams and damaged pages") {
  ByteWriter page;
  page.text("OggS")
      .number<uint8_t>(0)
      .number<uint8_t>(2)
      .number<uint64_t>(0)
      .number<uint32_t>(1)
      .number<uint32_t>(0);
  page.number<uint32_t>(0).number<uint8_t>(1).number<uint8_t>(8).text("OpusHead");
  CHECK(says(parse_audio(page.bytes(), "x.opus"), {"x.opus", "Opus"}) == "");
  page.text("Ogg");
  CHECK(says(parse_audio(page.bytes(), "x.ogg"), {"x.ogg", "pages", "at byte 36"}) == "");
}

TEST_CASE("the error for a file that is not sound says what was found") {
  const TemporaryFolder folder;
  CHECK(says(read_audio(folder.write("notes.wav", "Dear diary, today")),
             {"notes.wav", "WAV, FLAC, Ogg or Opus", "Dear diary"}) == "");
  CHECK(says(read_audio(folder.write("empty.wav", "")), {"empty.wav", "empty"}) == "");
  using namespace std::string_view_literals;
  for (const auto& [begin, format] : {std::pair{"ID3\x04"sv, "MP3"sv},
                                      {"\xFF\xFB\x90"sv, "MP3"sv},
                                      {"\xFF\xE3\x18\xC4"sv, "MP3"sv},
                                      {"\xFF\xF1\x50"sv, "AAC"sv},
                                      {"\0\0\0\x1C"
                                       "ftypM4A "sv,
                                       "M4A"sv},
                                      {"\x1A\x45\xDF\xA3"sv, "WebM"sv}})
    CHECK(says(read_audio(folder.write("a.sound", begin)), {"a.sound", format, "ffmpeg"}) == "");
  CHECK(read_audio(folder.path() / "missing.wav").error().code == Code::not_found);
  // Samples without a header begin as frames of MP3 or AAC do now and then.
  for (const uint16_t begin : {0xFFFF, 0xFBFF, 0xFAFF, 0xF3FF, 0xE3FF, 0xF1FF, 0xF9FF, 0xE0FF}) {
    ByteWriter raw;
    raw.number(begin);
    for (int i = 1; i < 10000; ++i) raw.number(static_cast<int16_t>(4000 * std::sin(i * 0.1)));
    const auto audio = parse_audio(raw.bytes(), "raw.pcm");
    CHECK(says(audio, {"raw.pcm", "begins with"}) == "");
    CHECK(audio.error().message.find("ffmpeg") == std::string::npos);
  }
}

TEST_CASE("resampling: tones keep their shape if the new rate can represent them, and vanish if not") {
  struct Rates {
    uint32_t from, to;
  };
  for (const Rates rates :
       {Rates{44100U, 16000U}, {8000U, 16000U}, {48000U, 16000U}, {44101U, 16000U}, {16000U, 44100U}}) {
    const uint32_t from = rates.from, to = rates.to;
    CAPTURE(from);
    CAPTURE(to);
    const std::vector<float> result = resample(tone(from, from, 1000), from, to);
    REQUIRE(result.size() == to);
    const std::vector<float> expected = tone(to, to, 1000);
    float worst = 0;
    for (size_t i = to / 10; i < to - to / 10; ++i)
      worst = std::max(worst, std::abs(result[i] - expected[i]));
    CHECK(worst < 1e-4F);
  }
  const std::vector<float> folded = resample(tone(44100, 44100, 9000), 44100, 16000);
  float loudest = 0;
  for (size_t i = 1000; i < 15000; ++i) loudest = std::max(loudest, std::abs(folded[i]));
  CHECK(loudest < 1e-4F);
}

TEST_CASE("resampling: lengths, silence, and a constant that stays constant") {
  CHECK(resample(std::vector<float>{0.5F}, 44100, 16000).size() == 1);
  CHECK(resample(std::vector<float>{0.5F}, 8000, 16000).size() == 2);
  CHECK(resample(std::vector<float>{0.5F, 1}, 16000, 16000) == std::vector<float>{0.5F, 1});
  CHECK(resample({}, 44100, 16000).empty());
  CHECK(resample(std::vector<float>(1000, 0.0F), 44100, 16000) == std::vector<float>(363, 0.0F));
  const std::vector<float> constant = resample(std::vector<float>(4000, 0.5F), 48000, 16000);
  for (size_t i = 100; i < 1200; ++i) CHECK(std::abs(constant[i] - 0.5F) < 1e-5F);
}

TEST_CASE("a file is resampled to the rate that a model needs") {
  const TemporaryFolder folder;
  const auto path = folder.write("tone.wav", Wav{.rate = 48000}.bytes(std::vector<int16_t>(48000, 8192)));
  const auto audio = read_audio_at(16000, path);
  REQUIRE_MESSAGE(audio.ok(), says(audio, {}));
  CHECK(audio->rate == 16000);
  CHECK(audio->samples.size() == 16000);
  CHECK(audio->seconds() == 1);
}

TEST_CASE("resampling piece by piece gives the same bits") {
  const std::vector<float> samples = tone(44100, 20011, 700);
  constexpr uint32_t to = 16000;
  for (const uint32_t from : {44100u, 8000u, 48000u, 44101u, to}) {
    CAPTURE(from);
    const std::vector<float> expected = resample(samples, from, to);
    for (const size_t piece : {size_t{1}, size_t{97}, size_t{5000}, samples.size()}) {
      Resampler resampler(from, to);
      std::vector<float> result;
      for (size_t at = 0; at < samples.size(); at += piece)
        resampler.push(std::span(samples).subspan(at, std::min(piece, samples.size() - at)), result);
      CHECK(result.size() + 500 > expected.size()); // nothing is held back for long
      resampler.finish(result);
      CHECK(result == expected);
    }
  }
}

TEST_CASE("a stream gives what the file holds, in pieces") {
  const TemporaryFolder folder;
  std::vector<int32_t> samples;
  for (int i = 0; i < 90000; ++i) samples.push_back((i * 7919) % 30000 - 15000);
  const std::pair<const char*, std::vector<std::byte>> files[] = {
      {"a.wav", Wav{.rate = 22050}.bytes(std::vector<int16_t>(samples.begin(), samples.end()))},
      {"a.flac", flac_of(samples, 1, 22050, 16)},
      {"a.oga", flac_of(samples, 1, 22050, 16, true)},
      {"a.ogg", vorbis_of(tone(22050, 90000, 440), 22050)}};
  for (const auto& file : files) {
    const char* const name = file.first;
    const std::vector<std::byte>& bytes = file.second;
    CAPTURE(name);
    const auto path = folder.write(name, bytes);
    const auto whole = read_audio_at(16000, path);
    REQUIRE_MESSAGE(whole.ok(), says(whole, {}));
    for (const size_t wanted : {size_t{1}, size_t{1000}, size_t{1} << 20}) {
      const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      auto stream = wanted == 1000 ? AudioStream::parse(text, name, 16000) : AudioStream::open(path, 16000);
      REQUIRE_MESSAGE(stream.ok(), says(stream, {}));
      const uint64_t announced = (*stream)->samples(); // 0: the file does not say
      CHECK((announced == whole->samples.size() - 1 || (announced == 0 && name[2] == 'o')));
      std::vector<float> all;
      for (size_t before = 0;; before = all.size()) {
        (*stream)->read(wanted, all);
        if (all.size() == before) break;
      }
      CHECK((*stream)->damage() == "");
      CHECK(all == whole->samples);
      CHECK((*stream)->seconds() == 90000 / 22050.0);
    }
  }
  CHECK(says(AudioStream::open(folder.write("none.wav", "Dear diary"), 16000), {"none.wav", "Dear diary"}) ==
        "");
  CHECK(says(AudioStream::parse("", "standard input", 16000), {"standard input", "empty"}) == "");
}

namespace {

// A noise of so many samples as files of each format, with their names.
std::vector<std::pair<std::string, std::vector<std::byte>>> in_each_format(size_t count, const Wav& wav) {
  std::vector<int32_t> numbers;
  std::vector<float> floats;
  for (size_t i = 0; i < count; ++i) {
    numbers.push_back(static_cast<int32_t>(i * i * 7919 % 30000) - 15000);
    floats.push_back(static_cast<float>(numbers.back()) / 32768);
  }
  std::vector<std::pair<std::string, std::vector<std::byte>>> files = {
      {"a.wav", wav.bytes(std::vector<int16_t>(numbers.begin(), numbers.end()))},
      {"a.flac", flac_of(numbers, 1, 16000, 16)},
      {"a.oga", flac_of(numbers, 1, 16000, 16, true)},
      {"a.ogg", vorbis_of(floats, 16000)}};
#ifdef PUMICE_OPUS
  files.emplace_back("a.opus", opus_of(floats));
#endif
  return files;
}

} // namespace

TEST_CASE("of a sound that ends early or is damaged, all that can be read is read, and the damage is named") {
  constexpr size_t count = 60000;
  for (const auto& file : in_each_format(count, {})) {
    const std::string& name = file.first;
    const std::vector<std::byte>& bytes = file.second;
    CAPTURE(name);
    CAPTURE(bytes.size());
    const Heard whole = heard(bytes, name);
    CHECK(whole.damage == "");
    for (const size_t length : {bytes.size() / 2, bytes.size() * 4 / 5, bytes.size() - 1}) {
      CAPTURE(length);
      const Heard cut = heard(first(bytes, length), name);
      CHECK(cut.damage.starts_with(name + ": expected"));
      CHECK(cut.samples.size() < whole.samples.size());
      CHECK(cut.samples.size() + count / 5 > whole.samples.size() * length / bytes.size());
      CHECK(std::equal(cut.samples.begin(), cut.samples.end() - 100, whole.samples.begin()));
      CHECK(cut.seconds == static_cast<double>(cut.samples.size()) / 16000);
    }
    if (name == "a.wav") continue; // its samples have no checksum
    std::vector<std::byte> damaged = bytes;
    damaged[bytes.size() / 2] ^= std::byte{255};
    const Heard rest = heard(damaged, name);
    CHECK(rest.damage.starts_with(name + ": expected"));
    CHECK(rest.samples.size() + count / 3 > whole.samples.size()); // what follows the damage, too
  }
  // A recorder that was ended has not filled in the size, and one that writes to a pipe cannot.
  const std::vector<int16_t> samples = {16384, -16384, 8192};
  CHECK(heard(Wav{.data_size = 0}.bytes(samples)).samples.size() == 3);
  CHECK(heard(Wav{.data_size = 0}.bytes(samples)).damage.find("not written to its end") != std::string::npos);
  CHECK(heard(Wav{.data_size = 0xFFFFFFFF}.bytes(samples)).damage == "");
  const Heard odd =
      heard(Wav{.tag = 3, .bits = 32}.bytes(std::vector<float>{0.5F, std::nanf(""), 0.25F}), "odd.wav");
  CHECK(odd.samples == std::vector<float>{0.5F, 0, 0.25F});
  CHECK(odd.damage == "odd.wav: expected finite samples below 2^31, found nan at 1");
}

TEST_CASE("a sound that is cut at any byte is read up to there, or refused by its name") {
  constexpr size_t count = 3000;
  for (const auto& file : in_each_format(count, {.extensible = true, .odd_chunk = true})) {
    const std::string& name = file.first;
    const std::vector<std::byte>& bytes = file.second;
    CAPTURE(name);
    const Heard whole = heard(bytes, name);
    constexpr size_t header = 300, stride = 7;
    for (size_t length = 1; length < bytes.size(); length += length < header ? 1 : stride) {
      CAPTURE(length);
      const std::string text(reinterpret_cast<const char*>(bytes.data()), length);
      auto stream = AudioStream::parse(text, name, 16000);
      if (!stream.ok()) {
        CHECK(stream.error().message.starts_with(name + ": expected"));
        continue;
      }
      std::vector<float> samples;
      for (size_t before = 1; before != samples.size();) {
        before = samples.size();
        (*stream)->read(1000, samples);
      }
      CHECK((*stream)->damage().starts_with(name + ": expected"));
      REQUIRE(samples.size() <= whole.samples.size());
      const size_t sure = samples.size() - std::min<size_t>(samples.size(), 100);
      CHECK(std::equal(samples.begin(), samples.begin() + static_cast<std::ptrdiff_t>(sure),
                       whole.samples.begin()));
    }
  }
}

TEST_CASE("wav: a second data chunk goes on, and what else follows the first does not matter") {
  ByteWriter file;
  file.raw(Wav{}.bytes(std::vector<int16_t>{16384}));
  file.text("LIST").number<uint32_t>(2).text("ab").text("data").number<uint32_t>(4);
  file.number<int16_t>(8192).number<int16_t>(-8192);
  const std::vector<float> all = {0.5F, 0.25F, -0.25F};
  CHECK(heard(file.bytes()).samples == all);
  CHECK(heard(file.bytes()).damage == "");
  CHECK(heard(file.bytes()).seconds == 3 / 16000.0);
  file.text("LIST").number<uint32_t>(1000).text("cut");
  CHECK(heard(file.bytes()).samples == all);
  CHECK(heard(file.bytes()).damage == "");
  file.text("data"); // and no size
  CHECK(heard(file.bytes()).samples == all);
}

TEST_CASE("wav: the logarithmic samples of telephones") {
  using Floats = std::vector<float>;
  const std::vector<uint8_t> mu = {0xFF, 0x7F, 0x00, 0x80, 0xCE}, a = {0xD5, 0x55, 0x2A, 0xAA, 0x9B};
  CHECK(parsed(Wav{.tag = 7, .rate = 8000, .bits = 8}.bytes(mu)).samples ==
        Floats{0, 0, -32124 / 32768.0F, 32124 / 32768.0F, 988 / 32768.0F});
  CHECK(parsed(Wav{.tag = 6, .rate = 8000, .bits = 8}.bytes(a)).samples ==
        Floats{8 / 32768.0F, -8 / 32768.0F, -32256 / 32768.0F, 32256 / 32768.0F, 3904 / 32768.0F});
}

TEST_CASE("channels that cancel each other are heard, others are averaged") {
  const std::vector<float> spoken = tone(16000, 16000, 300);
  const auto mixed = [&](float other, float noise) {
    std::vector<float> both;
    uint32_t state = 1;
    for (const float sample : spoken) {
      state = state * 1664525 + 1013904223;
      const float extra = noise * (static_cast<float>(state >> 8) / (1 << 24) - 0.5F);
      both.insert(both.end(), {sample, other * sample + extra});
    }
    return heard(Wav{.tag = 3, .channels = 2, .bits = 32}.bytes(both)).samples;
  };
  CHECK(mixed(-1, 0) == spoken);
  CHECK(mixed(-0.9F, 0.01F) == spoken);
  CHECK(mixed(-1.5F, 0.01F)[1000] == doctest::Approx(-1.5F * spoken[1000]).epsilon(0.05)); // the louder one
  CHECK(mixed(0, 0)[1000] == spoken[1000] / 2);
  CHECK(mixed(1, 0) == spoken);
  CHECK(mixed(-0.3F, 0)[1000] == doctest::Approx(0.35F * spoken[1000]));
}

#ifdef __linux__
namespace {

// Bytes of memory that this process occupies.
uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  uint64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * 4096;
}

} // namespace

TEST_CASE("hours of sound are read in the same memory") {
  // Three hours, most of them a hole in the file.
  const TemporaryFolder folder;
  const uint64_t bytes = uint64_t{3} * 3600 * 16000 * 2;
  Wav wav;
  wav.data_size = static_cast<int64_t>(bytes);
  const auto path = folder.write("long.wav", wav.bytes(std::vector<int16_t>(16000, 1000)));
  std::filesystem::resize_file(path, 44 + bytes);
  const auto stream = AudioStream::open(path, 16000);
  REQUIRE_MESSAGE(stream.ok(), says(stream, {}));
  CHECK((*stream)->seconds() == 3 * 3600);
  const uint64_t before = resident_bytes();
  uint64_t most = 0, count = 0;
  std::vector<float> samples;
  do {
    samples.clear();
    (*stream)->read(1 << 16, samples);
    count += samples.size();
    most = std::max(most, resident_bytes());
  } while (!samples.empty());
  CHECK(count == uint64_t{3} * 3600 * 16000);
  // Of 345 MB. Sanitizers keep what was freed for a while.
  CHECK(most < before + (uint64_t{96} << 20));
}
#endif
