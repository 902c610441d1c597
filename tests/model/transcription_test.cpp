#include "speech/transcription.h"

#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>

#include "generate/forced_pass.h"
#include "io/safetensors.h"
#include "model/vocabulary.h"
#include "support/fixtures.h"
#include "support/model.h"
#include "support/whisper_folder.h"

using namespace pumice;

namespace {

using Folder = WhisperFolder;

struct Heard {
  Transcript transcript;
  std::vector<TranscriptWindow> windows;
  uint64_t encoder_steps = 0;
};

struct Rig {
  std::shared_ptr<const Model> model;
  std::shared_ptr<const Tokenizer> tokenizer; // may be null

  explicit Rig(const std::filesystem::path& path) : model(load_model(path)) {
    auto found = load_tokenizer(model->file());
    if (found.ok()) tokenizer = *found;
  }

  std::unique_ptr<Transcriber> transcriber(const TranscriptionOptions& options) const {
    auto made = Transcriber::create(model, tokenizer, options);
    if (!made.ok()) FAIL(made.error().text());
    return *std::move(made);
  }

  std::string refusal(const TranscriptionOptions& options) const {
    const auto made = Transcriber::create(model, tokenizer, options);
    return made.ok() ? "" : made.error().text();
  }

  Heard hear(std::span<const float> samples, const TranscriptionOptions& options) const {
    const std::unique_ptr<Transcriber> transcriber = this->transcriber(options);
    Heard heard;
    const auto on_window = [&](const TranscriptWindow& window) { heard.windows.push_back(window); };
    auto transcript = transcriber->transcribe(samples, on_window);
    if (!transcript.ok()) FAIL(transcript.error().text());
    heard.transcript = *std::move(transcript);
    heard.encoder_steps = transcriber->session().encoder().steps();
    return heard;
  }
};

std::vector<float> answers(const std::string& name) {
  const auto file = SafetensorsFile::open(fixtures().model("whisper") / "expected.safetensors");
  if (!file.ok()) FAIL(file.error().text());
  return *SafetensorsFile::floats(*file->find(name));
}

std::vector<uint32_t> generated_ids() {
  const auto file = SafetensorsFile::open(fixtures().model("whisper") / "expected.safetensors");
  const auto ids = *SafetensorsFile::integers(*file->find("generated_ids"));
  return {ids.begin(), ids.end()};
}

// The scores of what follows a prompt.
std::vector<float> scores_after(const Rig& rig, const std::vector<float>& features,
                                const std::vector<uint32_t>& prompt) {
  ForcedPassOptions options;
  options.readable = {"logits"};
  auto pass = ForcedPass::create(rig.model, options);
  if (!pass.ok()) FAIL(pass.error().text());
  ForcedInput input;
  input.input.values = features;
  input.tokens = prompt;
  REQUIRE((*pass)->run(std::span(&input, 1)).ok());
  const auto logits = (*pass)->read("logits", 0);
  REQUIRE(logits.ok());
  return {logits->end() - rig.model->shape().vocabulary, logits->end()};
}

bool is_time(uint32_t token) {
  return token >= Folder::first_timestamp;
}

// The form that Whisper's timestamps have.
void check_timed(const std::vector<uint32_t>& tokens) {
  REQUIRE(!tokens.empty());
  CHECK(is_time(tokens[0]));
  uint32_t run = 1, latest = tokens[0];
  for (size_t i = 1; i < tokens.size(); ++i) {
    CHECK(tokens[i] != Folder::no_timestamps);
    CHECK(tokens[i] <= Folder::last_timestamp);
    run = is_time(tokens[i]) ? run + 1 : 0;
    CHECK(run <= (i == 1 ? 1 : 2));
    if (run == 0) {
      const bool single = i > 1 && is_time(tokens[i - 1]) && !is_time(tokens[i - 2]);
      CHECK(!single);
      continue;
    }
    CHECK(tokens[i] >= latest + (run == 1 ? 1 : 0));
    latest = tokens[i];
  }
}

void check_segments(const Transcript& transcript, double seconds) {
  double time = 0;
  for (const TranscriptSegment& segment : transcript.segments) {
    CHECK(segment.start >= time - 1e-9);
    CHECK(segment.end >= segment.start);
    CHECK(segment.end <= seconds + 1e-9);
    time = segment.start;
    CHECK(!segment.text.empty());
    CHECK(segment.log_probability);
    CHECK(segment.no_speech);
  }
}

TranscriptionOptions never_silent() {
  TranscriptionOptions options;
  options.no_speech = 2;
  return options;
}

} // namespace

