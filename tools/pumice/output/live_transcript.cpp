#include "output/live_transcript.h"

#include <cmath>

#include "output/transcript_output.h"
#include "speech/live_transcription.h"
#include "terminal/terminal.h"

namespace pumice::command {

namespace {

std::string json_of(const LiveText& text, const std::string& language) {
  const auto milliseconds = [](double seconds) { return std::round(seconds * 1000) / 1000; };
  Json json;
  json["start"] = milliseconds(text.start);
  json["end"] = milliseconds(text.end);
  json["language"] = language_json(language);
  json["text"] = text.whole;
  return json_text(json);
}

} // namespace

Status print_live(Transcriber& transcriber, SoundInput& input, bool json) {
  constexpr size_t piece = 1600; // samples: a tenth of a second, or whatever has arrived by then
  LiveTranscriber live(transcriber, {});
  bool within_line = false;
  const auto on_text = [&](const LiveText& text) {
    if (json) {
      if (text.ended && !text.whole.empty()) print_result(json_of(text, transcriber.language()));
      return;
    }
    std::string printed = text.text;
    if (!within_line) printed.erase(0, printed.find_first_not_of(' '));
    within_line |= !printed.empty();
    if (text.ended && within_line) {
      printed += '\n';
      within_line = false;
    }
    print_result(printed);
  };
  std::vector<float> samples;
  while (!input.ended()) {
    samples.clear();
    PUMICE_CHECK(input.read(piece, samples));
    PUMICE_CHECK(input.read_arrived(samples));
    PUMICE_CHECK(live.push(samples, on_text));
  }
  return live.end(on_text);
}

} // namespace pumice::command
