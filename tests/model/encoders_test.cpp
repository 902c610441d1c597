// Encoders and encoder-decoders against a reference's answers, each input alone and beside others.
#include <fstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "generate/encoder_decoder.h"
#include "io/formats/safetensors.h"
#include "support/command/answers.h"
#include "support/command/command.h"
#include "support/files/converted.h"
#include "support/files/fixtures.h"
#include "support/files/temporary_folder.h"
#include "support/in_turn.h"
#include "support/model.h"
#include "support/vulkan/gpu.h"
#include "support/vulkan/row_bits.h"

using namespace pumice;

namespace {

constexpr const char* folders[] = {"bert",
                                   "bert/model.gguf",
                                   "roberta",
                                   "distilbert",
                                   "electra",
                                   "albert",
                                   "mpnet",
                                   "nomic-bert",
                                   "modernbert",
                                   "deberta-v2",
                                   "embedding-gemma",
                                   "vit",
                                   "dinov2",
                                   "wav2vec2",
                                   "transformer-postnorm",
                                   "transformer-prenorm",
                                   "bart",
                                   "marian",
                                   "marian-relu",
                                   "m2m100",
                                   "mbart",
                                   "pegasus",
                                   "rnn-attention",
                                   "t5",
                                   "t5/model.gguf",
                                   "flan-t5",
                                   "flan-t5/model.gguf",
                                   "whisper",
                                   "vit-gpt2"};
// That only the repository's own set has.
constexpr const char* own_folders[] = {
    "beit",     "deit",    "vit-trocr",    "deit-trocr", "beit-trocr",   "donut",
    "eurobert", "jina-v3", "moonshine",    "parakeet",   "parakeet-tdt", "parakeet-rnnt",
    "jina-v2",  "neobert", "jina-v2-code", "nomic-moe",  "florence2"};
// With a head of each token.
constexpr const char* token_folders[] = {
    "bert-tokens",    "roberta-tokens",     "distilbert-tokens", "albert-tokens", "modernbert-tokens",
    "electra-tokens", "mpnet-tokens",       "deberta-v2-tokens", "bert-answers",  "roberta-answers",
    "albert-answers", "distilbert-answers", "modernbert-answers"};

// [queries, heads, width] as a pass gives them to [heads, queries, keys] as the reference does, with zeros
// for padding.
std::vector<float> by_head(std::span<const float> rows, size_t heads, size_t width, size_t queries,
                           size_t keys) {
  std::vector<float> result(heads * queries * keys);
  const size_t here = rows.size() / (heads * width);
  for (size_t query = 0; query < here; ++query) {
    for (size_t head = 0; head < heads; ++head) {
      for (size_t key = 0; key < std::min(keys, width); ++key) {
        result[(head * queries + query) * keys + key] = rows[(query * heads + head) * width + key];
      }
    }
  }
  return result;
}

bool is_attention(const std::string& name) {
  return name.starts_with("attentions.") || name.starts_with("cross_attentions.");
}

std::vector<std::string> wanted(const Answers& answers, const std::string& path) {
  std::vector<std::string> names;
  for (const auto& [name, values] : answers.floats) {
    if (name == "pixel_values" || name == "input_features" || name == "audio_16khz" || name == "input_values")
      continue;
    if (name == "pooler_output" && path.ends_with(".gguf")) continue; // llama.cpp's files have no pooler
    names.push_back(name);
  }
  return names;
}

// Compares what a pass left of one input with the answers. Rows of padding are left out, but of attention
// weights: there the reference's queries that are padding are.
void compare(const ForcedPass& pass, const Answers& answers, const std::string& name, size_t row,
             size_t index) {
  CAPTURE(name);
  auto values = pass.read(name, index);
  if (!values.ok()) FAIL(values.error().text());
  std::vector<float> expected(answers.row(name, row).begin(), answers.row(name, row).end());
  if (is_attention(name)) {
    const std::vector<uint64_t>& shape = answers.shapes.at(name);
    const size_t queries = values->size() / pass.columns(name);
    std::vector<float> own = by_head(*values, shape[1], pass.columns(name) / shape[1], shape[2], shape[3]);
    for (size_t head = 0; head < shape[1]; ++head) { // queries that are padding
      const size_t from = (head * shape[2] + queries) * shape[3];
      std::fill_n(expected.begin() + static_cast<ptrdiff_t>(from), (shape[2] - queries) * shape[3], 0.0f);
    }
    CHECK(relative_rms(own, expected) <= 1e-4);
    return;
  }
  const bool each_token = name == "logits" && answers.shapes.at(name).size() == 3 &&
                          answers.shapes.contains("input_ids") &&
                          !answers.shapes.contains("decoder_input_ids");
  if (each_token || name.ends_with("last_hidden_state") || name.find("hidden_states.") != std::string::npos) {
    expected.resize(values->size());
  }
  REQUIRE(values->size() == expected.size());
  CHECK(relative_rms(*values, expected) <= 1e-4);
}

std::unique_ptr<ForcedPass> make_pass(const std::shared_ptr<const Model>& model,
                                      const std::vector<std::string>& readable, uint32_t inputs,
                                      uint32_t chunk) {
  ForcedPassOptions options;
  options.readable = readable;
  options.inputs = inputs;
  options.input_tokens = model->shape().encoder->context * inputs;
  options.chunk = chunk;
  auto pass = ForcedPass::create(model, options);
  if (!pass.ok()) FAIL(pass.error().text());
  return std::move(*pass);
}

void check_forward(const std::shared_ptr<const Model>& model, const Answers& answers, const std::string& path,
                   bool alone_too = true) {
  const std::vector<ForcedInput> inputs = answers.inputs(model->shape().encoder->picture_rows);
  REQUIRE(!inputs.empty());
  const std::vector<std::string> names = wanted(answers, path);
  REQUIRE(!names.empty());
  const auto together = make_pass(model, names, static_cast<uint32_t>(inputs.size()), 128);
  REQUIRE(together->fitting(inputs) == inputs.size());
  if (const Status status = together->run(inputs); !status.ok()) FAIL(status.error().text());
  for (size_t i = 0; i < inputs.size(); ++i) {
    CAPTURE(i);
    for (const std::string& name : names) compare(*together, answers, name, i, i);
  }
  if (!alone_too) return;
  const auto alone = make_pass(model, names, 1, 4);
  for (size_t i = 0; i < inputs.size(); ++i) {
    CAPTURE(i);
    if (const Status status = alone->run(std::span(inputs).subspan(i, 1)); !status.ok()) {
      FAIL(status.error().text());
    }
    for (const std::string& name : names) {
      CAPTURE(name);
      // How wide rows of attention weights are depends on the session.
      if (!is_attention(name)) CHECK(same_in_any_step(*together->read(name, i), *alone->read(name, 0)));
    }
  }
}

std::vector<uint32_t> generate(EncoderDecoder& session, const EncoderInput& input, uint32_t beams,
                               std::vector<uint32_t> ends) {
  auto config = read_generation_config(session.model().file(), session.model().shape().vocabulary);
  if (!config.ok()) FAIL(config.error().text());
  GenerationOptions options;
  options.config = *config;
  options.config.beams = beams;
  options.config.length_penalty = 1;
  options.config.ends = std::move(ends);
  options.config.max_tokens = 12;
  options.sampling.temperature = 0;
  const auto texts = session.generate(std::span(&input, 1), options);
  if (!texts.ok()) FAIL(texts.error().text());
  return texts->at(0).at(0).tokens;
}

// Greedily in a session of one beam and of four, and with four beams. In a short run one session, or none, in
// turn.
void check_generated(const std::shared_ptr<const Model>& model, const Answers& answers,
                     const std::filesystem::path& folder, size_t turn) {
  const EncoderInput input = answers.inputs(model->shape().encoder->picture_rows)[0].input;
  EncoderDecoderOptions options;
  if (!takes(turn % 3 != 2)) return;
  if (takes(turn % 3 == 0)) {
    auto greedy = EncoderDecoder::create(model, options);
    if (!greedy.ok()) FAIL(greedy.error().text());
    CHECK(generate(**greedy, input, 1, {}) == answers.ids("generated_ids", 0));
    if (!every_case()) return;
  }
  options.beams = 4;
  auto beams = EncoderDecoder::create(model, options);
  if (!beams.ok()) FAIL(beams.error().text());
  CHECK(generate(**beams, input, 1, {}) == answers.ids("generated_ids", 0));
  std::vector<uint32_t> expected = answers.ids("beam4_ids", 0);
  if (expected.empty()) return;
  // GGUF files without a vocabulary do not say what ends a text.
  const auto config = read_generation_config(*ModelFile::open(folder), model->shape().vocabulary);
  REQUIRE(config->ends.size() == 1);
  expected.erase(std::ranges::find(expected, config->ends[0]), expected.end());
  std::vector<uint32_t> found = generate(**beams, input, 4, config->ends);
  found.erase(std::ranges::find(found, config->ends[0]), found.end());
  CHECK(found == expected);
}

void check_folder(const std::string& folder, size_t turn) {
  CAPTURE(folder);
  const std::filesystem::path path = fixtures().model(folder);
  const std::filesystem::path home = path.extension() == ".gguf" ? path.parent_path() : path;
  const Answers answers(home / "expected.safetensors");
  const auto model = load_model(path);
  check_forward(model, answers, folder, takes(turn % 4 == 0));
  if (model->shape().has_decoder()) check_generated(model, answers, home, turn);
}

// The same from the GGUF file that is made of the folder. Those in llama.cpp's form have tests of their own.
void check_converted(const std::string& folder, size_t turn) {
  if (folder.ends_with(".gguf")) return;
  CAPTURE(folder);
  const std::filesystem::path path = fixtures().model(folder);
  const TemporaryFolder temporary;
  const std::filesystem::path out = temporary.path() / "model.gguf";
  const Conversion conversion = convert_to(out, path, TensorType::f32);
  if (ModelFile::open(out)->format() == ModelFile::Format::gguf) return;
  CHECK(conversion.notes.back().find("only Pumice reads the file") != std::string::npos);
  const Answers answers(path / "expected.safetensors");
  const auto model = load_model(out);
  check_forward(model, answers, folder, every_case());
  if (!takes(turn % 8 == 0)) return;
  if (model->shape().has_decoder()) check_generated(model, answers, out, turn);
  // Quantised, every kind of weight is still one that the kernels take.
  (void)convert_to(out, path, TensorType::q8_0);
  const auto quantised = load_model(out);
  const std::vector<ForcedInput> inputs = answers.inputs(quantised->shape().encoder->picture_rows);
  const std::vector<std::string> names = wanted(answers, folder);
  const auto pass = make_pass(quantised, names, static_cast<uint32_t>(inputs.size()), 128);
  if (const Status status = pass->run(inputs); !status.ok()) FAIL(status.error().text());
  for (const std::string& name : names) {
    CAPTURE(name);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (name != "logits" && !name.ends_with("last_hidden_state")) continue;
      const std::vector<float> values = *pass->read(name, i);
      std::vector<float> expected(answers.row(name, i).begin(), answers.row(name, i).end());
      if (name != "logits") expected.resize(values.size());
      REQUIRE(values.size() == expected.size());
      CHECK(relative_rms(values, expected) <= 0.1);
    }
  }
}

} // namespace