FIXTURE_TEST_CASE("without Whisper's tokens, transcripts of windows back to back are joined") {
  const Rig rig(fixtures().model("whisper"));
  REQUIRE(!rig.tokenizer);
  std::vector<uint32_t> expected = generated_ids();
  TranscriptionOptions options;
  options.max_tokens = static_cast<uint32_t>(expected.size());
  expected.erase(std::ranges::find(expected, 2u), expected.end()); // what ends a text
  std::vector<float> audio = answers("audio_16khz");
  const Heard once = rig.hear(audio, options);
  REQUIRE(once.transcript.segments.size() == 1);
  CHECK(once.transcript.segments[0].tokens == expected);
  CHECK(once.transcript.language == "");

  audio.insert(audio.end(), audio.begin(), audio.end());
  audio.resize(audio.size() + 100);
  const Heard more = rig.hear(audio, options);
  CHECK(more.encoder_steps == 3);
  REQUIRE(more.transcript.segments.size() >= 2);
  CHECK(more.transcript.segments[1].tokens == expected);
  CHECK(more.transcript.segments[1].start == 1);
  CHECK(more.transcript.segments[1].end == 2);

  options.timestamps = true;
  CHECK(rig.refusal(options).find("tokenizer") != std::string::npos);
}

FIXTURE_TEST_CASE("the decoder is forced to the detected language and the task") {
  const Folder folder;
  const Rig rig(folder.path());
  REQUIRE(rig.tokenizer);
  for (const std::vector<float>& audio : {wail(16000), answers("audio_16khz"), std::vector<float>(9000)}) {
    const Heard heard = rig.hear(audio, never_silent());
    REQUIRE(heard.windows.size() == 1);
    CHECK(heard.encoder_steps == 1);
    const TranscriptWindow& window = heard.windows[0];
    const std::vector<float> scores = scores_after(rig, window.features, {Folder::start});
    const bool german = scores[Folder::german] > scores[Folder::english];
    CHECK(heard.transcript.language == (german ? "de" : "en"));
    CHECK(window.prompt == std::vector<uint32_t>{Folder::start, german ? Folder::german : Folder::english,
                                                 Folder::transcribe, Folder::no_timestamps});
    CHECK(std::ranges::none_of(window.tokens, is_time));
    double sum = 0;
    for (float score : scores) sum += std::exp(double{score});
    for (const TranscriptSegment& segment : heard.transcript.segments) {
      CHECK(*segment.no_speech == doctest::Approx(std::exp(scores[Folder::no_speech]) / sum));
    }
  }
  TranscriptionOptions options = never_silent();
  options.language = "de";
  options.translate = true;
  const Heard told = rig.hear(wail(16000), options);
  CHECK(told.transcript.language == "de");
  CHECK(told.windows.at(0).prompt ==
        std::vector<uint32_t>{Folder::start, Folder::german, Folder::translate, Folder::no_timestamps});
  options.language = "tlh";
  CHECK(rig.refusal(options).find("\"tlh\": the model knows en, de") != std::string::npos);
}

FIXTURE_TEST_CASE("forced tokens give the same text as a prompt of these tokens") {
  const Folder folder;
  const Rig rig(folder.path());
  TranscriptionOptions options = never_silent();
  options.language = "en";
  options.max_tokens = 20;
  const Heard heard = rig.hear(wail(16000), options);
  const TranscriptWindow& window = heard.windows.at(0);
  // One token after the other, each the best of those that may come.
  std::vector<uint32_t> tokens = window.prompt;
  double sum = 0;
  size_t count = 0;
  for (bool ended = false; !ended && count < options.max_tokens; ++count) {
    std::vector<float> scores = scores_after(rig, window.features, tokens);
    for (uint32_t token : {Folder::start, Folder::translate, Folder::transcribe, Folder::start_of_previous,
                           Folder::no_speech}) {
      scores[token] = -INFINITY;
    }
    const auto best = std::ranges::max_element(scores);
    double all = 0;
    for (float score : scores) all += std::exp(double{score} - *best);
    sum -= std::log(all);
    tokens.push_back(static_cast<uint32_t>(best - scores.begin()));
    ended = tokens.back() == Folder::end;
  }
  if (tokens.back() == Folder::end) tokens.pop_back();
  CHECK(std::equal(tokens.begin() + 4, tokens.end(), window.tokens.begin(), window.tokens.end()));
  REQUIRE(!heard.transcript.segments.empty());
  CHECK(*heard.transcript.segments[0].log_probability ==
        doctest::Approx(sum / static_cast<double>(count)).epsilon(1e-3));
}

