#include "speech/voice_activity.h"

#include <algorithm>
#include <cmath>

namespace pumice {

namespace {

constexpr double frame_seconds = 0.02, around_seconds = 0.3;
constexpr float least_level = -120; // decibels, of nothing

// Of what changes: a constant is no sound.
float level_of(std::span<const float> samples) {
  double sum = 0, squares = 0;
  for (float sample : samples) {
    sum += sample;
    squares += double{sample} * sample;
  }
  const auto count = static_cast<double>(samples.size());
  const double power = squares / count - (sum / count) * (sum / count);
  return power > 1e-12 ? static_cast<float>(10 * std::log10(power)) : least_level;
}

} // namespace

VoiceActivity::VoiceActivity(uint32_t sample_rate, const Options& options)
    : options_(options), frame_(std::max(1u, static_cast<uint32_t>(sample_rate * frame_seconds))),
      past_(static_cast<uint64_t>(options.noise_past / frame_seconds)),
      after_(static_cast<uint64_t>(options.noise_after / frame_seconds)),
      around_(static_cast<uint64_t>(around_seconds / frame_seconds)) {}

void VoiceActivity::push(std::span<const float> samples) {
  samples_ += samples.size();
  while (!samples.empty()) {
    const size_t taken = std::min<size_t>(frame_ - part_.size(), samples.size());
    part_.insert(part_.end(), samples.begin(), samples.begin() + static_cast<ptrdiff_t>(taken));
    samples = samples.subspan(taken);
    if (part_.size() == frame_) add_frame();
  }
  decide();
}

void VoiceActivity::end() {
  if (ended_) return;
  if (!part_.empty()) add_frame();
  ended_ = true;
  decide();
}

void VoiceActivity::add_frame() {
  levels_.push_back(level_of(part_));
  part_.clear();
}

float VoiceActivity::noise_at(uint64_t frame) const {
  const uint64_t begin = std::max(first_, frame - std::min(frame, past_));
  const uint64_t end = std::min(frames(), frame + after_ + 1);
  const auto at = [&](uint64_t i) { return levels_.begin() + static_cast<ptrdiff_t>(i - first_); };
  return *std::min_element(at(begin), at(end));
}

// Compares frames with the noise as soon as what comes after them is there.
void VoiceActivity::decide() {
  while (loud_.size() < levels_.size()) {
    const uint64_t frame = first_ + loud_.size();
    if (!ended_ && frame + after_ >= frames()) return;
    const float threshold =
        std::clamp(noise_at(frame) + options_.above_noise, options_.silence, options_.loud);
    loud_.push_back(levels_[frame - first_] > threshold);
  }
}

uint64_t VoiceActivity::decided_frames() const {
  const uint64_t compared = first_ + loud_.size();
  return ended_ ? compared : compared - std::min(compared, around_);
}

uint64_t VoiceActivity::decided() const {
  return std::min<uint64_t>(decided_frames() * frame_, samples_);
}

std::optional<VoiceActivity::Range> VoiceActivity::next(uint64_t from) const {
  const uint64_t wanted = from / frame_, known = decided_frames(), compared = first_ + loud_.size();
  std::optional<Range> range;
  uint64_t kept = 0; // frames before this one belong to speech
  // What is loud at a frame keeps the frames around it.
  for (uint64_t frame = std::max(first_, wanted - std::min(wanted, around_)); frame < compared; ++frame) {
    if (!loud_[frame - first_]) continue;
    const uint64_t begin = std::max(frame - std::min(frame, around_), wanted);
    if (begin >= known || (range && begin > kept)) break;
    if (!range) range = Range{std::max<uint64_t>(begin * frame_, from), 0};
    kept = frame + around_ + 1;
  }
  if (!range) return std::nullopt;
  range->end = std::min<uint64_t>(std::min(kept, known) * frame_, samples_);
  return range->end > range->begin ? range : std::nullopt;
}

void VoiceActivity::forget(uint64_t before) {
  const uint64_t frame = before / frame_;
  const uint64_t needed = std::max(past_, around_);
  const uint64_t first = std::min(frame - std::min(frame, needed), first_ + loud_.size());
  for (; first_ < first; ++first_) {
    levels_.pop_front();
    loud_.pop_front();
  }
}

} // namespace pumice
