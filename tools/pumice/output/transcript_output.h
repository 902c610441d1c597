#pragma once

#include <string>
#include <vector>

#include "output/json_output.h"
#include "speech/subtitles.h"

// The forms in which `pumice transcribe` prints and writes what was said.
namespace pumice::command {

enum class TranscriptForm { text, timed_text, json, srt, vtt };

struct SpokenFile {
  std::string path;
  double seconds = 0;
  bool partial = false; // not transcribed to its end, or damaged
};

// A segment in the forms `text` and `timed_text`: a line, or one for each word where they are timed. Each
// begins with `name`.
std::string lines_of(const TranscriptSegment& segment, bool has_text, bool timed, const std::string& name);

// A code, or null where it is not known.
inline Json language_json(const std::string& language) {
  return language.empty() ? Json() : Json(language);
}
// The fields of --json: without device and driver.
Json json_of(const Transcript& transcript, const SpokenFile& file, const std::string& task, bool has_text);

// Where -o DIR puts a form of a file's transcript: DIR/NAME.txt for .../NAME.flac.
std::string output_path(const std::string& folder, const std::string& file, TranscriptForm form);
Status write_text(const std::string& path, const std::string& text);
// Makes the folder, and checks that no two files have the same output path.
Status prepare_outputs(const std::string& folder, const std::vector<std::string>& files);

} // namespace pumice::command
