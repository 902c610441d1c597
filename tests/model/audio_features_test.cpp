#include "speech/audio_features.h"

#include <fstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "io/formats/safetensors.h"
#include "support/difference.h"
#include "support/files/fixtures.h"
#include "support/files/whisper_folder.h"
#include "support/model.h"

using namespace pumice;

namespace {

std::vector<float> expected(const std::string& name) {
  const auto file = SafetensorsFile::open(fixtures().model("whisper") / "expected.safetensors");
  if (!file.ok()) FAIL(file.error().text());
  return *SafetensorsFile::floats(*file->find(name));
}

// What is said about a preprocessor_config.json in which a field was changed.
std::string refusal(const std::string& field, const nlohmann::json& value) {
  const WhisperFolder folder;
  nlohmann::json config = nlohmann::json::parse(std::ifstream(folder.path() / "preprocessor_config.json"));
  config[field] = value;
  std::ofstream(folder.path() / "preprocessor_config.json") << config;
  const auto file = ModelFile::open(folder.path());
  if (!file.ok()) FAIL(file.error().text());
  const auto definition = open_model_definition(*file);
  if (!definition.ok()) FAIL(definition.error().text());
  const auto shape = read_log_mel_shape(*file, (*definition)->shape());
  return shape.ok() ? "" : shape.error().text();
}

} // namespace

FIXTURE_TEST_CASE("sound becomes the features of the reference") {
  const auto model = load_model(fixtures().model("whisper"));
  auto features = AudioFeatures::create(*model);
  if (!features.ok()) FAIL(features.error().text());
  CHECK((*features)->shape().sample_rate == 16000);
  const std::vector<float> audio = expected("audio_16khz"), wanted = expected("input_features");
  const auto found = (*features)->compute(audio);
  if (!found.ok()) FAIL(found.error().text());
  CHECK(largest_difference(*found, wanted) <= 1e-3f);

  // A window leaves nothing behind for the next one.
  const auto silence = (*features)->compute({});
  const auto one = (*features)->compute(std::vector<float>{0.5f});
  REQUIRE(silence.ok());
  REQUIRE(one.ok());
  CHECK(largest_difference(*silence, std::vector<float>(wanted.size(), (*silence)[0])) == 0);
  CHECK(largest_difference(*one, *silence) > 0.1f);
  CHECK(largest_difference(*(*features)->compute(std::vector<float>(16000)), *silence) == 0);
  CHECK(largest_difference(*(*features)->compute(audio), *found) == 0);
  CHECK(!(*features)->compute(std::vector<float>(16001)).ok());

  std::vector<EncoderInput> inputs(2);
  inputs[0].values = audio;
  REQUIRE(replace_samples(*model, 16000, inputs).ok());
  CHECK(!replace_samples(*model, 8000, std::span<EncoderInput>()).ok());
  CHECK(inputs[0].values == *found);
  CHECK(inputs[1].values == *silence);
}

TEST_CASE("a preprocessor_config.json must be consistent and fit the model") {
  CHECK(refusal("n_fft", nullptr) == ""); // Whisper's
  CHECK(refusal("feature_size", nullptr) == "");
  CHECK(refusal("nb_max_frames", nullptr) == "");
  const auto names = [](const std::string& field, const nlohmann::json& value, const std::string& other) {
    const std::string text = refusal(field, value);
    return text.find("preprocessor_config.json") != std::string::npos &&
           text.find(other) != std::string::npos;
  };
  CHECK(names("feature_size", 128, "'feature_size': expected 80"));
  CHECK(names("n_fft", 0, "'n_fft'"));
  CHECK(names("n_fft", 401, "n_fft is 401"));
  CHECK(names("hop_length", "wide", "'hop_length'"));
  CHECK(names("hop_length", 80, "'nb_max_frames': expected 200"));
  CHECK(names("chunk_length", nullptr, "'n_samples': expected 480000"));
  CHECK(names("sampling_rate", 8000, "'n_samples': expected 8000"));
  CHECK(names("n_samples", 32000, "'n_samples': expected 16000"));
  CHECK(names("nb_max_frames", 3000, "'nb_max_frames': expected 100"));
  const WhisperFolder folder;
  std::filesystem::remove(folder.path() / "preprocessor_config.json");
  const auto file = ModelFile::open(folder.path());
  const auto shape = read_log_mel_shape(*file, (*open_model_definition(*file))->shape());
  REQUIRE(!shape.ok());
  CHECK(shape.error().text().find("found 3000") != std::string::npos);
}

TEST_CASE("a model that reads text has no audio features") {
  for (const char* name : {"bart", "vit", "llama-mha"}) {
    const auto file = ModelFile::open(fixtures().model(name));
    REQUIRE(file.ok());
    const auto shape = read_log_mel_shape(*file, (*open_model_definition(*file))->shape());
    REQUIRE(!shape.ok());
    CHECK(shape.error().text().find("does not read sound") != std::string::npos);
  }
}