FIXTURE_TEST_CASE("timestamps come in pairs, and time goes on from window to window") {
  const Folder folder(nlohmann::json::object(
      {{"max_initial_timestamp_index", 10}, {"begin_suppress_tokens", {32, Folder::end}}}));
  const Rig rig(folder.path());
  const std::vector<float> audio = wail(56789);
  for (const uint32_t beams : {1u, 3u}) {
    CAPTURE(beams);
    TranscriptionOptions options = never_silent();
    options.beams = beams;
    const Heard heard = rig.hear(audio, options); // longer than a window: there are times without asking
    CHECK(heard.encoder_steps == heard.windows.size());
    CHECK(heard.windows.size() >= 4);
    for (const TranscriptWindow& window : heard.windows) {
      CHECK(window.prompt.back() == Folder::transcribe);
      check_timed(window.tokens);
      CHECK(window.tokens[0] <= Folder::first_timestamp + 10);
    }
    check_segments(heard.transcript, 56789 / 16000.0);
  }
  TranscriptionOptions options = never_silent();
  options.timestamps = true;
  const Heard one = rig.hear(std::span(audio).first(8000), options);
  REQUIRE(!one.windows.empty());
  check_timed(one.windows[0].tokens);
  check_segments(one.transcript, 0.5);
}

FIXTURE_TEST_CASE("a window without speech is left out") {
  const Folder folder;
  const Rig rig(folder.path());
  TranscriptionOptions options;
  options.no_speech = -1; // exceeded by any probability
  options.log_probability = 1;
  const Heard silent = rig.hear(wail(40000), options);
  CHECK(silent.windows.empty());
  CHECK(silent.transcript.segments.empty());
  CHECK(silent.encoder_steps == 3);
  CHECK(silent.transcript.language != "");
  options.log_probability = -1e9f; // tokens are surer than that
  CHECK(!rig.hear(wail(40000), options).windows.empty());
}

FIXTURE_TEST_CASE("a model for one language is forced to none") {
  const Folder folder(nlohmann::json::object({{"is_multilingual", false}}));
  const Rig rig(folder.path());
  const Heard heard = rig.hear(wail(16000), never_silent());
  CHECK(heard.transcript.language == "");
  CHECK(heard.windows.at(0).prompt == std::vector<uint32_t>{Folder::start, Folder::no_timestamps});
  TranscriptionOptions options;
  options.language = "en";
  CHECK(rig.refusal(options).find("one language") != std::string::npos);
}

FIXTURE_TEST_CASE("no sound, silence, one sample") {
  const Folder folder;
  for (const std::filesystem::path& path : {folder.path(), fixtures().model("whisper")}) {
    const Rig rig(path);
    CHECK(rig.hear({}, {}).transcript.segments.empty());
    CHECK(rig.hear(std::vector<float>(16000), never_silent()).encoder_steps == 1);
    CHECK(rig.hear(std::vector<float>{0.3f}, never_silent()).encoder_steps == 1);
  }
}

FIXTURE_TEST_CASE("ten minutes take windows, and no more memory than one") {
  const Rig rig(fixtures().model("whisper"));
  TranscriptionOptions options;
  options.max_tokens = 2;
  const std::unique_ptr<Transcriber> transcriber = rig.transcriber(options);
  const auto bytes = [&] {
    EncoderDecoder& session = transcriber->session();
    return session.decoder().device_bytes() + session.encoder().runner().device_bytes();
  };
  const std::vector<float> audio = wail(size_t{600} * 16000);
  REQUIRE(transcriber->transcribe(std::span(audio).first(16000), {}).ok());
  const uint64_t before = bytes();
  uint64_t calls = 0;
  const auto transcript = transcriber->transcribe(audio, {}, [&](uint64_t, uint64_t) { return ++calls > 0; });
  REQUIRE(transcript.ok());
  CHECK(calls == 601);
  CHECK(transcriber->session().encoder().steps() == 601);
  CHECK(bytes() == before);
  const auto stopped = transcriber->transcribe(audio, {}, [&](uint64_t done, uint64_t) { return done == 0; });
  REQUIRE(!stopped.ok());
  CHECK(stopped.error().code == Code::cancelled);
}
