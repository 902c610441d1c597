#include "speech/live_transcription.h"

#include <algorithm>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "model/vocabulary.h"
#include "support/command/command.h"
#include "support/files/fixtures.h"
#include "support/files/whisper_folder.h"
#include "support/in_turn.h"
#include "support/model.h"

using namespace pumice;

namespace {

std::unique_ptr<Transcriber> transcriber_of(const WhisperFolder& folder, bool falls_back = false) {
  const auto model = load_model(folder.path());
  const auto tokenizer = load_tokenizer(model->file());
  if (!tokenizer.ok()) FAIL(tokenizer.error().text());
  TranscriptionOptions options;
  options.language = "en";
  options.no_speech = 2;
  options.voice_activity = false;
  options.temperatures = {0};
  if (falls_back) {
    options.temperatures.push_back(1);
    options.log_probability = 1; // no text is good
  }
  options.max_tokens = 8;
  auto made = Transcriber::create(model, *tokenizer, options);
  if (!made.ok()) FAIL(made.error().text());
  return *std::move(made);
}

// Two short calls with silence around them.
std::vector<float> two_calls() {
  std::vector<float> sound(16000), call = wail(2400);
  for (int i = 0; i < 2; ++i) {
    sound.insert(sound.end(), call.begin(), call.end());
    sound.resize(sound.size() + 24000);
  }
  return sound;
}

} // namespace

TEST_CASE("two passes agree on what follows the words that were passed on") {
  const std::vector<std::string> before = {"a", "b", "c", "d"}, other = {"x", "b", "c", "e", "f"};
  CHECK(agreed_words(before, before, 0) == 4);
  CHECK(agreed_words(other, before, 0) == 0);
  CHECK(agreed_words(other, before, 1) == 3);
  CHECK(agreed_words(other, before, 3) == 3);
  CHECK(agreed_words(other, before, 9) == 4); // nothing behind the shorter one
  CHECK(agreed_words({}, before, 2) == 0);
}

// In the shortest pieces; a long run has longer ones too.
FIXTURE_TEST_CASE("text comes while it is spoken, and all of it after a pause") {
  const WhisperFolder folder;
  const std::unique_ptr<Transcriber> transcriber = transcriber_of(folder);
  const std::vector<float> sound = two_calls();
  for (const size_t piece : turn_of(std::array{size_t{160}, size_t{1600}, size_t{4000}}, 0)) {
    CAPTURE(piece);
    LiveTranscriber live(*transcriber, {0.1});
    std::vector<LiveText> texts;
    std::vector<double> times; // of arriving, seconds
    size_t at = 0;
    const auto on_text = [&](const LiveText& text) {
      texts.push_back(text);
      times.push_back(static_cast<double>(at) / 16000);
    };
    while (at < sound.size()) {
      const size_t count = std::min(piece, sound.size() - at);
      at += count;
      REQUIRE(live.push(std::span(sound).subspan(at - count, count), on_text).ok());
    }
    REQUIRE(live.end(on_text).ok());
    std::vector<LiveText> ended;
    std::string so_far;
    for (size_t i = 0; i < texts.size(); ++i) {
      so_far += texts[i].text;
      if (!texts[i].ended) continue;
      ended.push_back(texts[i]);
      CHECK(times[i] - texts[i].end <= 1); // the pause is noticed within a second
      so_far.clear();
    }
    REQUIRE(ended.size() == 2);
    CHECK(std::abs(ended[0].start - 0.7) < 0.05);
    CHECK(std::abs(ended[0].end - 1.45) < 0.05);
    CHECK(std::abs(ended[1].start - 2.35) < 0.05);
    // The last pass heard the same samples as a transcriber that gets them at once.
    const auto begin = static_cast<size_t>(std::llround(ended[0].start * 16000)),
               end = static_cast<size_t>(std::llround(ended[0].end * 16000));
    const auto whole = transcriber->transcribe(std::span(sound).subspan(begin, end - begin), {});
    REQUIRE(whole.ok());
    std::string expected;
    for (const TranscriptSegment& segment : whole->segments) expected += segment.text;
    CHECK(ended[0].whole == expected);
  }
}

