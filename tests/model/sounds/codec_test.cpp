// Codecs of sounds against a reference's samples, and speakers, which make a sound of codes chunk by chunk.
#include <cmath>
#include <deque>
#include <fstream>
#include <regex>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "model/vocabulary.h"
#include "step/work/resumable_encoder.h"
#include "support/command/answers.h"
#include "support/files/converted.h"
#include "support/files/fixtures.h"
#include "support/files/speech_folder.h"
#include "support/model.h"
#include "support/vulkan/gpu.h"
#include "support/vulkan/row_bits.h"
#include "task/speaking/speaker.h"

using namespace pumice;

namespace {

SoundCodec two_codebooks() {
  SoundCodec codec;
  codec.codebooks = SpeechFolder::codebooks;
  codec.codes = SpeechFolder::codes;
  return codec;
}

std::vector<uint32_t> ids_of(const Answers& answers) {
  return answers.ids("input_ids", 0);
}

std::vector<float> decode(const std::shared_ptr<const Model>& model,
                          const std::vector<std::vector<uint32_t>>& inputs, size_t which) {
  EncoderOptions options;
  options.readable = {SoundCodec::samples};
  options.inputs = static_cast<uint32_t>(inputs.size());
  std::vector<EncoderInput> all(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    options.tokens += static_cast<uint32_t>(inputs[i].size());
    all[i].tokens = inputs[i];
  }
  auto encoder = Encoder::create(model, options);
  if (!encoder.ok()) FAIL(encoder.error().text());
  const auto ranges = (*encoder)->encode(all);
  if (!ranges.ok()) FAIL(ranges.error().text());
  const SoundCodec codec = *sound_codec(model->definition());
  std::vector<float> samples = *(*encoder)->read(SoundCodec::samples, which);
  samples.resize(codec.samples_of(inputs[which].size() / codec.codebooks));
  return samples;
}

std::vector<float> expected_samples(const Answers& answers, const char* name) {
  const std::span<const float> row = answers.row(name, 0);
  return {row.begin(), row.end()};
}

struct Spoken {
  std::vector<float> samples;
  std::vector<uint32_t> tokens;
  size_t chunks = 0;
  FinishReason reason = FinishReason::none;

  bool operator==(const Spoken& other) const { return samples == other.samples && tokens == other.tokens; }
};

struct Loaded {
  std::shared_ptr<const Model> model, codec;
  SpeakerSettings settings;
};

Loaded load(const SpeechFolder& folder, const SpeakerOptions& options) {
  Loaded loaded{load_model(folder.path()), load_model(folder.codec()), {}};
  const auto tokenizer = load_tokenizer(loaded.model->file());
  REQUIRE(tokenizer.ok());
  auto settings =
      read_speaker_settings(loaded.model->file(), loaded.model->definition(), loaded.codec->file(),
                            loaded.codec->definition(), *tokenizer, options);
  if (!settings.ok()) FAIL(settings.error().text());
  loaded.settings = *settings;
  return loaded;
}

SpeakerOptions options_for(const SpeechFolder& folder, uint32_t tokens) {
  SpeakerOptions options;
  options.sampling.temperature = 1;
  options.sampling.repeat_penalty = 1;
  options.sampling.seed = 5;
  for (const uint32_t id : folder.unwanted())
    options.sampling.logit_biases.push_back({id, -std::numeric_limits<float>::infinity()});
  options.max_tokens = tokens;
  return options;
}

std::unique_ptr<Speaker> make_speaker(const Loaded& loaded) {
  auto speaker = Speaker::create(loaded.model, loaded.codec, loaded.settings);
  if (!speaker.ok()) FAIL(speaker.error().text());
  return std::move(*speaker);
}

Spoken speak(Speaker& speaker, const char* text, bool in_slices) {
  Spoken spoken;
  Status status = speaker.begin(text, [&](std::span<const float> samples) -> Status {
    spoken.samples.insert(spoken.samples.end(), samples.begin(), samples.end());
    ++spoken.chunks;
    return {};
  });
  if (status.ok() && !in_slices) status = speaker.run();
  for (bool active = in_slices; active && status.ok();) {
    SliceRequest request;
    request.budget = 1e-3;
    const auto slice = speaker.slice(request);
    if (!slice.ok()) FAIL(slice.error().text());
    active = slice->active;
  }
  if (!status.ok()) FAIL(status.error().text());
  spoken.tokens.assign(speaker.tokens().begin(), speaker.tokens().end());
  spoken.reason = speaker.figures().finish_reason;
  return spoken;
}

} // namespace

