#include "output/transcript_output.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/mapped_file.h"
#include "io/output_file.h"

namespace pumice::command {

namespace {

// "01:02.50"; from an hour on "01:01:02.50".
std::string clock(double seconds) {
  const auto hundredths = static_cast<uint64_t>(std::llround(seconds * 100));
  const uint64_t minutes = hundredths / 6000;
  const std::string rest = fmt::format("{:02}.{:02}", hundredths / 100 % 60, hundredths % 100);
  return minutes < 60 ? fmt::format("{:02}:{}", minutes, rest)
                      : fmt::format("{:02}:{:02}:{}", minutes / 60, minutes % 60, rest);
}

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

struct Subtitle {
  double start = 0, end = 0;
  std::string text;
};

// One for the segment, or where words are timed for each word.
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

std::vector<Subtitle> subtitles_of(const Transcript& transcript, bool has_text) {
  std::vector<Subtitle> all;
  for (const TranscriptSegment& segment : transcript.segments)
    std::ranges::move(subtitles_of(segment, has_text), std::back_inserter(all));
  return all;
}

Json json_of(const TranscriptSegment& segment, bool has_text) {
  Json json;
  const auto milliseconds = [](double seconds) { return std::round(seconds * 1000) / 1000; };
  json["start"] = milliseconds(segment.start);
  json["end"] = milliseconds(segment.end);
  if (has_text) json["text"] = segment.text;
  json["tokens"] = segment.tokens;
  if (segment.log_probability) json["avg_logprob"] = *segment.log_probability;
  if (segment.no_speech) json["no_speech_prob"] = *segment.no_speech;
  if (segment.log_probability) {
    json["temperature"] = std::round(segment.temperature * 1000.0) / 1000;
    json["compression_ratio"] = segment.compression;
  }
  for (const TimedWord& word : segment.words) {
    json["words"].push_back({{"word", word.text},
                             {"start", milliseconds(word.start)},
                             {"end", milliseconds(word.end)},
                             {"probability", word.probability}});
  }
  return json;
}

} // namespace

std::string text_of(const TranscriptSegment& segment, bool has_text) {
  std::string text = has_text ? segment.text : fmt::format("{}", fmt::join(segment.tokens, ","));
  text.erase(0, text.find_first_not_of(' '));
  return text;
}

std::string lines_of(const TranscriptSegment& segment, bool has_text, bool timed, const std::string& name) {
  if (!timed && segment.words.empty()) return name + text_of(segment, has_text) + "\n";
  std::string lines;
  for (const Subtitle& each : subtitles_of(segment, has_text))
    lines += fmt::format("{}[{} --> {}] {}\n", name, clock(each.start), clock(each.end), each.text);
  return lines;
}

Json json_of(const Transcript& transcript, const SpokenFile& file, const std::string& task, bool has_text) {
  Json json;
  json["audio"] = file.path;
  json["language"] = language_json(transcript.language);
  const float probability = transcript.language_probability;
  json["language_probability"] = probability > 0 ? Json(probability) : Json();
  json["task"] = task;
  json["duration"] = file.seconds;
  json["partial"] = file.partial;
  std::string text;
  Json segments = Json::array();
  for (const TranscriptSegment& segment : transcript.segments) {
    text += segment.text;
    segments.push_back(json_of(segment, has_text));
  }
  if (has_text) json["text"] = text;
  json["segments"] = std::move(segments);
  return json;
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

std::string output_path(const std::string& folder, const std::string& file, TranscriptForm form) {
  const char* ends[] = {".txt", ".txt", ".json", ".srt", ".vtt"};
  std::filesystem::path name = file == "-" ? "standard-input" : path_of(file).stem();
  name += ends[static_cast<size_t>(form)];
  return path_text(path_of(folder) / name);
}

Status write_text(const std::string& path, const std::string& text) {
  OutputFile file;
  PUMICE_CHECK(file.open(path_of(path)));
  PUMICE_CHECK(file.write(std::as_bytes(std::span(text))));
  return file.finish();
}

Status prepare_outputs(const std::string& folder, const std::vector<std::string>& files) {
  std::map<std::string, std::string> sources;
  for (const std::string& file : files) {
    const std::string path = output_path(folder, file, TranscriptForm::text);
    const auto [other, added] = sources.emplace(path, file);
    if (added) continue;
    return Error{Code::invalid_argument,
                 fmt::format("--output-dir: {} and {} would both be written to {}: use one folder for each",
                             other->second, file, path)};
  }
  std::error_code error;
  std::filesystem::create_directories(path_of(folder), error);
  if (!error) return {};
  return Error{Code::io, fmt::format("{}: the folder cannot be made: {}", folder, error.message())};
}

} // namespace pumice::command
