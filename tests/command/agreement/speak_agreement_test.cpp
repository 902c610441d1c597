// `pumice speak` and the C interface: the same samples.
#include <cmath>

#include <fmt/format.h>

#include "media/audio.h"
#include "support/command/agreement.h"
#include "support/files/speech_folder.h"
#include "support/translators.h"

namespace {

using SpeakerHandle = std::unique_ptr<pumice_speaker, Destroy<pumice_speaker_destroy>>;

void hear(void* user, const float* samples, size_t count) {
  auto* heard = static_cast<std::vector<float>*>(user);
  heard->insert(heard->end(), samples, samples + count);
}

// As 16 bits have them.
std::vector<float> rounded(std::vector<float> samples) {
  for (float& each : samples) each = static_cast<float>(std::lround(each * 32767)) / 32768;
  return samples;
}

} // namespace

TEST_CASE("speak and the C interface agree, in whole steps and in slices") {
  const SpeechFolder folder;
  const TemporaryFolder out;
  const std::string path = (out.path() / "out.wav").string();
  const std::string voice = R"({"text": "the fox", "words": [
      {"word": "the", "duration": 0.1, "c1": [1, 2], "c2": [3, 4]}]})";
  std::vector<std::string> arguments = {"speak",
                                        folder.path().string(),
                                        "good morning",
                                        "-o",
                                        path,
                                        "--temp",
                                        "1",
                                        "--repeat-penalty",
                                        "1",
                                        "--top-k",
                                        "0",
                                        "--top-p",
                                        "1",
                                        "--min-p",
                                        "0",
                                        "--seed",
                                        "7",
                                        "-n",
                                        "100",
                                        "--voice",
                                        out.write("voice.json", voice).string()};
  const std::vector<uint32_t> unwanted = folder.unwanted();
  for (const uint32_t id : unwanted)
    arguments.insert(arguments.end(), {"--logit-bias", fmt::format("{}=-inf", id)});
  const CommandResult result = pumice_command(arguments);
  INFO(result.err);
  REQUIRE(result.status == 0);
  const auto expected = pumice::read_audio(path);
  REQUIRE(expected.ok());

  const DeviceHandle& device = shared_device();
  const ModelHandle model = load(device.get(), folder.path().string()),
                    codec = load(device.get(), folder.codec().string());
  pumice_sampling sampling = {sizeof sampling};
  sampling.temperature = 1;
  sampling.seed = 7;
  sampling.banned_tokens = unwanted.data();
  sampling.banned_token_count = unwanted.size();
  pumice_speaker_options options = {sizeof options};
  options.codec = codec.get();
  options.voice = voice.c_str();
  options.sampling = &sampling;
  options.max_tokens = 100;
  pumice_speaker* made = nullptr;
  pumice_error error;
  require_ok(pumice_speaker_create(model.get(), &options, &made, &error), error);
  const SpeakerHandle speaker(made);
  CHECK(pumice_speaker_rate(made) == expected->rate);
  std::vector<float> whole, sliced;
  require_ok(pumice_speaker_speak(made, "good morning", hear, &whole, &error), error);
  CHECK(rounded(whole) == expected->samples);
  CHECK(pumice_speaker_finish_reason(made) == PUMICE_FINISH_LENGTH);
  require_ok(pumice_speaker_begin(made, "good morning", hear, &sliced, &error), error);
  CHECK(run_slices([&](pumice_slice* slice, pumice_error* why) {
          return pumice_work_advance(pumice_speaker_work(made), 2000, nullptr, slice, why);
        }) > 2);
  CHECK(sliced == whole);

  // A speaker destroyed by its own callback ends the function that runs.
  struct Ending {
    pumice_speaker* speaker;
    size_t calls = 0;
  };
  options.chunk_ms = 10;
  require_ok(pumice_speaker_create(model.get(), &options, &made, &error), error);
  Ending ending{made};
  const auto end = [](void* user, const float*, size_t) {
    auto& own = *static_cast<Ending*>(user);
    ++own.calls;
    pumice_speaker_destroy(own.speaker);
  };
  CHECK(pumice_speaker_speak(made, "good morning", end, &ending, &error) == PUMICE_CANCELLED);
  CHECK(ending.calls == 1);

  options.codec = model.get();
  CHECK(pumice_speaker_create(model.get(), &options, &made, &error) == PUMICE_UNSUPPORTED);
  options.codec = nullptr;
  CHECK(pumice_speaker_create(model.get(), &options, &made, &error) == PUMICE_INVALID_ARGUMENT);
  CHECK(std::string(error.message).find("options.codec") != std::string::npos);
}