TEST_CASE("a codec gives the reference's samples, alone and beside others, from a GGUF file too") {
  const std::filesystem::path folder = fixtures().model("dac");
  const Answers answers(folder / "expected.safetensors");
  const std::vector<uint32_t> all = ids_of(answers);
  const std::vector<float> expected = expected_samples(answers, "samples"),
                           first = expected_samples(answers, "first_samples");
  const auto model = load_model(folder);
  const SoundCodec codec = *sound_codec(model->definition());
  CHECK(codec.lacking > 0); // an odd ratio
  const std::vector<uint32_t> some(all.begin(), all.begin() + static_cast<ptrdiff_t>(9 * codec.codebooks));
  const std::vector<float> alone = decode(model, {all}, 0), beside = decode(model, {some, all, some}, 1);
  REQUIRE(alone.size() == expected.size());
  CHECK(relative_rms(alone, expected) <= 1e-4);
  CHECK(same_in_any_step(alone, beside));
  const std::vector<float> last = decode(model, {some, all, some}, 2);
  REQUIRE(last.size() == first.size());
  CHECK(relative_rms(last, first) <= 1e-4);

  const TemporaryFolder temporary;
  (void)convert_to(temporary.path() / "model.gguf", folder, TensorType::f32);
  CHECK(decode(load_model(temporary.path() / "model.gguf"), {all}, 0) == alone);
}

// Its names, with a direction and a length for each of a convolution's weights.
TEST_CASE("a codec as it was published gives the samples that transformers' form of it does") {
  const std::filesystem::path folder = fixtures().model("dac");
  const std::vector<uint32_t> all = ids_of(Answers(folder / "expected.safetensors"));
  const auto file = SafetensorsFile::open(folder / "model.safetensors");
  REQUIRE(file.ok());
  const TemporaryFolder published;
  std::filesystem::copy_file(folder / "config.json", published.path() / "config.json");
  std::deque<std::vector<float>> values;
  std::vector<SafetensorsFile::Entry> entries;
  const auto add = [&](const std::string& name, std::vector<uint64_t> shape, std::vector<float> data) {
    const std::vector<float>& kept = values.emplace_back(std::move(data));
    entries.push_back({name, "F32", std::move(shape), std::as_bytes(std::span(kept))});
  };
  const auto replace = [](std::string name, const std::regex& from, const auto& to) {
    std::smatch match;
    return std::regex_match(name, match, from) ? to(match) : name;
  };
  const auto number = [](const std::ssub_match& digits, int more) {
    return std::to_string(std::stoi(digits) + more);
  };
  for (const SafetensorsFile::Entry& entry : file->entries) {
    std::string name = entry.name;
    name = replace(name, std::regex(R"(decoder\.block\.(\d)\.res_unit(\d)\.(snake|conv)(\d)\.(\w+))"),
                   [&](const auto& m) {
                     const int part = 2 * (std::stoi(m[4]) - 1) + (m[3] == "conv");
                     return "decoder.model." + number(m[1], 1) + ".block." + number(m[2], 1) + ".block." +
                            std::to_string(part) + "." + m[5].str();
                   });
    name = replace(name, std::regex(R"(decoder\.block\.(\d)\.(snake1|conv_t1)\.(\w+))"), [&](const auto& m) {
      return "decoder.model." + number(m[1], 1) + ".block." + (m[2] == "snake1" ? "0." : "1.") + m[3].str();
    });
    name = replace(name, std::regex(R"(decoder\.(conv1|snake1|conv2)\.(\w+))"), [&](const auto& m) {
      return std::string("decoder.model.") +
             (m[1] == "conv1"    ? "0."
              : m[1] == "snake1" ? "4."
                                 : "5.") +
             m[2].str();
    });
    std::vector<float> data = *SafetensorsFile::floats(entry);
    if (entry.shape.size() != 3 || !name.ends_with(".weight")) {
      add(name, entry.shape, std::move(data));
      continue;
    }
    std::vector<float> lengths(entry.shape[0]);
    const size_t each = data.size() / lengths.size();
    for (size_t i = 0; i < data.size(); ++i) lengths[i / each] += data[i] * data[i];
    for (float& length : lengths) length = std::sqrt(length);
    for (size_t i = 0; i < data.size(); ++i) data[i] *= static_cast<float>(1 + i / each % 3);
    add(name + "_g", {entry.shape[0], 1, 1}, std::move(lengths));
    add(name + "_v", entry.shape, std::move(data));
  }
  REQUIRE(write_safetensors(published.path() / "model.safetensors", entries).ok());
  CHECK(relative_rms(decode(load_model(published.path()), {all}, 0), decode(load_model(folder), {all}, 0)) <=
        1e-5);
}

