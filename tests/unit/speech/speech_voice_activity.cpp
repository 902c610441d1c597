#include "speech/voice_activity.h"

#include <cmath>
#include <random>

#include <doctest/doctest.h>

#include "speech/sound_source.h"

using namespace pumice;

namespace {

constexpr uint32_t rate = 16000;

// Noise of a level in decibels of full scale, with louder tones in stretches of seconds.
std::vector<float> sound(double seconds, double noise, const std::vector<std::pair<double, double>>& loud,
                         double level = -20) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, static_cast<float>(std::pow(10, noise / 20)));
  std::vector<float> samples(static_cast<size_t>(seconds * rate));
  for (float& sample : samples) sample = normal(random);
  const double height = std::pow(10, level / 20) * std::sqrt(2.0);
  for (const auto& [begin, end] : loud) {
    for (auto i = static_cast<size_t>(begin * rate); i < static_cast<size_t>(end * rate); ++i)
      samples[i] += static_cast<float>(height * std::sin(0.2 * static_cast<double>(i)));
  }
  return samples;
}

std::vector<std::pair<double, double>> ranges(const std::vector<float>& samples, size_t piece,
                                              const VoiceActivity::Options& options = {}) {
  VoiceActivity voice(rate, options);
  std::vector<std::pair<double, double>> found;
  uint64_t at = 0;
  const auto take = [&](bool all) {
    while (const auto next = voice.next(at)) {
      if (!all && next->end >= voice.decided()) break; // it may go on
      found.emplace_back(static_cast<double>(next->begin) / rate, static_cast<double>(next->end) / rate);
      at = next->end;
    }
    if (!voice.next(at)) at = std::max(at, voice.decided());
    voice.forget(at);
  };
  for (size_t i = 0; i < samples.size(); i += piece) {
    voice.push(std::span(samples).subspan(i, std::min(piece, samples.size() - i)));
    take(false);
  }
  voice.end();
  take(true);
  return found;
}

void check(const std::vector<std::pair<double, double>>& found,
           const std::vector<std::pair<double, double>>& expected) {
  REQUIRE(found.size() == expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(found[i].first - expected[i].first) <= 0.03);
    CHECK(std::abs(found[i].second - expected[i].second) <= 0.03);
  }
}

} // namespace

TEST_CASE("voice activity: what is louder than the noise, and what is near it, is kept") {
  for (const double noise : {-90.0, -50.0, -40.0}) {
    CAPTURE(noise);
    const std::vector<float> samples = sound(12, noise, {{2, 4}, {4.4, 5}, {8, 9}});
    // 0.3 s before and after; a pause of 0.4 s is none.
    const std::vector<std::pair<double, double>> expected = {{1.7, 5.3}, {7.7, 9.3}};
    for (const size_t piece : {size_t{1} << 30, size_t{16000}, size_t{777}, size_t{1}})
      check(ranges(samples, piece), expected);
  }
}

TEST_CASE("voice activity: silence, noise, and sounds at the ends") {
  CHECK(ranges({}, 1).empty());
  CHECK(ranges({0.5f}, 1).empty());
  CHECK(ranges(std::vector<float>(50000), 1000).empty());
  CHECK(ranges(std::vector<float>(50000, 0.5f), 1000).empty()); // a constant is no sound
  CHECK(ranges(sound(20, -45, {}), 1000).empty());
  check(ranges(sound(3, -60, {{0, 1}}), 1000), {{0, 1.3}});
  check(ranges(sound(3, -60, {{2.5, 3}}), 1000), {{2.2, 3}});
  // Loud noise cannot be told from speech, and is kept.
  check(ranges(sound(3, -20, {}), 1000), {{0, 3}});
  // Quiet speech over less noise.
  check(ranges(sound(6, -70, {{3, 4}}, -50), 1000), {{2.7, 4.3}});
}

TEST_CASE("voice activity: without looking ahead it finds the same once it has heard the noise") {
  VoiceActivity::Options options;
  options.noise_after = 0;
  check(ranges(sound(12, -50, {{2, 4}, {8, 9}}), 777, options), {{1.7, 4.3}, {7.7, 9.3}});
}

TEST_CASE("a sound reader skips silence, and keeps no more than it is asked for") {
  const std::vector<float> samples = sound(100, -80, {{50, 51}, {80, 81}});
  for (const bool voice : {true, false}) {
    SoundReader reader(source_of(samples), rate, voice);
    const auto first = reader.speech(0);
    REQUIRE(first.ok());
    REQUIRE(*first);
    CHECK(std::abs(static_cast<double>(**first) / rate - (voice ? 49.7 : 0)) <= 0.03);
    const auto window = reader.samples(**first, 5 * rate);
    REQUIRE(window.ok());
    REQUIRE(window->size() == 5 * rate);
    CHECK(std::equal(window->begin(), window->end(), samples.begin() + static_cast<ptrdiff_t>(**first)));
    const auto second = reader.speech(**first + 5 * rate);
    REQUIRE(second.ok());
    REQUIRE(*second);
    CHECK(std::abs(static_cast<double>(**second) / rate - (voice ? 79.7 : 5)) <= 0.03);
    CHECK(reader.samples(99 * rate, 5 * rate)->size() == rate);
    CHECK(!reader.speech(100 * rate)->has_value());
    CHECK(reader.ended());
  }
}
