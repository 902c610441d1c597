// Decoders that hear: sounds in their prompts, from their samples on, against a reference's answers.
#include <doctest/doctest.h>

#include <array>

#include "support/command/command.h"
#include "support/command/messages.h"
#include "support/files/whisper_folder.h"
#include "support/picture_pair.h"

using namespace pumice;
using namespace picture_tests;

namespace {

struct HearingModel {
  VisionModel model;
  std::vector<size_t> samples; // of the sounds of its prompt
};

std::vector<HearingModel> hearing_models() {
  return {{voxtral(), {38400}}, {qwen2_audio(), {11200, 19200}}};
}

std::vector<float> samples_of(const Answers& answers, size_t count) {
  const std::span<const float> samples = std::span(answers.floats.at("audio_16khz")).first(count);
  return {samples.begin(), samples.end()};
}

std::string output(const std::vector<std::string>& arguments) {
  const CommandResult result = pumice_command(arguments);
  CAPTURE(result.err);
  CHECK(result.status == 0);
  return result.out;
}

} // namespace

TEST_CASE("sounds become the reference's features, window by window") {
  for (const HearingModel& each : hearing_models()) {
    CAPTURE(std::string(each.model.name));
    const std::filesystem::path path = fixtures().model(each.model.name);
    const Answers answers(path / "expected.safetensors");
    const auto tower = load_pictures(path);
    const SoundPreparation preparation = require(sound_preparation(tower->file(), tower->shape()));
    const std::vector<EncoderInput> expected = pictures_of(answers, *tower->shape().encoder);
    size_t next = 0;
    for (const size_t count : each.samples) {
      const PreparedPicture sound = require(prepare_sound(samples_of(answers, count), preparation, "sound"));
      CHECK(sound.grid.pictures() == sound.inputs.size());
      for (const EncoderInput& input : sound.inputs) {
        REQUIRE(next < expected.size());
        CHECK(input.seen == expected[next].seen);
        CHECK(input.grid == expected[next].grid);
        CHECK(relative_rms(input.values, expected[next++].values) <= 1e-5);
      }
    }
    CHECK(next == expected.size());
    CHECK(!prepare_sound({}, preparation, "silence.wav").ok());
  }
}

TEST_CASE("sounds in a prompt: logits and text are the reference's, from a folder and from a GGUF pair") {
  for (const HearingModel& each : hearing_models()) {
    CAPTURE(std::string(each.model.name));
    const std::filesystem::path path = fixtures().model(each.model.name);
    const Answers answers(path / "expected.safetensors");
    const auto model = load_model(path);
    REQUIRE(model->shape().pictures);
    check_answers(model, picture_prompt(path, answers, *model->shape().pictures), answers);
    const PicturePair pair(each.model);
    const auto other = require(Model::load(require(pair.open()), test_context()));
    REQUIRE(other->shape().pictures);
    CHECK(other->shape().pictures->token == 319);
    check_answers(other, picture_prompt(pair.mmproj, answers, *other->shape().pictures), answers);
  }
}

TEST_CASE("generate, caption, chat and transcribe hear, from a folder and from a GGUF pair") {
  for (const HearingModel& each : hearing_models()) {
    CAPTURE(std::string(each.model.name));
    const std::filesystem::path inputs = fixtures().model(each.model.name) / "expected.safetensors";
    const Answers answers(inputs);
    const PicturePair pair(each.model);
    const std::string folder = pair.folder.path().string();
    const auto samples = samples_of(answers, each.samples[0]);
    pair.folder.write("sound.wav", wav_bytes(samples));
    const std::string sound = (pair.folder.path() / "sound.wav").string();
    const std::string written = (pair.converted.path() / "written.safetensors").string();
    (void)output({"generate", pair.text, "--mmproj", pair.mmproj, "--inputs", inputs.string(), "--outputs",
                  written, "--ignore-eos", "--temp", "0", "-n", "12"});
    CHECK(Answers(written).ids("generated_ids", 0) == answers.ids("generated_ids", 0));

    const auto run = [&](const char* command, const std::string& model, std::vector<std::string> more) {
      more.insert(more.begin(), {command, model});
      more.insert(more.end(), {"-n", "12"});
      if (std::string(command) != "transcribe") more.insert(more.end(), {"--temp", "0"});
      return output(more);
    };
    const auto caption = [&](const std::string& model, const std::string& prompt) {
      return run("caption", model, {sound, "--prompt", prompt});
    };
    const std::string described = caption(folder, "hear: <audio> what?");
    CHECK(described.size() > 1);
    CHECK(caption(pair.text, "hear: <audio> what?") == described);
    CHECK(caption(folder, std::string("hear: ") + each.model.place + " what?") == described);
    CHECK(run("caption", pair.text, {sound}) == run("caption", folder, {sound})); // by the template

    const auto chat = [&](const std::string& model, std::vector<std::string> more) {
      more.insert(more.begin(), {"what?", "--kv", "f32", "--audio", sound});
      return run("chat", model, more);
    };
    const std::string answered = chat(folder, {});
    CHECK(chat(pair.text, {}) == answered);
    // A template that does not know of sounds.
    pair.folder.write("texts.jinja",
                      "{% for m in messages %}{{ m.role }}: {% for p in m.content %}{{ p.text }}"
                      "{% endfor %}\n{% endfor %}");
    CHECK(chat(folder, {"--template", (pair.folder.path() / "texts.jinja").string()}) == answered);
    CHECK(fails_saying(pumice_command({"caption", folder, sound, "--prompt", "hear"}),
                       {"'<audio>'", "0 of"}) == "");
  }
}

