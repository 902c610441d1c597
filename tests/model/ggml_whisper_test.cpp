// Files of whisper.cpp, made of the fixture's weights, against the answers that those have.
#include <fstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "convert/whisper_cpp.h"
#include "generate/encoder_decoder.h"
#include "generate/forced_pass.h"
#include "generate/generation_config.h"
#include "model/vocabulary.h"
#include "support/command/answers.h"
#include "support/command/command.h"
#include "support/command/messages.h"
#include "support/files/ggml_whisper.h"
#include "support/files/whisper_folder.h"
#include "support/model.h"
#include "support/require.h"
#include "support/vulkan/gpu.h"

using namespace pumice;

namespace {

// A whole file. Matrices of this type.
std::string whisper_file(TensorType type) {
  GgmlWhisperBuilder builder({"he", "ll", "hell", " -"});
  builder.type = info(type).block_size > 1 ? 2000 : 0;
  add_whisper_tensors(builder, type);
  return builder.build();
}

std::vector<uint32_t> greedy(const std::shared_ptr<const Model>& model, const EncoderInput& input,
                             const std::vector<uint32_t>& prompt, size_t count) {
  auto session = EncoderDecoder::create(model, {});
  if (!session.ok()) FAIL(session.error().text());
  GenerationOptions generation;
  generation.config.prompt = prompt;
  generation.config.max_tokens = static_cast<uint32_t>(count);
  generation.sampling.temperature = 0;
  const auto texts = (*session)->generate(std::span(&input, 1), generation);
  if (!texts.ok()) FAIL(texts.error().text());
  return texts->at(0).at(0).tokens;
}

void check(const std::filesystem::path& path, TensorType type, double most) {
  CAPTURE(info(type).name);
  const auto model = load_model(path);
  CHECK(model->file().architecture() == "whisper");
  const Answers answers(fixtures().model("whisper") / "expected.safetensors");
  ForcedPassOptions options;
  options.readable = {"encoder_last_hidden_state", "logits"};
  auto pass = ForcedPass::create(model, options);
  if (!pass.ok()) FAIL(pass.error().text());
  const std::vector<ForcedInput> inputs = answers.inputs();
  if (const Status status = (*pass)->run(std::span(inputs).first(1)); !status.ok())
    FAIL(status.error().text());
  for (const std::string& tensor : options.readable) {
    CAPTURE(tensor);
    const std::vector<float> values = *(*pass)->read(tensor, 0);
    const std::vector<float> expected(answers.row(tensor, 0).begin(), answers.row(tensor, 0).end());
    REQUIRE(values.size() == expected.size());
    CHECK(relative_rms(values, expected) <= most);
  }
  if (type != TensorType::f32) return;
  // The original's own beginning, of a vocabulary that is not Whisper's.
  const auto original = ModelFile::open(fixtures().model("whisper"));
  const std::vector<uint32_t> prompt = {original->config()["decoder_start_token_id"].get<uint32_t>()};
  const std::vector<uint32_t> expected = answers.ids("generated_ids", 0);
  CHECK(greedy(model, inputs[0].input, prompt, expected.size()) == expected);
}

} // namespace

FIXTURE_TEST_CASE("files of whisper.cpp give what the original gives, in each type of weights") {
  const TemporaryFolder folder;
  for (const auto& [type, most] : {std::pair{TensorType::f32, 1e-4},
                                   {TensorType::f16, 5e-3},
                                   {TensorType::q8_0, 5e-2},
                                   {TensorType::q5_1, 0.2}})
    check(folder.write("ggml-test.bin", whisper_file(type)), type, most);
}

FIXTURE_TEST_CASE("convert writes files of whisper.cpp, of a folder and of such a file") {
  const WhisperFolder whisper;
  const TemporaryFolder folder;
  const auto convert = [&](const std::filesystem::path& from, const char* name, TensorType type) {
    const std::filesystem::path out = folder.path() / name;
    const ModelFile file = require(ModelFile::open(from));
    const auto definition = require(open_model_definition(file));
    ConversionOptions options;
    options.mixture = require(find_mixture(info(type).name));
    const Conversion conversion = require(convert_to_whisper_cpp(file, *definition, out, options, {}));
    CHECK(conversion.bytes == std::filesystem::file_size(out));
    CHECK(conversion.tensors == require(ModelFile::open(out)).tensors().size());
    return out;
  };
  const auto exact = convert(whisper.path(), "f32.bin", TensorType::f32);
  check(exact, TensorType::f32, 1e-4);
  check(convert(whisper.path(), "f16.bin", TensorType::f16), TensorType::f16, 5e-3);
  check(convert(exact, "q8_0.bin", TensorType::q8_0), TensorType::q8_0, 5e-2);
  const ModelFile quantised = require(ModelFile::open(folder.path() / "q8_0.bin"));
  const auto type = [&](const char* name) { return quantised.find(name)->type; };
  CHECK(type("model.decoder.embed_tokens.weight") == TensorType::q8_0);
  CHECK(type("model.encoder.conv1.weight") == TensorType::f16);
  CHECK(type("model.encoder.embed_positions.weight") == TensorType::f32);
  CHECK(quantised.ranked_tokens()->words.size() == 256);
  CHECK(quantised.ranked_tokens()->words[' '] == " ");
  CHECK(quantised.config() == require(ModelFile::open(exact)).config());
}

