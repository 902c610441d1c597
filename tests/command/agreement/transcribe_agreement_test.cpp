// `pumice transcribe --json` and the C interface: the same numbers of every model that transcribes.
#include <array>
#include <cmath>

#include <nlohmann/json.hpp>

#include "support/command/command.h"
#include "support/files/letters_folder.h"
#include "support/files/whisper_folder.h"
#include "support/in_turn.h"
#include "support/picture_pair.h"
#include "support/translators.h"

using nlohmann::json;

namespace {

double milliseconds(uint64_t microseconds) {
  return std::round(static_cast<double>(microseconds) / 1000) / 1000;
}

// A segment in the command's form, which names less where nothing more is known.
void hear(void* user, const pumice_segment* segment) {
  json own = {{"start", milliseconds(segment->start_us)},
              {"end", milliseconds(segment->end_us)},
              {"text", segment->text},
              {"tokens", std::vector<uint32_t>(segment->tokens, segment->tokens + segment->token_count)},
              {"avg_logprob", segment->log_probability},
              {"no_speech_prob", segment->no_speech},
              {"temperature", std::round(segment->temperature * 1000.0) / 1000},
              {"compression_ratio", segment->compression_ratio}};
  for (size_t i = 0; i < segment->word_count; ++i) {
    const pumice_word& word = segment->words[i];
    own["words"].push_back({{"word", word.text},
                            {"start", milliseconds(word.start_us)},
                            {"end", milliseconds(word.end_us)},
                            {"probability", word.probability}});
  }
  static_cast<json*>(user)->push_back(own);
}

// 16-bit samples, as a WAV file has them.
std::vector<float> rounded(std::vector<float> samples) {
  for (float& each : samples) each = static_cast<float>(std::lround(each * 32767)) / 32768;
  return samples;
}

struct Asked {
  std::vector<std::string> arguments = {"-n", "20"};
  pumice_transcriber_options options = {sizeof options, nullptr, false, false, 0, 20};
};

// In whole steps and in slices. `hears`: a decoder, with a tower for sounds.
void check(pumice_device* device, const std::string& path, Asked asked, bool hears = false) {
  const std::vector<float> samples = wail(40000), same = rounded(samples);
  const TemporaryFolder folder;
  std::vector<std::string> arguments = {"transcribe", path,
                                        folder.write("sound.wav", wav_bytes(samples)).string(), "--json"};
  arguments.insert(arguments.end(), asked.arguments.begin(), asked.arguments.end());
  const CommandResult result = pumice_command(arguments);
  INFO(result.err);
  REQUIRE(result.status == 0);
  const json expected = json::parse(result.out);

  pumice_load_options with_tower = {sizeof with_tower};
  with_tower.tune_seconds = -1;
  with_tower.vision = hears;
  const ModelHandle model = load(device, path, with_tower);
  pumice_transcriber* made = nullptr;
  pumice_error error;
  require_ok(pumice_transcriber_create(model.get(), &asked.options, &made, &error), error);
  const TranscriberHandle transcriber(made);
  const auto agree = [&](json& segments) {
    // What a model of letters, or one without a tokenizer, does not say.
    for (size_t i = 0; i < segments.size() && i < expected["segments"].size(); ++i) {
      for (const char* field : {"text", "avg_logprob", "no_speech_prob", "temperature", "compression_ratio"})
        if (!expected["segments"][i].contains(field)) segments[i].erase(field);
    }
    CHECK(segments == expected["segments"]);
    float probability = 0;
    const std::string language = pumice_transcriber_language(made, &probability);
    const json& spoken = expected["language"];
    CHECK(language == (spoken.is_null() ? std::string() : spoken.get<std::string>()));
    const json& likely = expected["language_probability"];
    CHECK(probability == (likely.is_null() ? 0 : likely.get<float>()));
  };
  json whole = json::array(), sliced = json::array();
  require_ok(pumice_transcriber_transcribe(made, same.data(), same.size(), 0, hear, &whole, &error), error);
  agree(whole);
  require_ok(pumice_transcriber_begin(made, same.data(), same.size(), 0, hear, &sliced, &error), error);
  CHECK(run_slices([&](pumice_slice* slice, pumice_error* why) {
          return pumice_work_advance(pumice_transcriber_work(made), 2000, nullptr, slice, why);
        }) > 2);
  agree(sliced);
}

} // namespace

