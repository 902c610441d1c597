#include "speech/live_transcription.h"

#include <algorithm>

#include "speech/quiet_end.h"

namespace pumice {

namespace {

constexpr double longest_share = 0.8; // of a window

VoiceActivity::Options at_once() {
  VoiceActivity::Options options;
  options.noise_after = 0;
  return options;
}

// Each with the space before it; or characters.
std::vector<std::string> split(const std::string& text, bool spaced) {
  std::vector<std::string> parts;
  for (const char c : text) {
    const bool begins = spaced ? c == ' ' : (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    if (parts.empty() || begins) parts.emplace_back();
    parts.back() += c;
  }
  return parts;
}

} // namespace

size_t agreed_words(std::span<const std::string> words, std::span<const std::string> before, size_t from) {
  from = std::min({from, words.size(), before.size()});
  const auto differs = std::ranges::mismatch(words.subspan(from), before.subspan(from));
  return from + static_cast<size_t>(differs.in1 - words.subspan(from).begin());
}

LiveTranscriber::LiveTranscriber(Transcriber& transcriber, LiveOptions options)
    : transcriber_(transcriber), options_(options), rate_(transcriber.shape().sample_rate),
      longest_(static_cast<uint64_t>(transcriber.shape().samples * longest_share)), voice_(rate_, at_once()) {
}

Status LiveTranscriber::push(std::span<const float> samples, const LiveFunction& on_text) {
  kept_.append(samples);
  voice_.push(samples);
  return hear(on_text);
}

Status LiveTranscriber::end(const LiveFunction& on_text) {
  voice_.end();
  ended_ = true;
  return hear(on_text);
}

void LiveTranscriber::forget(uint64_t before) {
  kept_.forget(before);
  voice_.forget(kept_.first());
}

Status LiveTranscriber::hear(const LiveFunction& on_text) {
  for (;;) {
    const std::optional<VoiceActivity::Range> speech = voice_.next(begin_);
    if (!speaking_) {
      begin_ = speech ? speech->begin : std::max(begin_, voice_.decided());
      forget(begin_);
      if (!speech) return {};
      speaking_ = true;
      heard_ = begin_;
      words_.clear();
      passed_on_ = 0;
    }
    const uint64_t end = speech ? speech->end : voice_.decided();
    const bool paused = end < voice_.decided() || ended_;
    if (end - begin_ >= longest_) {
      const auto part = kept_.from(begin_, longest_);
      PUMICE_CHECK(hear_once(begin_ + quiet_end(part, rate_), true, on_text));
    } else if (paused) {
      PUMICE_CHECK(hear_once(end, true, on_text));
    } else {
      const auto step = static_cast<uint64_t>(options_.step * rate_);
      return kept_.end() >= heard_ + step ? hear_once(kept_.end(), false, on_text) : Status();
    }
  }
}

// Hears what is being spoken, up to `end`.
Status LiveTranscriber::hear_once(uint64_t end, bool last, const LiveFunction& on_text) {
  const auto samples = kept_.from(begin_, end - begin_);
  // Until the pause the next pass is the better second try: it hears more.
  transcriber_.set_fallback(last);
  PUMICE_TRY(const Transcript transcript, transcriber_.transcribe(samples, {}));
  LiveText live;
  for (const TranscriptSegment& segment : transcript.segments) live.whole += segment.text;
  std::vector<std::string> words = split(live.whole, separates_words(transcript.language));
  const size_t agreed = last ? words.size() : agreed_words(words, words_, passed_on_);
  for (; passed_on_ < agreed; ++passed_on_) live.text += words[passed_on_];
  words_ = std::move(words);
  heard_ = end;
  live.start = static_cast<double>(begin_) / rate_;
  live.end = static_cast<double>(end) / rate_;
  live.ended = last;
  if (!last) live.whole.clear();
  if (last || !live.text.empty()) on_text(live);
  if (!last) return {};
  speaking_ = false;
  begin_ = end;
  return {};
}

} // namespace pumice
