#include "media/audio.h"

#include "io/bytes.h"
#include "io/mapped_file.h"
#include "media/audio_formats.h"
#include "media/resample.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <numeric>

#include <fmt/format.h>

namespace pumice {

namespace {

constexpr uint64_t min_rate = 1'000, max_rate = 1'000'000;

} // namespace

bool AudioSink::start(uint64_t rate, uint64_t channels) noexcept {
  if (failed()) return false;
  if (rate < min_rate || rate > max_rate)
    fail(Code::invalid_file,
         fmt::format("expected {} to {} samples a second, found {}", min_rate, max_rate, rate));
  else if (channels == 0 || channels > max_channels)
    fail(Code::invalid_file, fmt::format("expected 1 to {} channels, found {}", max_channels, channels));
  else if (channels_ != 0 && (channels != channels_ || rate != audio_.rate))
    fail(Code::unsupported,
         fmt::format("expected {} channels at {} Hz throughout, found {} at {} Hz after {} samples",
                     channels_, audio_.rate, channels, rate, count()));
  audio_.rate = static_cast<uint32_t>(rate);
  channels_ = channels;
  return !failed();
}

bool AudioSink::reserve(size_t frames) noexcept {
  if (failed()) return false;
  if (frames > max_samples_ || count() > max_samples_ - frames) {
    fail(Code::unsupported,
         fmt::format("expected sound of at most {} samples a channel, found more", max_samples_));
    return false;
  }
  std::vector<float>& samples = audio_.samples;
  try {
    if (samples.capacity() - samples.size() < frames)
      samples.reserve(std::max(samples.size() + frames, samples.size() * 2));
  } catch (const std::bad_alloc&) {
    fail(Code::out_of_memory, "not enough memory for the sound");
  }
  return !failed();
}

void AudioSink::fail(Code code, std::string_view what) noexcept {
  note(code, what);
  failed_ = true;
}

void AudioSink::note(Code code, std::string_view what) noexcept {
  if (!problem_) problem_ = Error{code, fmt::format("{}: {}", name_, what)};
}

float AudioSink::checked(float sample) noexcept {
  if (std::abs(sample) <= max_sample) return sample;
  if (!problem_) damage(fmt::format("expected finite samples below 2^31, found {} at {}", sample, count()));
  return 0;
}

void AudioSink::Levels::fade(double factor) {
  for (double& channel : channels) channel *= factor;
  sum *= factor;
}

std::optional<size_t> AudioSink::Levels::instead_of_mean(size_t count) {
  const std::span<const double> used = std::span(channels).first(count);
  // Sounds that have nothing to do with each other add up to as much.
  const double expected = std::accumulate(used.begin(), used.end(), 0.0);
  if (!(sum < 0.1 * expected)) return std::nullopt;
  const auto loudest = static_cast<size_t>(std::ranges::max_element(used) - used.begin());
  if (channels[taken] < channels[loudest] / 2) taken = loudest;
  return taken;
}

void AudioSink::take(std::vector<float>& to) {
  to.insert(to.end(), audio_.samples.begin(), audio_.samples.end());
  taken_ += audio_.samples.size();
  audio_.samples.clear();
}

Result<Audio> AudioSink::finish() {
  if (problem_) return *problem_;
  if (audio_.samples.empty())
    return Error{Code::invalid_file, fmt::format("{}: expected sound, found none in it", name_)};
  return std::move(audio_);
}

namespace {

struct Frame {
  size_t size = 0; // bytes
  std::string_view format = {};
};

// The MP3 or AAC frame that begins so; without a format: there is none.
Frame compressed_frame(const std::array<unsigned, 6>& head) {
  if (head[0] != 0xFF) return {};
  if ((head[1] & 0xF6) == 0xF0) return {(head[3] & 3) << 11 | head[4] << 3 | head[5] >> 5, "AAC"};
  const unsigned version = head[1] >> 3 & 3, rate = head[2] >> 2 & 3; // 3 is MPEG-1, 2 has half of its rates
  const bool third_layer = (head[1] & 0xE6) == 0xE2;
  constexpr unsigned kilobits[2][16] = {{0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160},
                                        {0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320}};
  const unsigned speed = kilobits[version == 3][head[2] >> 4] * 1000;
  if (!third_layer || version == 1 || rate == 3 || speed == 0) return {};
  const unsigned hertz = std::array{44100u, 48000u, 32000u}[rate] >> (version == 3   ? 0
                                                                      : version == 2 ? 1
                                                                                     : 2);
  return {(version == 3 ? 144 : 72) * speed / hertz + (head[2] >> 1 & 1), "MP3"};
}

// What follows a tag of ID3, which files of any format may begin with.
std::span<const std::byte> behind_tag(std::span<const std::byte> bytes) {
  constexpr size_t head = 10; // a footer has as many
  if (!as_text(bytes).starts_with("ID3") || bytes.size() < head) return bytes;
  size_t size = head + ((static_cast<unsigned>(bytes[5]) & 0x10) != 0 ? head : 0);
  for (size_t i = 6; i < head; ++i)
    size += static_cast<size_t>(bytes[i] & std::byte{0x7F}) << (7 * (head - 1 - i));
  return bytes.subspan(std::min(size, bytes.size()));
}

// The format of a file that is sound, or has some, and is not read; empty for others.
std::string_view unread_format(std::span<const std::byte> bytes) {
  const std::string_view text = as_text(bytes);
  if (text.substr(0, 3) == "ID3") return "MP3";
  if (text.size() > 8 && text.substr(4, 4) == "ftyp") return "M4A or MP4";
  if (text.starts_with("\x1A\x45\xDF\xA3")) return "WebM or Matroska";
  if (text.starts_with("FORM")) return "AIFF";
  if (text.starts_with("#!AMR")) return "AMR";
  if (text.starts_with("\x30\x26\xB2\x75")) return "WMA";
  std::array<unsigned, 6> head = {};
  for (size_t i = 0; i < std::min(head.size(), bytes.size()); ++i) head[i] = static_cast<unsigned>(bytes[i]);
  const Frame frame = compressed_frame(head);
  // Samples without a header may begin so by chance: another frame follows one.
  const std::string_view next = text.size() > frame.size ? text.substr(frame.size, 2) : text.substr(0, 2);
  return text.starts_with(next) ? frame.format : std::string_view();
}

// Null where the sink has an error.
std::unique_ptr<AudioDecoder> open_decoder(std::span<const std::byte> bytes, AudioSink& sink) {
  const std::span<const std::byte> sound = behind_tag(bytes);
  if (is_wav(sound)) return open_wav(sound, sink);
  if (is_flac(sound)) return open_flac(sound, sink);
  if (is_ogg(sound)) return open_ogg(sound, sink);
  if (const std::string_view format = unread_format(bytes); !format.empty())
    sink.fail(Code::unsupported,
              fmt::format("expected a WAV, FLAC, Ogg or Opus file, found {}, which cannot be read: {}",
                          format, conversion_hint));
  else if (bytes.empty())
    sink.fail(Code::invalid_file, "expected a WAV, FLAC, Ogg or Opus file, found an empty one");
  else
    sink.fail(Code::invalid_file,
              fmt::format("expected a WAV, FLAC, Ogg or Opus file, found one that begins with {}",
                          in_quotes(as_text(bytes), 16)));
  return nullptr;
}

} // namespace

Result<Audio> parse_audio(std::span<const std::byte> bytes, const std::string& name, uint64_t max_samples) {
  AudioSink sink(name, max_samples);
  const std::unique_ptr<AudioDecoder> decoder = open_decoder(bytes, sink);
  while (decoder && decoder->decode_more()) {
  }
  return sink.finish();
}

Result<Audio> read_audio(const std::filesystem::path& path, uint64_t max_samples) {
  PUMICE_TRY(const MappedFile file, MappedFile::open(path));
  return parse_audio(file.bytes(), file.path(), max_samples);
}

Result<Audio> read_audio_at(uint32_t rate, const std::filesystem::path& path) {
  PUMICE_TRY(Audio audio, read_audio(path));
  try {
    return at_rate(std::move(audio), rate);
  } catch (const std::bad_alloc&) {
    return Error{Code::out_of_memory,
                 fmt::format("{}: not enough memory for the sound at {} Hz", path_text(path), rate)};
  }
}

Audio at_rate(Audio audio, uint32_t rate) {
  if (audio.rate != rate) audio = {rate, resample(audio.samples, audio.rate, rate)};
  return audio;
}

struct AudioStream::State {
  State(std::string name, uint32_t to) : rate(to), sink(std::move(name), UINT64_MAX) {}