TEST_CASE("transcribe and the C interface agree for Whisper") {
  const DeviceHandle& device = shared_device();
  const WhisperFolder folder;
  const std::string path = folder.path().string();
  Asked plain; // JSON has timestamps
  plain.options.timestamps = true;
  check(device.get(), path, plain);
  Asked words = plain;
  words.arguments = {"-n",      "12", "--words",       "--language", "en",
                     "--beams", "2",  "--no-fallback", "--prompt",   "Ada"};
  words.options.max_tokens = 12;
  words.options.words = words.options.no_fallback = true;
  words.options.language = "en";
  words.options.beams = 2;
  words.options.prompt = "Ada";
  check(device.get(), path, words);
  Asked translated = plain;
  translated.arguments = {"-n", "20", "--translate", "--batch", "3", "--no-vad"};
  translated.options.translate = translated.options.keep_silence = true;
  translated.options.windows = 3;
  check(device.get(), path, translated);
  // Nobody has spelled this vocabulary.
  check(device.get(), fixtures().model("whisper").string(), {});
}

TEST_CASE("transcribe and the C interface agree for a decoder after an encoder of samples") {
  const DeviceHandle& device = shared_device();
  const std::string path = fixtures().model("moonshine").string();
  Asked beams;
  beams.arguments = {"--beams", "2", "-n", "8", "--no-vad"};
  beams.options.beams = 2;
  beams.options.max_tokens = 8;
  beams.options.keep_silence = true;
  for (const Asked& asked : {Asked(), beams}) check(device.get(), path, asked);
}

TEST_CASE("transcribe and the C interface agree for a decoder that hears") {
  const DeviceHandle& device = shared_device();
  const TemporaryFolder folder;
  picture_tests::write_byte_folder(folder, picture_tests::voxtral());
  Asked asked;
  asked.arguments.insert(asked.arguments.end(), {"--language", "en"});
  asked.options.language = "en";
  check(device.get(), folder.path().string(), asked, true);
  const ModelHandle deaf = load(device.get(), folder.path().string());
  pumice_transcriber* made = nullptr;
  pumice_error error;
  CHECK(pumice_transcriber_create(deaf.get(), &asked.options, &made, &error) == PUMICE_INVALID_ARGUMENT);
  CHECK(std::string(error.message).find("options.vision") != std::string::npos);
}

TEST_CASE("transcribe and the C interface agree for models of letters") {
  const DeviceHandle& device = shared_device();
  Asked beams;
  beams.arguments = {"--beams", "4"};
  beams.options.beams = 4;
  for (const bool normalises : {true, false}) {
    const TemporaryFolder folder;
    write_letters_folder(folder, normalises);
    const std::string path = folder.path().string();
    for (const Asked& asked : turn_of(std::array{Asked(), beams}, normalises))
      check(device.get(), path, asked);
    const ModelHandle model = load(device.get(), path);
    pumice_transcriber_options options = {sizeof options};
    options.language = "en";
    pumice_transcriber* made = nullptr;
    pumice_error error;
    CHECK(pumice_transcriber_create(model.get(), &options, &made, &error) == PUMICE_UNSUPPORTED);
    CHECK(std::string(error.message).find("leave options.language") != std::string::npos);
  }
  for (const char* name : turns_of(std::array{"parakeet-tdt", "parakeet", "wav2vec2"}, 3))
    check(device.get(), fixtures().model(name).string(), {});
}

TEST_CASE("transcribe --detect-language and the C interface agree") {
  const DeviceHandle& device = shared_device();
  const WhisperFolder folder;
  const std::vector<float> samples = wail(40000), same = rounded(samples);
  const TemporaryFolder sound;
  const CommandResult result =
      pumice_command({"transcribe", folder.path().string(),
                      sound.write("sound.wav", wav_bytes(samples)).string(), "--detect-language", "--json"});
  REQUIRE(result.status == 0);
  const ModelHandle model = load(device.get(), folder.path().string());
  const TranscriberHandle transcriber = make_transcriber(model.get(), 1);
  pumice_error error;
  require_ok(pumice_transcriber_detect(transcriber.get(), same.data(), same.size(), 0, &error), error);
  float probability = 0;
  CHECK(pumice_transcriber_language(transcriber.get(), &probability) == json::parse(result.out)["language"]);
  CHECK(probability == json::parse(result.out)["probability"].get<float>());
}