TEST_CASE("Gemma 3n hears: rows, logits and text are the reference's") {
  const std::filesystem::path path = fixtures().model("gemma3n-audio");
  const Answers answers(path / "expected.safetensors");
  const auto tower = load_pictures(path);
  const SoundPreparation preparation = require(sound_preparation(tower->file(), tower->shape()));
  const std::span<const float> audio = answers.floats.at("audio_16khz");
  const PreparedPicture sound = require(prepare_sound({audio.begin(), audio.end()}, preparation, "sound"));
  REQUIRE(sound.inputs.size() == 1);
  CHECK(sound.inputs[0].values.size() == 9088);
  CHECK(!prepare_sound(std::vector<float>(50), preparation, "click.wav").ok());

  const auto model = load_model(path);
  REQUIRE(model->shape().pictures);
  const PictureTokens& shape = *model->shape().pictures;
  const auto encoder = make_encoder(tower, PictureTokens::features, 1);
  encode(*encoder, sound.inputs);
  const std::vector<float> all = read(*encoder, PictureTokens::features, 0);
  const size_t columns = encoder->columns(PictureTokens::features);
  const std::vector<float> rows =
      rows_of_picture(shape, encoder->shape(), sound.inputs[0].grid, all, columns);
  const std::span<const float> expected = answers.row("audio_features", 0);
  REQUIRE(expected.size() < rows.size());
  CHECK(relative_rms(std::span(rows).first(expected.size()), expected) <= 1e-4);

  const PicturePrompt prompt = picture_prompt(path, answers, shape);
  check_answers(model, prompt, answers);

  const TemporaryFolder folder;
  write_byte_folder(folder,
                    {"gemma3n-audio",
                     {{309, "<start_of_audio>"}, {315, "<end_of_audio>"}, {316, "<audio_soft_token>"}},
                     316,
                     "<audio_soft_token>",
                     {},
                     {},
                     "audio"});
  folder.write("sound.wav", wav_bytes(samples_of(answers, 9001)));
  const std::string own = folder.path().string(), written = own + "/written.safetensors";
  (void)output({"generate", own, "--inputs", (path / "expected.safetensors").string(), "--outputs", written,
                "--ignore-eos", "--temp", "0", "-n", "12"});
  CHECK(Answers(written).ids("generated_ids", 0) == answers.ids("generated_ids", 0));
  const auto caption = [&](const std::string& asked) {
    return output({"caption", own, own + "/sound.wav", "--prompt", asked, "-n", "12", "--temp", "0"});
  };
  const std::string described = caption("hear: <audio> what?");
  CHECK(described.size() > 1);
  CHECK(caption("hear: <audio_soft_token> what?") == described);
}

TEST_CASE("Voxtral writes down what is said, and Qwen2-Audio refuses to") {
  const Answers answers(fixtures().model("voxtral") / "expected.safetensors");
  const PicturePair pair(voxtral()), other(qwen2_audio());
  const auto samples = samples_of(answers, 38400);
  pair.folder.write("sound.wav", wav_bytes(samples));
  const std::string folder = pair.folder.path().string(), sound = folder + "/sound.wav";
  const auto tokens = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"-n", "12", "--json"});
    const nlohmann::json json = nlohmann::json::parse(output(arguments));
    CHECK(json["audio"].get<std::string>() == sound);
    return (json.contains("segments") ? json["segments"][0] : json)["tokens"].get<std::vector<uint32_t>>();
  };
  const auto asked = [&](const std::string& end) {
    return tokens({"caption", folder, sound, "--temp", "0", "--prompt", "[INST]<audio>[/INST]" + end});
  };
  CHECK(tokens({"transcribe", folder, sound}) == asked("[TRANSCRIBE]"));
  CHECK(tokens({"transcribe", pair.text, sound, "--language", "en"}) == asked("lang:en[TRANSCRIBE]"));
  CHECK(fails_saying(pumice_command({"transcribe", folder, sound, "--srt"}), {"--srt", "leave"}) == "");
  CHECK(fails_saying(pumice_command({"transcribe", folder, sound, "--language", "English"}),
                     {"English", "en"}) == "");
  CHECK(fails_saying(pumice_command({"transcribe", other.folder.path().string(), sound}),
                     {"pumice caption"}) == "");
}