// Each model's tensors, and the texts of two of three in ways that take turns. Each input alone for some of
// them; a long run has all for each.
FIXTURE_TEST_CASE("encoders and encoder-decoders give the reference's answers, alone and beside others") {
  size_t turn = 0;
  for (const char* folder : folders) check_folder(folder, turn++);
}

TEST_CASE("models that only the repository has give the reference's answers, alone and beside others") {
  size_t turn = 0;
  for (const char* folder : own_folders) check_folder(folder, turn++);
}

// Each model's names and settings in a GGUF file: its tensors. Its text, and the file in eight bits, of some
// in turn; in a long run of each.
FIXTURE_TEST_CASE("encoders and encoder-decoders give the same from the GGUF file that convert writes") {
  size_t turn = 0;
  for (const char* folder : folders) check_converted(folder, turn++);
}

TEST_CASE("models that only the repository has give the same from the GGUF file that convert writes") {
  size_t turn = 0;
  for (const char* folder : own_folders) check_converted(folder, turn++);
}

// llama.cpp's form has no place for what is added to the result of all experts.
TEST_CASE("a mixture of Nomic BERT without a bias of its experts is the same in llama.cpp's form") {
  const std::filesystem::path source = fixtures().model("nomic-moe");
  const TemporaryFolder folder, other;
  std::filesystem::copy_file(source / "config.json", folder.path() / "config.json");
  const auto file = require(SafetensorsFile::open(source / "model.safetensors"));
  std::vector<SafetensorsFile::Entry> entries = file.entries;
  std::erase_if(entries,
                [](const SafetensorsFile::Entry& entry) { return entry.name.ends_with("experts.bias"); });
  REQUIRE(entries.size() + 1 == file.entries.size());
  require(write_safetensors(folder.path() / "model.safetensors", entries));
  const std::filesystem::path out = other.path() / "model.gguf";
  (void)convert_to(out, folder.path(), TensorType::f32);
  CHECK(require(ModelFile::open(out)).architecture() == "nomic-bert-moe");
  const std::vector<ForcedInput> inputs = Answers(source / "expected.safetensors").inputs();
  std::vector<std::vector<float>> states;
  for (const std::filesystem::path& path : {folder.path(), out}) {
    const auto pass = make_pass(load_model(path), {"last_hidden_state"}, 2, 128);
    REQUIRE(pass->run(inputs).ok());
    states.push_back(*pass->read("last_hidden_state", 0));
  }
  CHECK(relative_rms(states[1], states[0]) <= 1e-6);
}

