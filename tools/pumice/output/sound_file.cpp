#include "output/sound_file.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include <fmt/format.h>

#include "base/path.h"
#include "output/output_files.h"
#include "terminal/terminal.h"

namespace pumice::command {

namespace {

constexpr uint32_t sample_bytes = 2;
constexpr uint32_t unknown_length = UINT32_MAX; // of what goes to a pipe

template <class T>
void add(std::string& bytes, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) bytes += static_cast<char>(value >> (8 * i) & 0xFF);
}

} // namespace

std::string wav_header(uint32_t rate, uint64_t samples) {
  constexpr uint32_t format_bytes = 16, before_data = 36;
  const uint64_t size = samples * sample_bytes;
  const bool fits = size <= unknown_length - before_data;
  std::string bytes = "RIFF";
  add(bytes, fits ? static_cast<uint32_t>(size) + before_data : unknown_length);
  bytes += "WAVEfmt ";
  add(bytes, format_bytes);
  add(bytes, uint16_t{1}); // PCM
  add(bytes, uint16_t{1}); // channel
  add(bytes, rate);
  add(bytes, rate * sample_bytes);
  add(bytes, static_cast<uint16_t>(sample_bytes));
  add(bytes, static_cast<uint16_t>(8 * sample_bytes));
  bytes += "data";
  add(bytes, fits ? static_cast<uint32_t>(size) : unknown_length);
  return bytes;
}

std::string pcm_bytes(std::span<const float> samples) {
  std::string bytes;
  bytes.reserve(samples.size() * sample_bytes);
  for (const float sample : samples) {
    const float kept = std::isfinite(sample) ? std::clamp(sample, -1.0f, 1.0f) : 0.0f;
    add(bytes, std::bit_cast<uint16_t>(static_cast<int16_t>(std::lround(kept * 32767))));
  }
  return bytes;
}

Status SoundFile::put(std::string_view bytes) {
  if (!to_output()) return file_.write(std::as_bytes(std::span(bytes)));
  print_result(bytes);
  return {};
}

Status SoundFile::open(const std::string& path, uint32_t rate) {
  path_ = path;
  rate_ = rate;
  if (!to_output()) PUMICE_CHECK(file_.open(path_of(path)));
  return put(wav_header(rate, unknown_samples)); // written again at the end where that can be done
}

Status SoundFile::write(std::span<const float> samples) {
  samples_ += samples.size();
  return put(pcm_bytes(samples));
}

Status SoundFile::finish() {
  if (to_output()) return {};
  const std::string begin = wav_header(rate_, samples_);
  if (file_.seekable()) PUMICE_CHECK(file_.write_first(std::as_bytes(std::span(begin))));
  return file_.finish();
}

Status SoundFile::keep_part() {
  if (to_output() || samples_ == 0) return {};
  const std::filesystem::path path = partial_path(path_of(path_));
  if (file_.seekable()) file_.aim_at(path);
  PUMICE_CHECK(finish());
  print_note(fmt::format("{} has the first {:.2f} s, which were there by then", path_text(path), seconds()));
  return {};
}

} // namespace pumice::command
