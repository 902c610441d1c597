#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "support/command.h"
#include "support/fixtures.h"
#include "support/whisper_folder.h"

namespace {

CommandResult transcribe(const std::string& model, const std::string& audio,
                         std::vector<std::string> arguments = {}) {
  arguments.insert(arguments.begin(), {"transcribe", model, audio, "--no-cache"});
  return pumice_command(arguments);
}

// A sound's file.
struct Sound {
  TemporaryFolder folder;
  std::string path;

  explicit Sound(const std::vector<float>& samples) : Sound(wav_bytes(samples)) {}
  explicit Sound(const std::string& bytes) : path(folder.write("sound.wav", bytes).string()) {}
};

} // namespace

TEST_CASE("transcribe prints segments, with their times or without") {
  const WhisperFolder folder;
  const std::string model = folder.path().string();
  const Sound sound(wail(40000));
  const CommandResult json =
      transcribe(model, sound.path, {"--json", "--timestamps", "--language", "en", "-n", "30"});
  CAPTURE(json.err);
  REQUIRE(json.status == 0);
  const nlohmann::json answer = nlohmann::json::parse(json.out);
  CHECK(answer["language"] == "en");
  CHECK(answer["task"] == "transcribe");
  CHECK(answer["duration"] == 2.5);
  REQUIRE(!answer["segments"].empty());
  double time = 0;
  for (const nlohmann::json& segment : answer["segments"]) {
    CHECK(segment["start"].get<double>() >= time);
    CHECK(segment["end"] >= segment["start"]);
    CHECK(segment["end"] <= 2.5);
    CHECK(segment["tokens"][0] >= WhisperFolder::first_timestamp);
    CHECK(segment["text"].is_string());
    CHECK(segment["avg_logprob"] < 0);
    CHECK(segment["no_speech_prob"] < 1);
    time = segment["start"];
  }
  const CommandResult timed = transcribe(model, sound.path, {"--timestamps", "--language", "en", "-n", "30"});
  REQUIRE(timed.status == 0);
  CHECK(timed.out.starts_with("[00:0"));
  CHECK(timed.out.find(" --> 00:0") != std::string::npos);
  CHECK(timed.err.find("2.50 s of sound in 'en'") != std::string::npos);
  const CommandResult plain = transcribe(model, sound.path, {"--language", "en", "-n", "30"});
  REQUIRE(plain.status == 0);
  CHECK(plain.out.find(" --> ") == std::string::npos);
  CHECK(!plain.out.empty());

  const CommandResult translated =
      transcribe(model, sound.path, {"--json", "--task", "translate", "--beams", "2", "-n", "5"});
  REQUIRE(translated.status == 0);
  CHECK(nlohmann::json::parse(translated.out)["task"] == "translate");
}

TEST_CASE("transcribe prints ids where nothing spells the vocabulary") {
  const std::string model = fixtures().model("whisper").string();
  const Sound sound(wail(20000));
  const CommandResult json = transcribe(model, sound.path, {"--json", "-n", "4"});
  CAPTURE(json.err);
  REQUIRE(json.status == 0);
  const nlohmann::json answer = nlohmann::json::parse(json.out);
  CHECK(!answer.contains("language"));
  CHECK(!answer.contains("text"));
  REQUIRE(answer["segments"].size() == 2);
  CHECK(answer["segments"][1]["start"] == 1);
  CHECK(answer["segments"][1]["end"] == 1.25);
  std::string ids;
  for (const nlohmann::json& id : answer["segments"][0]["tokens"]) {
    ids += (ids.empty() ? "" : ",") + std::to_string(id.get<uint32_t>());
  }
  CHECK(transcribe(model, sound.path, {"-n", "4"}).out.starts_with(ids + "\n"));
  CHECK(fails_saying(transcribe(model, sound.path, {"--language", "en"}), {"tokenizer", "language"}) == "");
}

TEST_CASE("transcribe takes silence and one sample, and says what is wrong with a file") {
  const WhisperFolder folder;
  const std::string model = folder.path().string();
  for (const size_t samples : {size_t{16000}, size_t{1}}) {
    const CommandResult result = transcribe(model, Sound(std::vector<float>(samples)).path, {"-n", "5"});
    CAPTURE(result.err);
    CHECK(result.status == 0);
  }
  const auto refused = [&](const std::string& bytes, const std::vector<std::string>& parts) {
    return fails_saying(transcribe(model, Sound(bytes).path), parts);
  };
  CHECK(refused(wav_bytes({}), {"sound.wav"}) == "");
  CHECK(refused("", {"sound.wav"}) == "");
  CHECK(refused("Once upon a time, there was a text that is no sound.\n", {"sound.wav"}) == "");
  std::string corrupt = wav_bytes(wail(1000));
  CHECK(refused(corrupt.substr(0, 500), {"sound.wav", "truncated"}) == "");
  corrupt[34] = 3; // bits of a sample
  CHECK(refused(corrupt, {"sound.wav", "bits"}) == "");
  CHECK(fails_saying(transcribe(model, (folder.path() / "nothing.flac").string()), {"nothing.flac"}) == "");
  const std::string text_model = fixtures().model("bart").string();
  CHECK(fails_saying(transcribe(text_model, Sound(wail(10)).path), {"bart", "hears nothing"}) == "");
  CHECK(fails_saying(transcribe(model, Sound(wail(10)).path, {"--task", "sing"}), {"--task", "sing"}) == "");
  CHECK(fails_saying(transcribe(model, Sound(wail(10)).path, {"--language", "tlh"}), {"tlh", "en, de"}) ==
        "");
}

TEST_CASE("transcribe shows where the decoder looked") {
  const std::string model = fixtures().model("whisper").string();
  const Sound sound(wail(16000));
  for (const char* name : {"a.png", "a.safetensors"}) {
    const std::filesystem::path file = sound.folder.path() / name;
    const CommandResult result =
        transcribe(model, sound.path, {"-n", "6", "--attention", file.string(), "--attention-head", "1"});
    CAPTURE(result.err);
    CHECK(result.status == 0);
    CHECK(std::filesystem::file_size(file) > 500);
  }
  CHECK(fails_saying(transcribe(model, sound.path, {"--attention", "a.txt"}), {"--attention", ".png"}) == "");
}