TEST_CASE("heads of each token give the reference's logits, from the GGUF file that convert writes too") {
  size_t turn = 0;
  for (const char* folder : token_folders) {
    CAPTURE(folder);
    const std::filesystem::path path = fixtures().model(folder);
    const Answers answers(path / "expected.safetensors");
    const auto model = load_model(path);
    CHECK(model->shape().encoder->token_head !=
          (std::string(folder).ends_with("tokens") ? TokenHead::answers : TokenHead::labels));
    check_forward(model, answers, folder, takes(turn % 4 == 0));
    if (takes(turn++ % 4 == 0)) check_converted(folder, turn);
  }
}

// A GGUF file does not say from which distance on keys are all the same to T5. By itself it is taken to be
// 128, that of every model published; in the fixtures' folders config.json beside it says 20.
FIXTURE_TEST_CASE("T5 from a GGUF file by itself gives what its folder gives with the usual distance") {
  for (const std::string name : {"t5", "flan-t5"}) {
    CAPTURE(name);
    const std::filesystem::path folder = fixtures().model(name);
    const TemporaryFolder changed, by_itself;
    std::filesystem::copy_file(folder / "model.gguf", by_itself.path() / "model.gguf");
    std::filesystem::copy_file(folder / "model.safetensors", changed.path() / "model.safetensors");
    nlohmann::json config = nlohmann::json::parse(std::ifstream(folder / "config.json"));
    config["relative_attention_max_distance"] = 128;
    std::ofstream(changed.path() / "config.json") << config;
    const Answers answers(folder / "expected.safetensors");
    const std::vector<ForcedInput> inputs = answers.inputs();
    const std::vector<std::string> readable = {"logits", "encoder_last_hidden_state"};
    const auto gguf = load_model(by_itself.path() / "model.gguf"), reference = load_model(changed.path());
    const auto found = make_pass(gguf, readable, 2, 128), expected = make_pass(reference, readable, 2, 128);
    REQUIRE(found->run(inputs).ok());
    REQUIRE(expected->run(inputs).ok());
    for (const std::string& tensor : readable) {
      for (size_t i = 0; i < inputs.size(); ++i) {
        CHECK(relative_rms(*found->read(tensor, i), *expected->read(tensor, i)) <= 1e-4);
      }
    }
    auto session = EncoderDecoder::create(gguf, {}), other = EncoderDecoder::create(reference, {});
    REQUIRE(session.ok());
    REQUIRE(other.ok());
    CHECK(generate(**session, inputs[0].input, 1, {}) == generate(**other, inputs[0].input, 1, {}));
  }
}