  MappedFile file;
  std::string bytes; // instead of a file
  uint32_t rate;
  AudioSink sink;
  std::unique_ptr<AudioDecoder> decoder;
  std::optional<Resampler> resampler; // once the file's rate is known
  std::vector<float> decoded;
  bool ended = false;
  uint64_t dropped = 0; // bytes of a mapped file that need not stay in memory

  void drop_pages() {
    constexpr uint64_t piece = uint64_t{1} << 22;
    const uint64_t position = decoder->position();
    if (!bytes.empty() || position < dropped + piece) return;
    was_read(file.bytes().subspan(dropped, position - dropped));
    dropped = position;
  }
};

AudioStream::AudioStream(std::unique_ptr<State> state) : state_(std::move(state)) {}
AudioStream::~AudioStream() = default;

Result<std::unique_ptr<AudioStream>> AudioStream::open(const std::filesystem::path& path, uint32_t rate) {
  PUMICE_TRY(MappedFile file, MappedFile::open(path));
  auto state = std::make_unique<State>(file.path(), rate);
  state->file = std::move(file);
  return start(std::move(state));
}

Result<std::unique_ptr<AudioStream>> AudioStream::parse(std::string bytes, const std::string& name,
                                                        uint32_t rate) {
  auto state = std::make_unique<State>(name, rate);
  state->bytes = std::move(bytes);
  return start(std::move(state));
}

// Decodes the first piece, so that what is no sound is refused at once.
Result<std::unique_ptr<AudioStream>> AudioStream::start(std::unique_ptr<State> state) {
  const std::span<const std::byte> bytes =
      state->bytes.empty() ? state->file.bytes() : std::as_bytes(std::span(state->bytes));
  state->decoder = open_decoder(bytes, state->sink);
  while (state->decoder && state->sink.count() == 0 && state->decoder->decode_more()) {
  }
  state->sink.take(state->decoded);
  if (state->decoded.empty())
    return state->sink.problem()
               ? *state->sink.problem()
               : Error{Code::invalid_file,
                       fmt::format("{}: expected sound, found none in it", state->sink.name())};
  if (state->bytes.empty()) was_read(bytes); // formats may be checked as a whole
  state->resampler.emplace(state->sink.rate(), state->rate);
  return std::unique_ptr<AudioStream>(new AudioStream(std::move(state)));
}

void AudioStream::read(size_t wanted, std::vector<float>& to) {
  State& state = *state_;
  const size_t before = to.size(), least = std::max<size_t>(wanted, 1);
  while (!state.ended && to.size() - before < least) {
    if (state.decoded.empty()) {
      state.ended = !state.decoder->decode_more();
      state.sink.take(state.decoded);
    }
    state.resampler->push(state.decoded, to);
    state.decoded.clear();
    if (state.ended) state.resampler->finish(to);
    state.drop_pages();
  }
}

std::string AudioStream::damage() const {
  return state_->sink.problem() ? state_->sink.problem()->message : "";
}

uint64_t AudioStream::samples() const {
  return state_->decoder->announced() * state_->rate / std::max(state_->sink.rate(), 1u);
}

double AudioStream::seconds() const {
  const uint64_t count =
      state_->ended ? state_->sink.count() : std::max(state_->decoder->announced(), state_->sink.count());
  return static_cast<double>(count) / std::max(state_->sink.rate(), 1u);
}

} // namespace pumice