FIXTURE_TEST_CASE("a file of whisper.cpp names its tokens, its settings and its sound") {
  const TemporaryFolder folder;
  folder.write("tokenizer.json", "not this one");
  const std::string path = folder.write("ggml-test.bin", whisper_file(TensorType::f16)).string();
  const auto file = ModelFile::open(path);
  if (!file.ok()) FAIL(file.error().text());
  const auto tokenizer = load_tokenizer(*file);
  if (!tokenizer.ok()) FAIL(tokenizer.error().text());
  // 260 words, 2 marks, a language, 6 instructions and 51 times are 320 tokens.
  const auto is = [&](const char* name, uint32_t id) {
    return (*tokenizer)->find(name) == id && (*tokenizer)->piece(id) == name && (*tokenizer)->is_special(id);
  };
  CHECK(is("<|endoftext|>", 260));
  CHECK(is("<|startoftranscript|>", 261));
  CHECK(is("<|en|>", 262));
  CHECK(is("<|translate|>", 263));
  CHECK(is("<|notimestamps|>", 268));
  CHECK(is("<|0.00|>", 269));
  CHECK(is("<|1.00|>", 319));
  CHECK((*tokenizer)->vocabulary_size() == 320);
  const std::vector<uint32_t> ids = {258, 'o', ' ', 258, ' ', 256, 0xe2, 0x99, 0xaa};
  CHECK((*tokenizer)->encode("hello hell he♪", false) == ids);
  CHECK((*tokenizer)->decode(ids, false) == "hello hell he♪");
  CHECK((*tokenizer)->encode("h", true) == std::vector<uint32_t>{261, 268, 'h', 260});

  const auto settings = read_generation_config(*file, 320);
  if (!settings.ok()) FAIL(settings.error().text());
  CHECK(settings->prompt == std::vector<uint32_t>{261});
  CHECK(settings->ends == std::vector<uint32_t>{260});
  CHECK(settings->suppressed_first == std::vector<uint32_t>{260, ' '});
  const auto suppresses = [&](uint32_t id) { return std::ranges::count(settings->suppressed, id) > 0; };
  for (const uint32_t id : {uint32_t{'"'}, uint32_t{'['}, 259u, 0xe2u})
    CHECK(suppresses(id)); // ♪ begins with the last
  for (const uint32_t id : {uint32_t{'-'}, uint32_t{'a'}, 256u}) CHECK(!suppresses(id));

  const auto info = pumice_command({"inspect", path, "--json"});
  CAPTURE(info.err);
  REQUIRE(info.status == 0);
  CHECK(nlohmann::json::parse(info.out)["format"] == "ggml (whisper.cpp)");
  const std::string sound = folder.write("sound.wav", wav_bytes(wail(20000))).string();
  const auto heard = pumice_command({"transcribe", path, sound, "--json", "-n", "20"});
  CAPTURE(heard.err);
  REQUIRE(heard.status == 0);
  const nlohmann::json answer = nlohmann::json::parse(heard.out);
  CHECK(answer["language"] == "en");
  CHECK(answer["duration"] == 1.25);
  CHECK(!answer["segments"].empty());
}

FIXTURE_TEST_CASE("a file of whisper.cpp can be read through a function of the application's") {
  const std::string bytes = whisper_file(TensorType::f16);
  const ReadBytes source = [&](uint64_t at, std::span<std::byte> to) {
    if (at > bytes.size() || to.size() > bytes.size() - at) return false;
    std::memcpy(to.data(), bytes.data() + at, to.size());
    return true;
  };
  const auto whole = ModelFile::read(source, bytes.size(), "packed");
  if (!whole.ok()) FAIL(whole.error().text());
  const auto header = ModelFile::read_header(source, bytes.size(), "packed");
  if (!header.ok()) FAIL(header.error().text());
  CHECK(whole->tensors().size() == header->tensors().size());
  CHECK(whole->ranked_tokens()->words.size() == 260);
}
