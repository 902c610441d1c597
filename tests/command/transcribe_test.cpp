#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <sstream>
#include <thread>

#ifndef _WIN32
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

#include <nlohmann/json.hpp>

#include "support/command/command.h"
#include "support/files/fixtures.h"
#include "support/files/letters_folder.h"
#include "support/files/whisper_folder.h"
#include "support/picture_pair.h"

namespace {

CommandResult transcribe(const std::string& model, const std::string& audio,
                         std::vector<std::string> arguments = {}) {
  arguments.insert(arguments.begin(), {"transcribe", model, audio});
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
  CHECK(answer.at("language").is_null());
  CHECK(answer.at("language_probability").is_null());
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
  corrupt[34] = 3; // bits of a sample
  CHECK(refused(corrupt, {"sound.wav", "bits"}) == "");
  CHECK(fails_saying(transcribe(model, (folder.path() / "nothing.flac").string()), {"nothing.flac"}) == "");
  const std::string text_model = fixtures().model("bart").string();
  CHECK(fails_saying(transcribe(text_model, Sound(wail(10)).path), {"bart", "does not read sound"}) == "");
  CHECK(fails_saying(transcribe(model, Sound(wail(10)).path, {"--task", "sing"}), {"--task", "sing"}) == "");
  CHECK(fails_saying(transcribe(model, Sound(wail(10)).path, {"--language", "tlh"}), {"tlh", "en, de"}) ==
        "");
}

TEST_CASE("transcribe times words, detects the language, and takes a prompt") {
  const WhisperFolder folder;
  const std::string model = folder.path().string();
  const Sound sound(wail(40000));
  const std::vector<std::string> common = {"--language", "en", "-n", "20", "--no-fallback"};
  const auto run = [&](std::vector<std::string> more) {
    more.insert(more.end(), common.begin(), common.end());
    return transcribe(model, sound.path, more);
  };
  const CommandResult json = run({"--json", "--words"});
  CAPTURE(json.err);
  REQUIRE(json.status == 0);
  const nlohmann::json answer = nlohmann::json::parse(json.out);
  CHECK(answer["language_probability"] == 1);
  size_t words = 0;
  for (const nlohmann::json& segment : answer["segments"]) {
    CHECK(segment["temperature"] == 0);
    CHECK(segment["compression_ratio"] > 0);
    std::string text;
    for (const nlohmann::json& word : segment["words"]) {
      text += word["word"];
      CHECK(word["end"] >= word["start"]);
      words += word["word"].get<std::string>().find_first_not_of(' ') != std::string::npos;
    }
    CHECK(text == segment["text"].get<std::string>());
  }
  CHECK(words > 0);
  const CommandResult srt = run({"--srt", "--words"});
  REQUIRE(srt.status == 0);
  size_t subtitles = 0;
  for (size_t at = srt.out.find(" --> 00:"); at != std::string::npos; at = srt.out.find(" --> 00:", at + 1))
    ++subtitles;
  CHECK(subtitles == words);

  const CommandResult detected = transcribe(model, sound.path, {"--detect-language"});
  CAPTURE(detected.err);
  REQUIRE(detected.status == 0);
  CHECK((detected.out.starts_with("en\t0.") || detected.out.starts_with("de\t0.")));
  const CommandResult object = transcribe(model, sound.path, {"--detect-language", "--json"});
  CHECK(nlohmann::json::parse(object.out)["probability"] >= 0.5);
  CHECK(nlohmann::json::parse(run({"--json", "--translate"}).out)["task"] == "translate");
  CHECK(run({"--prompt", "Ada", "--batch", "3"}).status == 0);
  CHECK(fails_saying(transcribe(fixtures().model("whisper").string(), sound.path, {"--detect-language"}),
                     {"--detect-language", "multilingual"}) == "");
}

TEST_CASE("each window of a transcript keeps to the form that is asked for") {
  const WhisperFolder folder;
  const std::string model = folder.path().string();
  const Sound sound(wail(40000)); // windows are one second long
  const auto texts = [&](std::vector<std::string> form) {
    form.insert(form.end(), {"--json", "--language", "en", "-n", "40"});
    const CommandResult result = transcribe(model, sound.path, form);
    INFO(result.err);
    REQUIRE(result.status == 0);
    std::vector<std::string> all;
    const nlohmann::json answer = nlohmann::json::parse(result.out);
    for (const nlohmann::json& segment : answer["segments"]) {
      const std::string text = segment["text"];
      all.push_back(text.substr(text.starts_with(' ')));
    }
    CHECK(all.size() == 3);
    return all;
  };
  for (const char* more : {"--beams", "--batch"}) {
    const std::vector<std::string> form = {"--choices", "open the gate,stop", more, "3"};
    for (const std::string& text : texts(form)) CHECK((text == "open the gate" || text == "stop"));
  }
  for (const std::string& text : texts({"--regex", "[0-9]{3}"}))
    CHECK((text.size() == 3 && text.find_first_not_of("0123456789") == std::string::npos));
  for (const std::string& text : texts({"--json-schema", R"({"enum": ["north", 7, null]})"}))
    CHECK((text == "\"north\"" || text == "7" || text == "null"));
  CHECK(fails_saying(transcribe(model, sound.path, {"--choices", "a", "--timestamps"}), {"no timestamps"}) ==
        "");
  CHECK(fails_saying(transcribe(model, sound.path, {"--regex", "a("}), {"regular expression"}) == "");
  const TemporaryFolder letters;
  write_letters_folder(letters, true);
  CHECK(fails_saying(transcribe(letters.path().string(), sound.path, {"--choices", "A"}), {"--choices"}) ==
        "");
}

TEST_CASE("a text with timed words has a line for each") {
  const WhisperFolder folder;
  const Sound sound(wail(40000));
  const std::vector<std::string> common = {"--words", "--language", "en", "-n", "20", "--no-fallback"};
  std::vector<std::string> json = common;
  json.push_back("--json");
  const CommandResult text = transcribe(folder.path().string(), sound.path, common);
  REQUIRE(text.status == 0);
  const CommandResult object = transcribe(folder.path().string(), sound.path, json);
  const nlohmann::json spoken = nlohmann::json::parse(object.out);
  size_t words = 0;
  for (const nlohmann::json& segment : spoken["segments"]) {
    for (const nlohmann::json& word : segment["words"])
      words += word["word"].get<std::string>().find_first_not_of(' ') != std::string::npos;
  }
  CHECK(words > 0);
  size_t lines = 0;
  std::istringstream stream(text.out);
  for (std::string line; std::getline(stream, line);) lines += line.find(" --> 00:") != std::string::npos;
  CHECK(lines == words);
}

TEST_CASE("what can be read of a damaged sound is transcribed, and so are the sounds after it") {
  const WhisperFolder model;
  const TemporaryFolder folder;
  const std::string whole = wav_bytes(wail(40000)), cut = whole.substr(0, 40000);
  const std::string a = folder.write("a.wav", whole).string(), b = folder.write("b.wav", cut).string(),
                    c = folder.write("c.wav", "no sound").string(),
                    d = folder.write("d.wav", wav_bytes(std::vector<float>(16000))).string();
  const std::string none = (folder.path() / "none.wav").string();
  const auto run = [&](std::vector<std::string> files, const std::vector<std::string>& more = {},
                       const std::string& input = "") {
    files.insert(files.begin(), {"transcribe", model.path().string()});
    files.insert(files.end(), {"-n", "4", "--no-fallback"});
    files.insert(files.end(), more.begin(), more.end());
    return pumice_command(files, input);
  };
  const CommandResult json = run({none, b, c, a}, {"--json"});
  CHECK(json.status == 1);
  std::istringstream lines(json.out);
  std::string line;
  std::getline(lines, line);
  CHECK(nlohmann::json::parse(line)["audio"] == none);
  CHECK(nlohmann::json::parse(line).contains("error"));
  std::getline(lines, line);
  const nlohmann::json damaged = nlohmann::json::parse(line);
  CHECK(damaged["audio"] == b);
  CHECK(damaged["partial"] == true);
  CHECK(damaged["duration"].get<double>() == doctest::Approx(19978 / 16000.0));
  CHECK(!damaged["segments"].empty());
  std::getline(lines, line);
  CHECK(nlohmann::json::parse(line)["error"].get<std::string>().find("expected a WAV") != std::string::npos);
  std::getline(lines, line);
  CHECK(nlohmann::json::parse(line)["audio"] == a);
  CHECK(nlohmann::json::parse(line)["partial"] == false);
  CHECK(json.err.find("pumice: " + none) != std::string::npos);
  CHECK(json.err.find("pumice: " + b + ": expected 80000 bytes") != std::string::npos);
  CHECK(json.err.find("pumice: " + c + ": expected a WAV") != std::string::npos);

  const CommandResult piped = run({"-"}, {}, cut);
  CHECK(piped.status == 1);
  CHECK(!piped.out.empty());
  CHECK(piped.err.find("pumice: standard input: expected 80000 bytes") != std::string::npos);
#ifndef _WIN32
  const std::string pipe = (folder.path() / "pipe").string(); // as a shell's <(...) is
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  std::atomic<bool> ended = false;
  std::thread writer([&] { // once there is a reader, which a command that fails is not
    int open = -1;
    for (; open < 0 && !ended; std::this_thread::sleep_for(std::chrono::milliseconds(1)))
      open = ::open(pipe.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (open < 0) return;
    std::ofstream(pipe, std::ios::binary) << whole;
    ::close(open);
  });
  const CommandResult named = run({pipe}, {"--json"});
  ended = true;
  writer.join();
  CAPTURE(named.err);
  CHECK(named.status == 0);
  CHECK(nlohmann::json::parse(named.out).at("duration") == 2.5);
#endif
  const std::string out = (folder.path() / "out").string();
  const CommandResult written = run({b, a}, {"--srt", "-o", out});
  CHECK(written.status == 1);
  CHECK(written.out == out + "/b.srt\n" + out + "/a.srt\n");
  CHECK(std::filesystem::file_size(out + "/b.srt") > 0);

  const CommandResult spoken = run({d, c, a}, {"--detect-language"});
  CHECK(spoken.status == 1); // by c.wav
  CHECK(spoken.out.starts_with(d + "\t\t0.000\n" + a + "\t"));
  CHECK(spoken.err.find(d + ": no speech") != std::string::npos);
  const CommandResult silent = run({d}, {"--detect-language", "--json"});
  CHECK(silent.status == 0);
  CHECK(nlohmann::json::parse(silent.out).at("language").is_null());
  CHECK(nlohmann::json::parse(run({d}, {"--json"}).out).at("language").is_null());
}

TEST_CASE("a sound that a model refuses among others has one record, its error") {
  const TemporaryFolder model, folder;
  picture_tests::write_byte_folder(model, picture_tests::voxtral());
  const std::string a = folder.write("a.wav", wav_bytes(wail(1600))).string(),
                    long_one = folder.write("long.wav", wav_bytes(std::vector<float>(16000 * 50))).string();
  const auto run = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"transcribe", model.path().string(), long_one, a, "-n", "4"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return pumice_command(arguments);
  };
  const CommandResult json = run({"--json"});
  CAPTURE(json.err);
  CHECK(json.status == 1);
  std::istringstream lines(json.out);
  std::string line;
  std::getline(lines, line);
  CHECK(nlohmann::json::parse(line).at("audio") == long_one);
  CHECK(nlohmann::json::parse(line).contains("error")); // it does not fit the context
  CHECK(!nlohmann::json::parse(line).contains("segments"));
  std::getline(lines, line);
  CHECK(nlohmann::json::parse(line).at("audio") == a);
  CHECK(nlohmann::json::parse(line).contains("segments"));
  CHECK(!std::getline(lines, line));
  CHECK(json.err.find("pumice: " + long_one + ": ") != std::string::npos);
  const std::string out = (folder.path() / "out").string();
  CHECK(run({"--json", "-o", out}).out == out + "/a.json\n");
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

TEST_CASE("transcribe writes subtitles, of several files into a folder") {
  const WhisperFolder model;
  const std::string whisper = model.path().string();
  const TemporaryFolder folder;
  const std::string sound = wav_bytes(wail(40000));
  const std::string a = folder.write("a.wav", sound).string(), b = folder.write("b.wav", sound).string();
  const auto run = [&](std::vector<std::string> arguments, const std::string* input = nullptr) {
    arguments.insert(arguments.begin(), {"transcribe", whisper});
    arguments.insert(arguments.end(), {"--language", "en", "-n", "30"});
    return pumice_command(arguments, input);
  };
  const CommandResult srt = run({a, "--srt"}), vtt = run({a, "--vtt"});
  CAPTURE(srt.err);
  REQUIRE(srt.status == 0);
  CHECK(srt.out.starts_with("1\n00:00:0"));
  CHECK(srt.out.find(",") < srt.out.find(" --> 00:00:0"));
  CHECK(vtt.out.starts_with("WEBVTT\n\n00:00:0"));
  CHECK(vtt.out.find(',') == std::string::npos);
  CHECK(run({"-", "--srt"}, &sound).out == srt.out);

  const std::string out = (folder.path() / "new" / "out").string();
  const CommandResult both = run({a, b, "--srt", "--vtt", "--json", "-o", out});
  CAPTURE(both.err);
  REQUIRE(both.status == 0);
  const auto contents = [&](const std::string& name) {
    std::stringstream text;
    text << std::ifstream(std::filesystem::path(out) / name, std::ios::binary).rdbuf();
    return text.str();
  };
  CHECK(contents("a.srt") == srt.out);
  CHECK(contents("b.srt") == srt.out);
  CHECK(contents("b.vtt") == vtt.out);
  CHECK(nlohmann::json::parse(contents("b.json"))["audio"] == b);
  CHECK(both.out.starts_with(out + "/a.json\n" + out + "/a.srt\n"));
  const CommandResult text = run({a, b});
  CHECK(text.out.starts_with(a + "\t"));
  CHECK(text.out.find("\n" + b + "\t") != std::string::npos);
  const CommandResult json = run({a, b, "--json"});
  CHECK(std::count(json.out.begin(), json.out.end(), '\n') == 2);

  CHECK(fails_saying(run({a, b, "--srt"}), {"--output-dir"}) == "");
  CHECK(fails_saying(run({a, "--srt", "--json"}), {"--srt", "--output-dir"}) == "");
  CHECK(fails_saying(run({a, a, "-o", out}), {a, "a.txt"}) == "");
  CHECK(fails_saying(run({a, b, "--attention", "x.png"}), {"--attention", "one"}) == "");
  CHECK(fails_saying(run({a, "-o", a}), {a, "folder"}) == "");
}

TEST_CASE("letters are heard alike in a file and in a pipe, loud or not, over several windows" *
          doctest::test_suite("long")) {
  const TemporaryFolder folder, plain;
  write_letters_folder(folder, true);
  write_letters_folder(plain, false);
  const std::vector<float> samples = wail(16000 * 33), loud = wail(16000 * 3);
  std::vector<float> quiet = loud;
  for (float& sample : quiet) sample *= 0.25f;
  const auto segments = [](const CommandResult& result) {
    CAPTURE(result.err);
    REQUIRE(result.status == 0);
    return nlohmann::json::parse(result.out)["segments"];
  };
  const auto heard = [&](const TemporaryFolder& model, const std::vector<float>& sound) {
    return segments(transcribe(model.path().string(), Sound(sound).path, {"--json"}));
  };
  const nlohmann::json of_file = heard(folder, samples);
  CHECK(!of_file.empty());
  std::string raw;
  for (const float sample : samples) {
    const auto number = static_cast<int16_t>(std::lround(sample * 32767));
    raw.append(reinterpret_cast<const char*>(&number), 2);
  }
  CHECK(segments(pumice_command({"transcribe", folder.path().string(), "-", "--raw", "s16", "--json"},
                                raw)) == of_file);
  CHECK(heard(folder, quiet)[0]["text"] == heard(folder, loud)[0]["text"]);
  CHECK(heard(plain, quiet) != heard(plain, loud));
}
