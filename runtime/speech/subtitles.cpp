#include "speech/subtitles.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace pumice {

namespace {

// "01:01:02.500", with `point` before the milliseconds.
std::string subtitle_clock(double seconds, char point) {
  const auto all = static_cast<uint64_t>(std::llround(seconds * 1000));
  return fmt::format("{:02}:{:02}:{:02}{}{:03}", all / 3600000, all / 60000 % 60, all / 1000 % 60, point,
                     all % 1000);
}

// A subtitle ends at an empty line, so its text has none.
std::string one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    result += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
  }
  return result;
}

std::vector<Subtitle> subtitles_of(const Transcript& transcript, bool has_text) {
  std::vector<Subtitle> all;
  for (const TranscriptSegment& segment : transcript.segments)
    std::ranges::move(subtitles_of(segment, has_text), std::back_inserter(all));
  return all;
}

} // namespace

std::string text_of(const TranscriptSegment& segment, bool has_text) {
  std::string text = has_text ? segment.text : fmt::format("{}", fmt::join(segment.tokens, ","));
  text.erase(0, text.find_first_not_of(' '));
  return text;
}

std::vector<Subtitle> subtitles_of(const TranscriptSegment& segment, bool has_text) {
  if (segment.words.empty()) return {{segment.start, segment.end, one_line(text_of(segment, has_text))}};
  std::vector<Subtitle> subtitles;
  for (const TimedWord& word : segment.words) {
    std::string text = one_line(word.text);
    text.erase(0, text.find_first_not_of(' '));
    if (!text.empty()) subtitles.push_back({word.start, word.end, std::move(text)});
  }
  return subtitles;
}

std::string srt_of(const Transcript& transcript, bool has_text) {
  std::string result;
  size_t number = 0;
  for (const Subtitle& each : subtitles_of(transcript, has_text)) {
    result += fmt::format("{}\n{} --> {}\n{}\n\n", ++number, subtitle_clock(each.start, ','),
                          subtitle_clock(each.end, ','), each.text);
  }
  return result;
}

std::string vtt_of(const Transcript& transcript, bool has_text) {
  std::string result = "WEBVTT\n\n";
  for (const Subtitle& each : subtitles_of(transcript, has_text)) {
    result += fmt::format("{} --> {}\n{}\n\n", subtitle_clock(each.start, '.'), subtitle_clock(each.end, '.'),
                          escaped(each.text));
  }
  return result;
}

} // namespace pumice
