#include "speech/transcription.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include <doctest/doctest.h>

#include "generate/forced_pass.h"
#include "io/formats/safetensors.h"
#include "model/vocabulary.h"
#include "speech/ctc.h"
#include "speech/quiet_end.h"
#include "support/files/fixtures.h"
#include "support/files/whisper_folder.h"
#include "support/model.h"

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

// Every window is decoded, once.
TranscriptionOptions never_silent() {
  TranscriptionOptions options;
  options.no_speech = 2;
  options.voice_activity = false;
  options.temperatures = {0};
  return options;
}

std::string without_space(std::string text) {
  std::erase_if(text, [](char c) { return c == ' ' || c == '\n' || c == '\t'; });
  return text;
}

std::vector<float> joined(std::initializer_list<std::vector<float>> parts) {
  std::vector<float> all;
  for (const std::vector<float>& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
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
      CHECK((window.prompt[0] == Folder::start) == (&window == &heard.windows[0]));
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
  TranscriptionOptions options = never_silent();
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

namespace {

void check_windows_of(size_t seconds) {
  const Rig rig(fixtures().model("whisper"));
  TranscriptionOptions options;
  options.max_tokens = 2;
  const std::unique_ptr<Transcriber> transcriber = rig.transcriber(options);
  const auto bytes = [&] {
    EncoderDecoder& session = transcriber->session();
    return session.decoder().device_bytes() + session.encoder().runner().device_bytes();
  };
  const std::vector<float> audio = wail(seconds * 16000);
  REQUIRE(transcriber->transcribe(std::span(audio).first(16000), {}).ok());
  const uint64_t before = bytes();
  uint64_t calls = 0;
  const auto transcript = transcriber->transcribe(audio, {}, [&](uint64_t, uint64_t) { return ++calls > 0; });
  REQUIRE(transcript.ok());
  CHECK(calls == seconds + 1);
  CHECK(transcriber->session().encoder().steps() == seconds + 1);
  CHECK(bytes() == before);
  const auto stopped = transcriber->transcribe(audio, {}, [&](uint64_t done, uint64_t) { return done == 0; });
  REQUIRE(!stopped.ok());
  CHECK(stopped.error().code == Code::cancelled);
}

} // namespace

FIXTURE_TEST_CASE("a minute takes windows, and no more memory than one") {
  check_windows_of(60);
}

TEST_CASE("ten minutes take windows, and no more memory than one" * doctest::test_suite("long")) {
  check_windows_of(600);
}

FIXTURE_TEST_CASE("silence between windows costs nothing") {
  const Folder folder;
  const Rig rig(folder.path());
  TranscriptionOptions options = never_silent();
  options.max_tokens = 5;
  const std::vector<float> speech = wail(12000), silence(size_t{60} * 16000);
  const std::vector<float> sound = joined({silence, speech, silence, speech});
  options.voice_activity = true;
  const Heard heard = rig.hear(sound, options);
  CHECK(heard.encoder_steps <= 6); // of 122 windows
  CHECK(heard.encoder_steps >= 2);
  bool second = false;
  for (const TranscriptSegment& segment : heard.transcript.segments) {
    second = second || segment.start > 120;
    CHECK(segment.start >= 59.6);
    CHECK((segment.end <= 62 || segment.start >= 120.3));
  }
  CHECK(second);
  CHECK(rig.hear(silence, options).encoder_steps == 0);
  CHECK(rig.hear({}, options).encoder_steps == 0);
}

FIXTURE_TEST_CASE("a window goes on from the text before it, and the first one from a prompt") {
  const Folder folder;
  const Rig rig(folder.path());
  TranscriptionOptions options = never_silent();
  options.language = "en";
  options.max_tokens = 12;
  options.prompt = "Ada";
  const std::vector<float> audio = wail(45000);
  const Heard heard = rig.hear(audio, options);
  REQUIRE(heard.windows.size() >= 3);
  std::vector<uint32_t> history = {' ', 'A', 'd', 'a'};
  for (const TranscriptWindow& window : heard.windows) {
    std::vector<uint32_t> expected = history;
    if (expected.size() > 31) expected.erase(expected.begin(), expected.end() - 31); // of 64
    expected.insert(expected.begin(), Folder::start_of_previous);
    for (uint32_t token : {Folder::start, Folder::english, Folder::transcribe}) expected.push_back(token);
    CHECK(window.prompt == expected);
    for (const TranscriptSegment& segment : window.segments)
      history.insert(history.end(), segment.tokens.begin(), segment.tokens.end());
  }
  // What is written is what the whole prompt leads to.
  options.previous_text = false;
  const Heard apart = rig.hear(audio, options);
  for (const TranscriptWindow& window : apart.windows) CHECK(window.prompt.size() == 1 + 4 + 3);
  options.prompt = "";
  for (const TranscriptWindow& window : rig.hear(audio, options).windows) CHECK(window.prompt.size() == 3);

  options.prompt = "Ada";
  const Rig without(fixtures().model("whisper"));
  TranscriptionOptions only_prompt;
  only_prompt.prompt = "Ada";
  CHECK(without.refusal(only_prompt).find("prompt") != std::string::npos);
}

FIXTURE_TEST_CASE("a text that is not good is decoded again at the next temperature") {
  const Folder folder;
  const Rig rig(folder.path());
  TranscriptionOptions options = never_silent();
  options.language = "en";
  options.max_tokens = 30;
  options.log_probability = -1e9f;
  const std::vector<float> audio = wail(16000);
  const Heard cold = rig.hear(audio, options);
  REQUIRE(!cold.transcript.segments.empty());
  const TranscriptSegment& first = cold.transcript.segments[0];
  CHECK(first.temperature == 0);
  // It is too well compressible, or too improbable.
  for (const bool by_compression : {true, false}) {
    CAPTURE(by_compression);
    TranscriptionOptions warm = options;
    warm.temperatures = {0, 0.5f, 1};
    if (by_compression) {
      warm.compression = first.compression * 0.999f;
    } else {
      warm.log_probability = *first.log_probability + 0.001f;
    }
    const Heard heard = rig.hear(audio, warm);
    REQUIRE(heard.windows.size() == 1);
    REQUIRE(!heard.transcript.segments.empty());
    const TranscriptSegment& segment = heard.transcript.segments[0];
    CHECK(segment.temperature > 0);
    CHECK(heard.encoder_steps == 1); // it is decoded again, not heard again
    CHECK(heard.windows[0].tokens != cold.windows[0].tokens);
    CHECK((segment.temperature == 1 ||
           (segment.compression <= warm.compression && *segment.log_probability >= warm.log_probability)));
    // The same again, and the probability is that of the tokens.
    CHECK(rig.hear(audio, warm).windows[0].tokens == heard.windows[0].tokens);
    std::vector<uint32_t> tokens = heard.windows[0].prompt;
    double sum = 0;
    for (uint32_t token : heard.windows[0].tokens) {
      std::vector<float> scores = scores_after(rig, heard.windows[0].features, tokens);
      for (uint32_t other : {Folder::start, Folder::translate, Folder::transcribe, Folder::start_of_previous,
                             Folder::no_speech})
        scores[other] = -INFINITY;
      sum += std::log(double{probability(scores, token)});
      tokens.push_back(token);
    }
    const auto count = static_cast<double>(heard.windows[0].tokens.size());
    if (count == 30) CHECK(*segment.log_probability == doctest::Approx(sum / count).epsilon(1e-3));
  }
  // A good text stays, and a silent one too.
  TranscriptionOptions good = options;
  good.temperatures = {0, 1};
  good.compression = 1e9f;
  CHECK(rig.hear(audio, good).windows[0].tokens == cold.windows[0].tokens);
  good.log_probability = 1;
  good.no_speech = -1;
  CHECK(rig.hear(audio, good).encoder_steps == 1);
}

FIXTURE_TEST_CASE("words have times in order, and a segment has its words") {
  const Folder folder(nlohmann::json::object({{"alignment_heads", {{1, 0}, {1, 3}, {0, 2}}}}));
  const Rig rig(folder.path());
  TranscriptionOptions options = never_silent();
  options.words = true;
  options.max_tokens = 20;
  const std::vector<float> audio = wail(40000);
  const Heard heard = rig.hear(audio, options);
  REQUIRE(!heard.transcript.segments.empty());
  double time = 0;
  size_t words = 0;
  for (const TranscriptWindow& window : heard.windows) {
    std::string text, spoken;
    for (const TranscriptSegment& segment : window.segments) {
      spoken += segment.text;
      for (const TimedWord& word : segment.words) {
        text += word.text;
        CHECK(word.start <= word.end);
        CHECK(word.end <= 2.5 + 1e-9);
        CHECK(word.probability > 0);
        CHECK(word.probability <= 1);
        ++words;
      }
    }
    CHECK(text == spoken);
    if (window.segments.empty() || window.segments[0].words.empty()) continue;
    CHECK(window.segments[0].words[0].start >= time - 1e-9);
    time = window.segments[0].words[0].start;
  }
  CHECK(words > 0);
  options.words = false;
  CHECK(rig.hear(audio, options).transcript.segments[0].words.empty());
  const Folder wrong(nlohmann::json::object({{"alignment_heads", {{7, 0}}}}));
  options.words = true;
  CHECK(Rig(wrong.path()).refusal(options).find("alignment_heads") != std::string::npos);
}

FIXTURE_TEST_CASE("windows that are decoded together have the text that they have alone") {
  const Folder folder;
  const Rig rig(folder.path());
  TranscriptionOptions options = never_silent();
  options.language = "en";
  options.max_tokens = 12;
  options.timestamps = true;
  std::vector<float> audio = wail(75000);
  // Quiet places in the last quarters of windows.
  for (const ptrdiff_t at : {14000, 27000, 41000}) std::fill_n(audio.begin() + at, 1000, 0.0f);
  TranscriptionOptions several = options;
  several.windows = 4;
  const Heard together = rig.hear(audio, several);
  CHECK(together.encoder_steps == 2);
  check_segments(together.transcript, 75000 / 16000.0);
  size_t at = 0, index = 0;
  for (const TranscriptWindow& window : together.windows) {
    CAPTURE(index);
    const std::span<const float> rest = std::span(audio).subspan(at);
    const size_t count = rest.size() > 16000 ? quiet_end(rest.first(16000), 16000) : rest.size();
    const Heard alone = rig.hear(rest.first(count), options);
    REQUIRE(!alone.windows.empty());
    CHECK(alone.windows[0].features == window.features);
    CHECK(alone.windows[0].tokens == window.tokens);
    // What comes after the last timestamp is not lost.
    std::string kept;
    for (const TranscriptSegment& segment : window.segments) kept += segment.text;
    std::vector<uint32_t> spoken = window.tokens;
    std::erase_if(spoken, is_time);
    CHECK(without_space(kept) == without_space(rig.tokenizer->decode(spoken, false)));
    if (index == 1) CHECK(std::abs(window.segments.at(0).start - at / 16000.0) < 1);
    at += count;
    ++index;
  }
  CHECK(at == audio.size());
  CHECK(index > 4);
}

FIXTURE_TEST_CASE("the language that is spoken, without its text") {
  const Folder folder;
  const Rig rig(folder.path());
  const std::vector<float> audio = wail(40000);
  const std::unique_ptr<Transcriber> transcriber = rig.transcriber(never_silent());
  const auto detected = transcriber->detect_language(source_of(audio));
  if (!detected.ok()) FAIL(detected.error().text());
  CHECK(transcriber->session().encoder().steps() == 1);
  CHECK(detected->segments.empty());
  const auto whole = transcriber->transcribe(audio, {});
  REQUIRE(whole.ok());
  CHECK(whole->language == detected->language);
  CHECK(whole->language_probability == detected->language_probability);
  CHECK(whole->language_probability >= 0.5f); // of two
  CHECK(whole->language_probability < 1);
}

namespace {

// Hours of silence with a call in every hour, made as they are read.
class LongSound : public SoundSource {
public:
  explicit LongSound(uint64_t hours) : hours_(hours) {}
  Status read(size_t wanted, std::vector<float>& to) override {
    const uint64_t hour = uint64_t{3600} * 16000, left = hours_ * hour - at_;
    const size_t count = std::min<uint64_t>(wanted, left), before = to.size();
    to.resize(before + count);
    for (size_t i = 0; i < count; ++i) {
      const uint64_t within = (at_ + i) % hour;
      if (within >= hour / 2 && within < hour / 2 + 8000)
        to[before + i] = 0.3f * std::sin(0.3f * static_cast<float>(within - hour / 2));
    }
    at_ += count;
    most_ = std::max<uint64_t>(most_, to.size());
    return {};
  }
  uint64_t most() const { return most_; }

private:
  uint64_t hours_, at_ = 0;
  uint64_t most_ = 0;
};

} // namespace

FIXTURE_TEST_CASE("hours with a word in each take a few windows, and hold no more than one") {
  const Rig rig(fixtures().model("whisper"));
  TranscriptionOptions options;
  options.max_tokens = 2;
  const std::unique_ptr<Transcriber> transcriber = rig.transcriber(options);
  auto sound = std::make_unique<LongSound>(2);
  const LongSound& read = *sound;
  uint64_t most = 0;
  std::vector<double> starts;
  const auto on_window = [&](const TranscriptWindow& window) {
    for (const TranscriptSegment& segment : window.segments) starts.push_back(segment.start);
    most = std::max(most, read.most());
  };
  const auto transcript = transcriber->transcribe(std::move(sound), on_window);
  if (!transcript.ok()) FAIL(transcript.error().text());
  CHECK(transcriber->session().encoder().steps() <= 4);
  CHECK(transcriber->session().encoder().steps() >= 2);
  CHECK(most <= 16000 + (1 << 15) + (1 << 14)); // samples that were kept at a time
  for (const double start : starts) {
    const double within = std::fmod(start, 3600);
    CHECK(within >= 1799.6);
    CHECK(within <= 1801);
  }
}

// Moonshine hears as many samples as there are.
TEST_CASE("a decoder after an encoder of samples hears sounds of any length") {
  const Rig rig(fixtures().model("moonshine"));
  const auto file = SafetensorsFile::open(fixtures().model("moonshine") / "expected.safetensors");
  REQUIRE(file.ok());
  const std::vector<float> audio = *SafetensorsFile::floats(*file->find("input_values"));
  const auto ids = *SafetensorsFile::integers(*file->find("generated_ids"));
  TranscriptionOptions options = never_silent();
  options.max_tokens = static_cast<uint32_t>(ids.size());
  const Heard once = rig.hear(audio, options);
  REQUIRE(once.transcript.segments.size() == 1);
  CHECK(once.transcript.segments[0].tokens ==
        std::vector<uint32_t>(ids.begin(), std::ranges::find(ids, 2))); // what ends a text
  CHECK(once.transcript.segments[0].end == 1);

  // Of fewer samples than a frame is made of there is nothing to hear.
  constexpr size_t frame = 895;
  CHECK(rig.hear(std::vector<float>{0.3f}, options).encoder_steps == 0);
  CHECK(rig.hear(std::span(audio).first(frame - 1), options).encoder_steps == 0);
  CHECK(rig.hear(std::span(audio).first(frame), options).encoder_steps == 1);
  CHECK(rig.hear({}, options).encoder_steps == 0);
  CHECK(rig.hear(std::vector<float>(16000), options).encoder_steps == 1);
  options.voice_activity = true;
  CHECK(rig.hear(std::vector<float>(16000), options).encoder_steps == 0);
  options.voice_activity = false;

  // A sound that does not fit is cut where it is quiet, and two windows together are heard as apart.
  std::vector<float> long_sound = wail(480160);
  std::fill_n(long_sound.begin() + 400000, 4000, 0.0f);
  options.max_tokens = 4;
  const Heard apart = rig.hear(long_sound, options);
  CHECK(apart.encoder_steps == 2);
  REQUIRE(apart.windows.size() == 2);
  CHECK(apart.windows[0].seconds > 25);
  CHECK(apart.windows[0].seconds < 25.25);
  CHECK(apart.windows[0].seconds + apart.windows[1].seconds == doctest::Approx(30.01));
  options.windows = 2;
  const Heard together = rig.hear(long_sound, options);
  CHECK(together.encoder_steps == 1);
  REQUIRE(together.windows.size() == 2);
  for (size_t i = 0; i < 2; ++i) CHECK(together.windows[i].tokens == apart.windows[i].tokens);

  options.language = "en";
  CHECK(rig.refusal(options).find("leave them out") != std::string::npos);
}

TEST_CASE("a transducer gives the reference's tokens, in slices too") {
  for (const char* name : {"parakeet-tdt", "parakeet-rnnt"}) {
    CAPTURE(name);
    const auto model = load_model(fixtures().model(name));
    const auto file = SafetensorsFile::open(fixtures().model(name) / "expected.safetensors");
    REQUIRE(file.ok());
    const std::vector<float> audio = *SafetensorsFile::floats(*file->find("input_values"));
    const auto ids = *SafetensorsFile::integers(*file->find("generated_ids"));
    const auto places = *SafetensorsFile::integers(*file->find("heard_frames"));
    auto vocabulary = read_ctc_vocabulary(model->file());
    REQUIRE(vocabulary.ok());
    CHECK(!vocabulary->normalises);
    auto made = CtcTranscriber::create(model, *vocabulary, {});
    REQUIRE(made.ok());
    std::vector<uint32_t> heard;
    const auto on_window = [&](const TranscriptWindow& window) { heard = window.tokens; };
    REQUIRE((*made)->begin(source_of(audio), {}, on_window).ok());
    const auto transcript = (*made)->run();
    REQUIRE(transcript.ok());
    CHECK(heard == std::vector<uint32_t>(ids.begin(), ids.end()));
    REQUIRE(!transcript->segments.empty());
    const double seconds = static_cast<double>(audio.size()) / 16000;
    const uint32_t frames = model->shape().encoder->frames(static_cast<uint32_t>(audio.size()));
    CHECK(transcript->segments[0].start ==
          doctest::Approx(static_cast<double>(places[0]) * seconds / frames));
    heard.clear();
    REQUIRE((*made)->begin(source_of(audio), {}, on_window).ok());
    const auto start = std::chrono::steady_clock::now();
    for (bool active = true; active;) {
      const auto slice = (*made)->slice({1e-9}); // one dispatch, or one token or blank
      REQUIRE(slice.ok());
      active = slice->active;
      if (slice->report.dispatches == 0) std::this_thread::yield();
      REQUIRE(std::chrono::steady_clock::now() - start < std::chrono::minutes(1));
    }
    CHECK(heard == std::vector<uint32_t>(ids.begin(), ids.end()));
    CHECK(!CtcTranscriber::create(model, *vocabulary, {2}).ok());
  }
}

// Parakeet's fixture with a tokenizer, in which every second part begins a word.
TEST_CASE("parts of words become words") {
  const TemporaryFolder folder;
  for (const char* name : {"config.json", "preprocessor_config.json", "model.safetensors"})
    std::filesystem::copy_file(fixtures().model("parakeet") / name, folder.path() / name);
  std::vector<std::string> spelled = {""}; // the unknown token has no text
  nlohmann::json pieces = nlohmann::json::array({nlohmann::json::array({"<unk>", 0.0})});
  for (int id = 1; id < 33; ++id) {
    const std::string letter(1, static_cast<char>('A' + id));
    spelled.push_back(id % 2 ? " " + letter : letter);
    pieces.push_back(nlohmann::json::array({id % 2 ? "\u2581" + letter : letter, -1.0}));
  }
  const nlohmann::json space = {
      {"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "always"}, {"split", true}};
  folder.write("tokenizer.json",
               nlohmann::json{{"version", "1.0"},
                              {"added_tokens", nlohmann::json::array()},
                              {"normalizer", nullptr},
                              {"pre_tokenizer", space},
                              {"post_processor", nullptr},
                              {"decoder", space},
                              {"model", {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", pieces}}}}
                   .dump());
  const auto model = load_model(folder.path());
  auto vocabulary = read_ctc_vocabulary(model->file());
  if (!vocabulary.ok()) FAIL(vocabulary.error().text());
  auto made = CtcTranscriber::create(model, *vocabulary, {});
  REQUIRE(made.ok());
  const auto file = SafetensorsFile::open(fixtures().model("parakeet") / "expected.safetensors");
  REQUIRE(file.ok());
  std::string expected, text;
  const auto ids = *SafetensorsFile::integers(*file->find("generated_ids"));
  for (const int64_t token : ids) expected += spelled[static_cast<size_t>(token)];
  const std::vector<float> sound = *SafetensorsFile::floats(*file->find("input_values"));
  REQUIRE((*made)->begin(source_of(sound), {}, {}).ok());
  const auto transcript = (*made)->run();
  REQUIRE(transcript.ok());
  for (const TranscriptSegment& segment : transcript->segments) text += " " + segment.text;
  CHECK(text.size() > 4);
  CHECK(text.find(' ', 1) != std::string::npos);
  CHECK(text == (expected.starts_with(' ') ? expected : " " + expected));
}
