#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "media/audio.h"
#include "support/command/command.h"
#include "support/files/fixtures.h"
#include "support/files/speech_folder.h"

namespace {

// Options that make a sound of so many tokens, with the same codes each time.
std::vector<std::string> sounding(const SpeechFolder& folder, uint32_t tokens) {
  std::vector<std::string> options = {"--temp", "1",  "--repeat-penalty",    "1", "--seed",
                                      "5",      "-n", std::to_string(tokens)};
  for (const uint32_t id : folder.unwanted()) {
    options.push_back("--logit-bias");
    options.push_back(fmt::format("{}=-inf", id));
  }
  return options;
}

CommandResult speak(const SpeechFolder& folder, std::vector<std::string> arguments, uint32_t tokens = 120,
                    const std::string* input = nullptr) {
  arguments.insert(arguments.begin(), {"speak", folder.path().string()});
  const std::vector<std::string> more = sounding(folder, tokens);
  arguments.insert(arguments.end(), more.begin(), more.end());
  return pumice_command(arguments, input);
}

std::vector<float> samples_in(const std::filesystem::path& path) {
  const auto audio = pumice::read_audio(path);
  if (!audio.ok()) FAIL(audio.error().text());
  CHECK(audio->rate == 8000);
  return audio->samples;
}

} // namespace

TEST_CASE("speak writes a WAV file, or the same to standard output") {
  const SpeechFolder folder;
  const TemporaryFolder out;
  const std::string path = (out.path() / "out.wav").string();
  const CommandResult result = speak(folder, {"good morning", "-o", path});
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  CHECK(result.out == "");
  CHECK(result.err.find("s of sound, of 120 tokens") != std::string::npos);
  CHECK(result.err.find("seed 5") != std::string::npos);
  const std::vector<float> samples = samples_in(path);
  CHECK(samples.size() > 240);

  const CommandResult piped = speak(folder, {"good morning", "--output", "-", "--chunk-ms", "30"});
  REQUIRE(piped.status == 0);
  const auto heard = pumice::parse_audio(std::as_bytes(std::span(piped.out)), "standard output");
  if (!heard.ok()) FAIL(heard.error().text());
  CHECK(heard->samples == samples);

  // The text from a file, from a pipe and from standard input that is named.
  const std::string text = "good morning\n";
  const std::string file = out.write("text.txt", text).string();
  for (const std::vector<std::string>& from :
       {std::vector<std::string>{"-f", file}, std::vector<std::string>{}, std::vector<std::string>{"-"}}) {
    std::vector<std::string> arguments = from;
    arguments.insert(arguments.end(), {"-o", path});
    REQUIRE(speak(folder, arguments, 120, from.size() == 2 ? nullptr : &text).status == 0);
    CHECK(samples_in(path) == samples);
  }
}

TEST_CASE("speak --json says what was made, and --codec and --voice name files") {
  const SpeechFolder folder;
  const TemporaryFolder out;
  const std::string path = (out.path() / "out.wav").string();
  std::filesystem::rename(folder.codec(), out.path() / "dac");
  const std::string voice = out.write("voice.json", std::string_view(R"({"text": "the fox", "words": [
          {"word": "the", "duration": 0.1, "c1": [1, 2], "c2": [3, 4]}]})"))
                                .string();
  const std::string codec = (out.path() / "dac").string();
  const CommandResult plain = speak(folder, {"good morning", "-o", path, "--codec", codec, "--json"});
  CAPTURE(plain.err);
  REQUIRE(plain.status == 0);
  const nlohmann::json answer = nlohmann::json::parse(plain.out);
  CHECK(answer["text"] == "good morning");
  CHECK(answer["output"] == path);
  CHECK(answer["sample_rate"] == 8000);
  CHECK(answer["samples"] == samples_in(path).size());
  CHECK(answer["ids"].size() == 120);
  CHECK(answer["finish_reason"] == "count");
  CHECK(answer["prompt_tokens"] == 6);
  const CommandResult known =
      speak(folder, {"good morning", "-o", path, "--codec", codec, "--voice", voice, "--json"});
  CAPTURE(known.err);
  REQUIRE(known.status == 0);
  CHECK(nlohmann::json::parse(known.out)["prompt_tokens"] > 10);
  CHECK(nlohmann::json::parse(known.out)["ids"] != answer["ids"]);
}

TEST_CASE("speak refuses what it cannot do with its reason, before it writes anything") {
  const SpeechFolder folder;
  const TemporaryFolder out;
  const std::string path = (out.path() / "out.wav").string();
  CHECK(fails_saying(speak(folder, {"good", "-o", "-", "--json"}), {"--json", "--output"}) == "");
  CHECK(fails_saying(speak(folder, {" ", "-o", path}), {"text to speak is empty"}) == "");
  CHECK(fails_saying(speak(folder, {"-o", path}), {"no text to speak"}) == "");
  CHECK(fails_saying(speak(folder, {"good", "-o", (out.path() / "no" / "out.wav").string()}), {"out.wav"}) ==
        "");
  CHECK(fails_saying(speak(folder, {"good", "-o", (folder.path() / "config.json").string()}), {"--output"}) ==
        "");
  CHECK(fails_saying(speak(folder, {"good", "-o", path, "--voice", (folder.path() / "config.json").string()}),
                     {"config.json", "'text'"}) == "");
  CHECK(fails_saying(speak(folder, {"good", "-o", path, "--codec", folder.path().string()}),
                     {"makes no sound of codes"}) == "");
  CHECK(fails_saying(pumice_command({"speak", folder.codec().string(), "good", "-o", path}),
                     {"it writes no text", "pumice speak --codec"}) == "");
  std::filesystem::remove_all(folder.codec());
  CHECK(fails_saying(speak(folder, {"good", "-o", path}), {"codec", "--codec"}) == "");
  CHECK(fails_saying(pumice_command({"speak", fixtures().story().string(), "good", "-o", path, "--codec",
                                     fixtures().model("dac").string()}),
                     {"<|c1_0|>", "OuteTTS"}) == "");
  CHECK(fails_saying(pumice_command({"speak", fixtures().model("llama-gqa").string(), "good", "-o", path,
                                     "--codec", fixtures().model("dac").string()}),
                     {"tokenizer.json"}) == "");
  CHECK(!std::filesystem::exists(path));
  // What the model reads takes all of the context.
  CHECK(fails_saying(pumice_command({"speak", folder.path().string(), "good morning", "-o", path, "--context",
                                     "6", "--codec", fixtures().model("dac").string()}),
                     {"6 tokens", "in parts"}) == "");
}
