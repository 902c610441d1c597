#include "output/transcript_output.h"

#include <cmath>
#include <filesystem>
#include <map>

#include <fmt/format.h>

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
