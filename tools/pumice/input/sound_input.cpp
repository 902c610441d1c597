#include "input/sound_input.h"

#include <cmath>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>

#include "base/path.h"

namespace pumice::command {

namespace {

class InputSource final : public SoundSource {
public:
  explicit InputSource(std::shared_ptr<SoundInput> input) : input_(std::move(input)) {}

  Status read(size_t wanted, std::vector<float>& to) override { return input_->read(wanted, to); }
  uint64_t samples() const override { return input_->samples(); }

private:
  std::shared_ptr<SoundInput> input_;
};

// A pipe or a device, which is read as standard input is.
bool is_stream(const std::filesystem::path& path) {
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(path, ignored);
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status) &&
         !std::filesystem::is_directory(status);
}

float sample_at(const char* bytes, const RawSound& raw) {
  if (raw.floats) {
    float value = 0;
    std::memcpy(&value, bytes, sizeof value);
    return value;
  }
  int16_t value = 0;
  std::memcpy(&value, bytes, sizeof value);
  return static_cast<float>(value) / 32768;
}

} // namespace

Result<std::shared_ptr<SoundInput>> SoundInput::open(const std::string& path, uint32_t rate,
                                                     const std::optional<RawSound>& raw) {
  std::shared_ptr<SoundInput> input(new SoundInput(path, rate));
  if (raw) {
    input->raw_ = *raw;
    input->resampler_.emplace(raw->rate, rate);
  } else if (path != "-" && !is_stream(path_of(path))) {
    PUMICE_TRY(input->stream_, AudioStream::open(path_of(path), rate));
  } else {
    std::string bytes;
    while (!input->input_.ended()) PUMICE_CHECK(input->input_.read(bytes, true));
    PUMICE_TRY(input->stream_, AudioStream::parse(std::move(bytes), input->input_.name(), rate));
  }
  return input;
}

Status SoundInput::read(size_t wanted, std::vector<float>& to) {
  if (stream_) {
    const size_t before = to.size();
    stream_->read(wanted, to);
    ended_ = to.size() == before;
    return {};
  }
  const size_t enough = to.size() + std::max<size_t>(wanted, 1);
  while (!ended_ && to.size() < enough) PUMICE_CHECK(read_raw(true, to));
  return {};
}

Status SoundInput::read_raw(bool wait, std::vector<float>& to) {
  if (ended_) return {};
  while (true) {
    PUMICE_TRY(const bool more, input_.read(bytes_, wait));
    if (!more || wait) break;
  }
  const size_t size = raw_.sample_bytes(), count = bytes_.size() / size;
  std::vector<float> samples(count);
  for (size_t i = 0; i < count; ++i) {
    samples[i] = sample_at(bytes_.data() + i * size, raw_);
    if (std::isfinite(samples[i])) continue;
    if (damage_.empty())
      damage_ =
          fmt::format("{}: expected finite samples, found {} at {}", input_.name(), samples[i], count_ + i);
    samples[i] = 0;
  }
  bytes_.erase(0, count * size);
  count_ += count;
  resampler_->push(samples, to);
  ended_ = input_.ended();
  if (ended_ && count_ == 0)
    return Error{Code::invalid_file, fmt::format("{}: expected sound, found none in it", input_.name())};
  if (ended_) resampler_->finish(to);
  return {};
}

double SoundInput::seconds() const {
  return stream_ ? stream_->seconds() : static_cast<double>(count_) / raw_.rate;
}

std::unique_ptr<SoundSource> SoundInput::source(std::shared_ptr<SoundInput> input) {
  return std::make_unique<InputSource>(std::move(input));
}

} // namespace pumice::command
