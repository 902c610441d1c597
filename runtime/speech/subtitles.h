#pragma once

#include <string>
#include <vector>

#include "speech/transcription.h"

namespace pumice {

// A line of a transcript with its time, in seconds.
struct Subtitle {
  double start = 0, end = 0;
  std::string text;
};

// The text of a segment, or without a tokenizer its ids.
std::string text_of(const TranscriptSegment& segment, bool has_text);
// One for the segment, or where words are timed for each word.
std::vector<Subtitle> subtitles_of(const TranscriptSegment& segment, bool has_text);

// A transcript as a file of SubRip or WebVTT.
std::string srt_of(const Transcript& transcript, bool has_text);
std::string vtt_of(const Transcript& transcript, bool has_text);

} // namespace pumice