TEST_CASE("a sound's samples do not depend on its chunks") {
  const std::filesystem::path folder = fixtures().model("dac");
  const Answers answers(folder / "expected.safetensors");
  const std::vector<uint32_t> all = ids_of(answers);
  const auto model = load_model(folder);
  const SoundCodec codec = *sound_codec(model->definition());
  REQUIRE(2 * codec.reach <
          all.size() / codec.codebooks); // the sound is longer than what a sample depends on
  const std::vector<float> whole = decode(model, {all}, 0);
  for (const uint32_t chunk : {1u, 7u, 100u}) {
    CAPTURE(chunk);
    CodeFrames frames(codec, chunk);
    std::vector<float> samples;
    const auto take = [&](bool ended) {
      for (;;) {
        const std::vector<uint32_t> input = frames.next(ended);
        if (input.empty()) return;
        REQUIRE(input.size() <= size_t{frames.most()} * codec.codebooks);
        // What the encoder has for it, with what it left behind the end.
        std::vector<float> made = decode(model, {input}, 0);
        made.resize(input.size() / codec.codebooks * codec.frame, 7);
        const std::span<const float> own = frames.samples(made);
        samples.insert(samples.end(), own.begin(), own.end());
        frames.done();
      }
    };
    // Codes of the second codebook come late.
    for (size_t i = 0; i < all.size(); i += 2) {
      frames.add({0, all[i]});
      if (i >= 4) frames.add({1, all[i - 3] - codec.codes});
      take(false);
    }
    for (const size_t i : {all.size() - 3, all.size() - 1}) frames.add({1, all[i] - codec.codes});
    if (chunk < 100) CHECK(!samples.empty()); // some came before the end
    take(true);
    REQUIRE(samples.size() == whole.size());
    CHECK(same_in_any_step(samples, whole));
  }
}

TEST_CASE("a speaker gives the same sound in whole steps, in slices and in chunks of any length") {
  const SpeechFolder folder;
  SpeakerOptions options = options_for(folder, 160);
  const Loaded loaded = load(folder, options);
  const auto speaker = make_speaker(loaded);
  const Spoken whole = speak(*speaker, "good morning", false);
  CHECK(whole.tokens.size() == 160);
  CHECK(whole.reason == FinishReason::length);
  REQUIRE(!whole.samples.empty());

  // The sound is the codec's, of the codes in the tokens.
  std::vector<std::vector<uint32_t>> codes(SpeechFolder::codebooks);
  for (const uint32_t token : whole.tokens) {
    if (const CodeTokens::Code* code = loaded.settings.codes->code(token))
      codes[code->codebook].push_back(code->code);
  }
  std::vector<uint32_t> ids;
  for (size_t frame = 0; frame < std::min(codes[0].size(), codes[1].size()); ++frame) {
    ids.push_back(codes[0][frame]);
    ids.push_back(codes[1][frame] + SpeechFolder::codes);
  }
  REQUIRE(ids.size() > 40);
  CHECK(same_in_any_step(whole.samples, decode(loaded.codec, {ids}, 0)));

  CHECK(speak(*speaker, "good morning", true) == whole);
  Spoken other = speak(*speaker, "the fox", false);
  CHECK(other.tokens != whole.tokens);
  Loaded short_chunks = loaded;
  short_chunks.settings.chunk = 3;
  const auto often = make_speaker(short_chunks);
  const Spoken pieces = speak(*often, "good morning", false);
  CHECK(pieces.chunks > whole.chunks);
  CHECK(pieces.tokens == whole.tokens);
  REQUIRE(pieces.samples.size() == whole.samples.size());
  CHECK(same_in_any_step(pieces.samples, whole.samples));
  // A token for what the codec does not have is never drawn.
  CHECK(std::ranges::count(whole.tokens, folder.code(0, SpeechFolder::codes)) == 0);
}

TEST_CASE("a speaker can be cancelled, and speaks again") {
  const SpeechFolder folder;
  SpeakerOptions options = options_for(folder, 120);
  options.chunk_ms = 10;
  const auto speaker = make_speaker(load(folder, options));
  const Spoken whole = speak(*speaker, "good morning", false);
  size_t samples = 0;
  REQUIRE(speaker
              ->begin("good morning",
                      [&](std::span<const float> some) -> Status {
                        samples += some.size();
                        speaker->cancel();
                        return {};
                      })
              .ok());
  CHECK(speaker->run().error().code == Code::cancelled);
  CHECK(samples > 0);
  CHECK(samples < whole.samples.size());
  CHECK(speak(*speaker, "good morning", false) == whole);
  // What the application returns ends the work.
  REQUIRE(
      speaker->begin("good morning",
                     [](std::span<const float>) {
                       return Status(Error{Code::io, "full"});
                     })
          .ok());
  CHECK(speaker->run().error().code == Code::io);
}