FIXTURE_TEST_CASE("what is still being spoken is decoded once, and again only after the pause") {
  const WhisperFolder folder;
  const std::vector<float> sound = two_calls();
  std::vector<std::string> texts[2], wholes[2];
  for (const bool falls_back : {false, true}) {
    const std::unique_ptr<Transcriber> transcriber = transcriber_of(folder, falls_back);
    LiveTranscriber live(*transcriber, {0.1});
    const auto on_text = [&](const LiveText& text) {
      if (text.ended) {
        wholes[falls_back].push_back(text.whole);
      } else {
        texts[falls_back].push_back(text.text);
      }
    };
    for (size_t at = 0; at < sound.size(); at += 1600) {
      const size_t count = std::min<size_t>(1600, sound.size() - at);
      REQUIRE(live.push(std::span(sound).subspan(at, count), on_text).ok());
    }
    REQUIRE(live.end(on_text).ok());
  }
  CHECK(!texts[0].empty());
  CHECK(texts[0] == texts[1]);
  CHECK(wholes[0].size() == wholes[1].size());
  CHECK(wholes[0] != wholes[1]);
}

FIXTURE_TEST_CASE("speech without a pause is cut, and silence is nothing") {
  const WhisperFolder folder;
  const std::unique_ptr<Transcriber> transcriber = transcriber_of(folder);
  LiveTranscriber live(*transcriber, {});
  size_t ended = 0;
  double until = 0;
  const auto on_text = [&](const LiveText& text) {
    CHECK(text.start >= until - 1e-9);
    if (!text.ended) return;
    ++ended;
    CHECK(text.end - text.start <= 0.8 + 1e-9); // of a window of one second
    until = text.end;
  };
  const std::vector<float> long_call = wail(80000);
  REQUIRE(live.push(long_call, on_text).ok());
  REQUIRE(live.end(on_text).ok());
  CHECK(ended >= 6);
  CHECK(until == doctest::Approx(5));

  LiveTranscriber silent(*transcriber, {});
  const uint64_t steps = transcriber->session().encoder().steps();
  const auto never = [](const LiveText&) { FAIL("text of silence"); };
  REQUIRE(silent.push(std::vector<float>(200000), never).ok());
  REQUIRE(silent.end(never).ok());
  CHECK(transcriber->session().encoder().steps() == steps);
}

TEST_CASE("transcribe --live prints what raw samples say") {
  const WhisperFolder folder;
  const std::vector<float> sound = two_calls();
  std::string whole, floats;
  for (const float sample : sound) {
    const auto number = static_cast<int16_t>(std::lround(sample * 32767));
    whole.append(reinterpret_cast<const char*>(&number), 2);
    const float rounded = static_cast<float>(number) / 32768;
    floats.append(reinterpret_cast<const char*>(&rounded), 4);
  }
  const auto run = [&](const std::string& input, std::vector<std::string> more) {
    more.insert(more.begin(),
                {"transcribe", folder.path().string(), "-", "--language", "en", "-n", "8", "--no-fallback"});
    return pumice_command(more, input);
  };
  const CommandResult json = run(whole, {"--live", "--json"}), text = run(whole, {"--live"});
  CAPTURE(json.err);
  REQUIRE(json.status == 0);
  CHECK(text.status == 0);
  for (const std::string& line : {json.out.substr(0, json.out.find('\n'))}) {
    const nlohmann::json answer = nlohmann::json::parse(line);
    CHECK(answer["start"].get<double>() == doctest::Approx(0.7).epsilon(0.1));
    CHECK(answer["language"] == "en");
    CHECK(answer["text"].is_string());
  }
  CHECK(run(floats, {"--live", "--raw", "f32", "--json"}).out == json.out);
  // The same samples without a pause for thought: a transcript of a pipe.
  const CommandResult raw = run(whole, {"--raw", "s16", "--json"});
  CAPTURE(raw.err);
  REQUIRE(raw.status == 0);
  CHECK(nlohmann::json::parse(raw.out)["duration"] == static_cast<double>(sound.size()) / 16000);
  CHECK(fails_saying(pumice_command({"transcribe", folder.path().string(), "a.wav", "--live"}),
                     {"--live", "'-'"}) == "");
  CHECK(fails_saying(run(whole, {"--live", "--srt"}), {"--live", "--srt"}) == "");
  for (const std::vector<std::string>& none : {std::vector<std::string>{"--live"}, {"--raw", "s16"}})
    CHECK(fails_saying(run("", none), {"standard input", "expected sound, found none"}) == "");
  const float infinite = INFINITY;
  CHECK(fails_saying(run(std::string(reinterpret_cast<const char*>(&infinite), 4), {"--raw", "f32"}),
                     {"standard input", "finite"}) == "");
}