TEST_CASE("convert writes a decoder that hears and its mmproj file") {
  const PicturePair pair(qwen2_audio(), TensorType::f16);
  const ModelFile file = require(ModelFile::open(pair.mmproj));
  CHECK(file.config()["clip.projector_type"].get<std::string>() == "qwen2a");
  CHECK(file.config()["clip.has_audio_encoder"].get<bool>());
  CHECK(file.config()["clip.audio.num_mel_bins"].get<uint32_t>() == 16);
  using Shape = std::vector<uint64_t>;
  CHECK(file.find("a.conv1d.1.weight")->shape == Shape{64, 16, 3});
  CHECK(file.find("a.conv1d.2.weight")->type == TensorType::f16);
  CHECK(file.find("a.conv1d.2.bias")->shape == Shape{64, 1});
  CHECK(file.find("a.blk.1.attn_k.bias") == nullptr);
  CHECK(file.find("mm.a.fc.bias")->shape == Shape{64});
}

TEST_CASE("config.json of decoders that hear as it was published, and what is refused of it") {
  const auto open = [](const nlohmann::json& config, Tower tower) {
    const std::string text = config.dump();
    const ModelFile file = require(ModelFile::from_memory(std::as_bytes(std::span(text)), "config.json"));
    return open_model_definition(file, tower);
  };
  const auto shape_of = [](const ModelDefinition& definition, const std::string& tensor) {
    for (const WeightSpec& spec : definition.weights())
      if (spec.name == tensor) return spec.shape;
    return std::vector<uint64_t>();
  };
  using Shape = std::vector<uint64_t>;
  const nlohmann::json qwen = {{"model_type", "qwen2_audio"},
                               {"audio_token_index", 151646},
                               {"audio_config",
                                {{"d_model", 1280},
                                 {"encoder_attention_heads", 20},
                                 {"encoder_ffn_dim", 5120},
                                 {"encoder_layers", 32},
                                 {"max_source_positions", 1500},
                                 {"num_mel_bins", 128},
                                 {"model_type", "qwen2_audio_encoder"}}},
                               {"text_config",
                                {{"intermediate_size", 11008},
                                 {"max_position_embeddings", 8192},
                                 {"model_type", "qwen2"},
                                 {"rms_norm_eps", 1e-5},
                                 {"vocab_size", 156032}}}};
  const auto tower = require(open(qwen, Tower::pictures));
  CHECK(shape_of(*tower, "audio_tower.layers.31.fc1.weight") == Shape{5120, 1280});
  CHECK(shape_of(*tower, "multi_modal_projector.linear.weight") == Shape{4096, 1280});
  CHECK(tower->shape().encoder->sound_windows->one);
  const auto decoder = require(open(qwen, Tower::main));
  CHECK(decoder->shape().pictures->rows == 750);
  CHECK(decoder->shape().pictures->sounds);
  nlohmann::json voxtral = {{"model_type", "voxtral"},
                            {"audio_token_id", 24},
                            {"audio_config", {{"model_type", "voxtral_encoder"}, {"hidden_size", 1280}}},
                            {"text_config", {{"model_type", "llama"}, {"hidden_size", 5120}}}};
  CHECK(shape_of(*require(open(voxtral, Tower::pictures)), "multi_modal_projector.linear_1.weight") ==
        Shape{5120, 5120});
  CHECK(require(open(voxtral, Tower::main))->shape().pictures->rows == 375);
  const auto refused = [&](const char* part) {
    for (const Tower of : {Tower::main, Tower::pictures}) {
      const auto opened = open(voxtral, of);
      if (!opened.ok() && opened.error().message.find(part) != std::string::npos) return true;
    }
    return false;
  };
  voxtral["text_config"]["model_type"] = "qwen3";
  CHECK(refused("text_config.model_type"));
  voxtral["text_config"]["model_type"] = "llama";
  voxtral["audio_config"]["intermediate_size"] = 5000;
  CHECK(refused("audio_config.intermediate_size"));
  voxtral.erase("audio_token_id");
  voxtral["audio_config"].erase("intermediate_size");
  CHECK(refused("audio_token_id"));
}
