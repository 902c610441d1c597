#include "speech/sound_source.h"

#include <algorithm>

namespace pumice {

namespace {

constexpr size_t least_read = 1 << 14; // samples

class SamplesInMemory final : public SoundSource {
public:
  explicit SamplesInMemory(std::span<const float> samples) : samples_(samples) {}

  Status read(size_t wanted, std::vector<float>& to) override {
    const auto next = samples_.subspan(at_, std::min(wanted, samples_.size() - at_));
    to.insert(to.end(), next.begin(), next.end());
    at_ += next.size();
    return {};
  }
  uint64_t samples() const override { return samples_.size(); }

private:
  std::span<const float> samples_;
  size_t at_ = 0;
};

} // namespace

std::unique_ptr<SoundSource> source_of(std::span<const float> samples) {
  return std::make_unique<SamplesInMemory>(samples);
}

SoundReader::SoundReader(std::unique_ptr<SoundSource> source, uint32_t sample_rate, bool voice)
    : source_(std::move(source)) {
  if (voice) voice_.emplace(sample_rate);
}

Status SoundReader::read_more(size_t wanted) {
  std::vector<float> samples;
  PUMICE_CHECK(source_->read(std::max(wanted, least_read), samples));
  kept_.append(samples);
  ended_ = samples.empty();
  if (!voice_) return {};
  voice_->push(samples);
  if (ended_) voice_->end();
  return {};
}

Result<std::span<const float>> SoundReader::samples(uint64_t at, size_t count) {
  while (!ended_ && read() < at + count) PUMICE_CHECK(read_more(static_cast<size_t>(at + count - read())));
  return kept_.from(at, count);
}

void SoundReader::forget(uint64_t before) {
  kept_.forget(before);
  if (voice_) voice_->forget(kept_.first());
}

Result<std::optional<uint64_t>> SoundReader::speech(uint64_t at) {
  for (;;) {
    forget(at);
    if (voice_) {
      if (const auto found = voice_->next(at)) {
        forget(found->begin);
        return std::optional(found->begin);
      }
      at = std::max(at, voice_->decided());
    } else if (at < read()) {
      return std::optional(at);
    }
    if (ended_) return std::optional<uint64_t>();
    PUMICE_CHECK(read_more(0));
  }
}

} // namespace pumice