TEST_CASE("a voice's words and codes stand before the sound") {
  const SpeechFolder folder;
  const auto tokenizer = *load_tokenizer(*ModelFile::open(folder.path()));
  const auto voice = Voice::parse(
      R"({"interface_version": 3, "text": " the  fox", "words": [
          {"word": "the", "duration": 0.1, "features": {"energy": 1}, "c1": [1, 2], "c2": [3, 4]},
          {"word": "fox", "duration": 0.125, "c1": [5], "c2": [6]}]})",
      "voice.json", two_codebooks());
  if (!voice.ok()) FAIL(voice.error().text());
  CHECK(voice->text == "the fox");
  CHECK(voice->words[0].codes == "<|features|><|t_0.10|><|energy_1|><|spectral_centroid_0|><|pitch_0|><|code|"
                                 "><|c1_1|><|c2_3|><|c1_2|><|c2_4|>");
  const std::vector<uint32_t> ids = *speech_prompt(*tokenizer, "good\tmorning ", &*voice, "model");
  const std::string text = tokenizer->decode(ids, true);
  CAPTURE(text);
  const auto at = [&](const char* part) { return text.find(part); };
  CHECK(at("<|text_start|>") < at("morning"));
  CHECK(at("morning") < at("<|audio_start|>"));
  CHECK(at("<|audio_start|>") < at("<|c1_5|>"));
  CHECK(text.ends_with("<|word_start|>"));
  const std::vector<uint32_t> plain = *speech_prompt(*tokenizer, "good morning", nullptr, "model");
  CHECK(plain == std::vector<uint32_t>{folder.id("<|im_start|>"), folder.id("<|text_start|>"),
                                       folder.id("good"), folder.id("morning"), folder.id("<|text_end|>"),
                                       folder.id("<|audio_start|>")});
  // What a text spells is no special token.
  const std::vector<uint32_t> spelled = *speech_prompt(*tokenizer, "<|audio_end|>", nullptr, "model");
  CHECK(std::ranges::count(spelled, folder.id("<|audio_end|>")) == 0);
}

TEST_CASE("texts, voices and models that cannot be spoken are refused with their reason") {
  CHECK(spoken_text(" \xE2\x80\x9CGood\xE2\x80\x9D\n\n\xE2\x80\x94 it\xE2\x80\x99s\xE2\x80\xA6\x01 ") ==
        "\"Good\" - it's...");
  const SpeechFolder folder;
  const auto tokenizer = *load_tokenizer(*ModelFile::open(folder.path()));
  CHECK(speech_prompt(*tokenizer, " \n", nullptr, "model").error().code == Code::invalid_argument);
  CHECK(speech_prompt(*tokenizer, "\xFF", nullptr, "model").error().code == Code::invalid_argument);
  const auto says = [](const char* json, const char* part) {
    const auto voice = Voice::parse(json, "voice.json", two_codebooks());
    REQUIRE(!voice.ok());
    CAPTURE(voice.error().text());
    CHECK(voice.error().text().find("voice.json") != std::string::npos);
    CHECK(voice.error().text().find(part) != std::string::npos);
  };
  says("[]", "object");
  says(R"({"words": []})", "'text'");
  says(R"({"text": "a", "words": []})", "'words'");
  says(R"({"text": "a", "words": [1]})", "words[0]");
  says(R"({"text": "a", "words": [{"word": "a", "duration": 1, "c1": [1], "c2": []}]})", "words[0].c2");
  says(R"({"text": "a", "words": [{"word": "a", "duration": 1, "c1": [16], "c2": [1]}]})", "words[0].c1");
  says(R"({"text": "a", "interface_version": 1, "words": []})", "interface_version");

  const ModelFile speaks = *ModelFile::open(folder.path()), codec = *ModelFile::open(folder.codec());
  const auto definition = *open_model_definition(speaks), sound = *open_model_definition(codec);
  const auto refused = [&](const ModelFile& file, const ModelDefinition& own, const ModelFile& other_file,
                           const ModelDefinition& other, const std::shared_ptr<const Tokenizer>& words) {
    return read_speaker_settings(file, own, other_file, other, words, {}).error().code;
  };
  CHECK(refused(codec, *sound, codec, *sound, tokenizer) == Code::unsupported);
  CHECK(refused(speaks, *definition, speaks, *definition, tokenizer) == Code::unsupported);
  const auto silent = *Tokenizer::load(fixtures().tokenizer("bert-base-uncased"));
  CHECK(refused(speaks, *definition, codec, *sound, silent) == Code::unsupported);
  SpeakerOptions options;
  options.chunk_ms = 60'001;
  CHECK(!read_speaker_settings(speaks, *definition, codec, *sound, tokenizer, options).ok());

  // Frames of 2^36 samples.
  auto config = nlohmann::json::parse(std::ifstream(folder.codec() / "config.json"));
  config["upsampling_ratios"] = std::vector<uint32_t>(6, 64);
  std::ofstream(folder.codec() / "config.json") << config;
  const auto huge = open_model_definition(*ModelFile::open(folder.codec()));
  REQUIRE(!huge.ok());
  CHECK(huge.error().text().find("upsampling_ratios") != std::string::npos);
}
