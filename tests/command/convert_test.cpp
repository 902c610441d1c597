#include <cmath>
#include <fstream>
#include <map>
#include <random>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "io/formats/safetensors.h"
#include "io/model_file.h"
#include "support/command/command.h"
#include "support/command/messages.h"
#include "support/files/bert_folder.h"
#include "support/files/fixtures.h"
#include "support/files/gguf_builder.h"

using namespace pumice;
using nlohmann::json;

namespace {

ModelFile open_model(const std::filesystem::path& path) {
  Result<ModelFile> file = ModelFile::open(path);
  REQUIRE_MESSAGE(file.ok(), file.error().text());
  return std::move(*file);
}

std::vector<float> numbers(const TensorView& tensor) {
  uint64_t elements = 1;
  for (uint64_t size : tensor.shape) elements *= size;
  std::vector<float> values(elements);
  decode_row(tensor.type, tensor.data.data(), values);
  return values;
}

double relative_error(const std::vector<float>& found, const std::vector<float>& expected) {
  double error = 0, size = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    error += std::pow(double{found[i]} - expected[i], 2);
    size += std::pow(double{expected[i]}, 2);
  }
  return std::sqrt(error / size);
}

// A Hugging Face folder of a random llama with two layers.
struct RandomFolder {
  uint32_t vocabulary = 32;
  uint32_t hidden = 64;
  uint32_t heads = 4;
  uint32_t kv_heads = 2;
  uint32_t head_dim = 16;
  uint32_t feed_forward = 96;
  json changes = json::object(); // of config.json

  void write(const std::filesystem::path& folder) const {
    json config = {{"model_type", "llama"},          {"vocab_size", vocabulary},
                   {"hidden_size", hidden},          {"num_hidden_layers", 2},
                   {"num_attention_heads", heads},   {"num_key_value_heads", kv_heads},
                   {"head_dim", head_dim},           {"intermediate_size", feed_forward},
                   {"max_position_embeddings", 128}, {"rms_norm_eps", 1e-5}};
    config.update(changes);
    std::ofstream(folder / "config.json") << config;
    std::mt19937 random(7);
    std::map<std::string, std::vector<float>> values;
    std::vector<SafetensorsFile::Entry> entries;
    const auto add = [&](const std::string& name, std::vector<uint64_t> shape, float mean, float deviation) {
      uint64_t elements = 1;
      for (uint64_t size : shape) elements *= size;
      std::normal_distribution<float> normal(mean, deviation);
      std::vector<float>& numbers = values[name];
      for (uint64_t i = 0; i < elements; ++i) numbers.push_back(normal(random));
      entries.push_back({name, "F32", std::move(shape), std::as_bytes(std::span(numbers))});
    };
    const float deviation = 1.5f / std::sqrt(static_cast<float>(hidden));
    add("model.embed_tokens.weight", {vocabulary, hidden}, 0, 1);
    for (const std::string prefix : {"model.layers.0.", "model.layers.1."}) {
      add(prefix + "input_layernorm.weight", {hidden}, 1, 0.2f);
      add(prefix + "post_attention_layernorm.weight", {hidden}, 1, 0.2f);
      add(prefix + "self_attn.q_proj.weight", {heads * head_dim, hidden}, 0, deviation);
      add(prefix + "self_attn.k_proj.weight", {kv_heads * head_dim, hidden}, 0, deviation);
      add(prefix + "self_attn.v_proj.weight", {kv_heads * head_dim, hidden}, 0, deviation);
      add(prefix + "self_attn.o_proj.weight", {hidden, heads * head_dim}, 0, deviation);
      add(prefix + "mlp.gate_proj.weight", {feed_forward, hidden}, 0, deviation);
      add(prefix + "mlp.up_proj.weight", {feed_forward, hidden}, 0, deviation);
      add(prefix + "mlp.down_proj.weight", {hidden, feed_forward}, 0, deviation);
    }
    add("model.norm.weight", {hidden}, 1, 0.2f);
    add("lm_head.weight", {vocabulary, hidden}, 0, 0.4f);
    REQUIRE(write_safetensors(folder / "model.safetensors", entries).ok());
  }
};

CommandResult convert(const std::filesystem::path& folder, const std::filesystem::path& out,
                      const std::string& type, std::vector<std::string> more = {}) {
  std::vector<std::string> arguments = {"convert", folder.string(), out.string(), "--type", type};
  arguments.insert(arguments.end(), more.begin(), more.end());
  // No device is needed, so the loader is hidden.
  return pumice_command(arguments, nullptr, {"LD_LIBRARY_PATH=/nonexistent", "VK_ICD_FILENAMES="});
}

json generated(const std::filesystem::path& model, const std::string& prompt) {
  const CommandResult result = pumice_command(
      {"generate", model.string(), "--prompt", prompt, "-n", "16", "--temp", "0", "--ignore-eos", "--json"});
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  return json::parse(result.out);
}

} // namespace

FIXTURE_TEST_CASE("convert writes what llama.cpp's converter wrote") {
  const TemporaryFolder temporary;
  size_t checked = 0;
  for (const std::string& name : fixtures().models()) {
    const auto model = fixtures().model(name);
    if (!std::filesystem::exists(model / "model.gguf")) continue;
    if (name == "gemma4-moe")
      continue; // whose experts have gate and up in one tensor, which `convert` writes as two
    const auto out = temporary.path() / "out.gguf";
    const CommandResult result = convert(model, out, "F32");
    if (result.err.find("expected one of") != std::string::npos)
      continue; // no model of this kind can be read
    CAPTURE(name);
    CAPTURE(result.err);
    REQUIRE(result.status == 0);
    CHECK(result.err.find("no tokenizer.json") != std::string::npos);
    const ModelFile theirs = open_model(model / "model.gguf"), ours = open_model(out);
    CHECK(ours.architecture() == theirs.architecture());
    for (const auto& [key, value] : theirs.config().items()) {
      if (key == "general.name" || key == "general.size_label" || key == "tokenizer.ggml.model") continue;
      CAPTURE(key);
      REQUIRE(ours.config().contains(key));
      CHECK(ours.config().at(key) == value);
      CHECK(ours.config().at(key).type() == value.type());
    }
    CHECK(ours.tensors().size() == theirs.tensors().size());
    for (const TensorView& tensor : theirs.tensors()) {
      CAPTURE(tensor.name);
      const TensorView* found = ours.find(tensor.name);
      REQUIRE(found);
      CHECK(found->shape == tensor.shape);
      CHECK(found->type == tensor.type);
      // All but the numbers that are made up have the same bits.
      if (tensor.name.starts_with("rope_")) {
        CHECK(relative_error(numbers(*found), numbers(tensor)) < 1e-6);
      } else {
        CHECK(std::ranges::equal(found->data, tensor.data));
      }
    }
    ++checked;
  }
  CHECK(checked >= 3);
}

TEST_CASE("convert: every type holds the model's numbers, as far as it can") {
  const TemporaryFolder temporary;
  RandomFolder random;
  random.hidden = 256;
  random.head_dim = 64;
  random.feed_forward = 512;
  random.write(temporary.path());
  REQUIRE(convert(temporary.path(), temporary.path() / "f32.gguf", "F32").status == 0);
  const ModelFile exact = open_model(temporary.path() / "f32.gguf");
  for (const auto& [type, most] : std::map<std::string, double>{{"F16", 5e-4},
                                                                {"BF16", 4e-3},
                                                                {"Q8_0", 1e-2},
                                                                {"Q4_0", 0.12},
                                                                {"Q4_K", 0.1},
                                                                {"Q6_K", 2.5e-2},
                                                                {"Q5_1", 0.06},
                                                                {"Q2_K", 0.4},
                                                                {"Q3_K", 0.25},
                                                                {"Q5_K", 0.06},
                                                                {"IQ4_NL", 0.12},
                                                                {"IQ4_XS", 0.12}}) {
    CAPTURE(type);
    const auto out = temporary.path() / (type + ".gguf");
    const CommandResult result = convert(temporary.path(), out, type);
    CAPTURE(result.err);
    REQUIRE(result.status == 0);
    CHECK(result.out.find(out.string() + ": 21 tensors, ") == 0);
    const ModelFile file = open_model(out);
    CHECK(std::filesystem::file_size(out) < std::filesystem::file_size(temporary.path() / "f32.gguf"));
    for (const TensorView& tensor : exact.tensors()) {
      CAPTURE(tensor.name);
      const TensorView* found = file.find(tensor.name);
      REQUIRE(found);
      const bool better =
          tensor.name == "output.weight" && info(found->type).block_size > 1 && type != "Q8_0";
      if (type != "Q2_K") // which is a mixture
        CHECK(info(found->type).name == (tensor.shape.size() == 1 ? "F32" : better ? "Q6_K" : type));
      const double error = relative_error(numbers(*found), numbers(tensor));
      CHECK(error <= (tensor.shape.size() == 1 ? 0 : most));
      if (tensor.shape.size() > 1) CHECK(error > 0);
    }
  }
}

TEST_CASE("convert: rows that blocks do not fill fall back, and it is said once") {
  const TemporaryFolder temporary;
  RandomFolder random;
  random.feed_forward = 72; // the columns of ffn_down alone
  random.write(temporary.path());
  const auto out = temporary.path() / "out.gguf";
  CommandResult result = convert(temporary.path(), out, "Q4_0", {"--no-vocabulary"});
  CHECK(result.status == 0);
  CHECK(result.err.find("3 of 21 tensors") != std::string::npos); // the output's are to be Q6_K
  CHECK(result.err.find("with Q4_0") != std::string::npos);
  CHECK(open_model(out).find("blk.1.ffn_down.weight")->type == TensorType::f16);
  CHECK(open_model(out).find("blk.1.ffn_up.weight")->type == TensorType::q4_0);
  CHECK(convert(temporary.path(), out, "F16", {"--no-vocabulary"}).err == "");
  result = convert(temporary.path(), out, "Q4_K", {"--no-vocabulary"});
  CAPTURE(result.err);
  CHECK(result.err.find("16 of 21 tensors") != std::string::npos);
  CHECK(open_model(out).find("blk.1.ffn_up.weight")->type == TensorType::q5_0);
  CHECK(open_model(out).find("output.weight")->type == TensorType::q8_0);
  CHECK(open_model(out).find("blk.1.ffn_down.weight")->type == TensorType::f16);
}

TEST_CASE("convert: the GGUF file reads text and continues it as its folder does") {
  for (const std::string name : {"llama2", "llama3"}) {
    CAPTURE(name);
    const TemporaryFolder temporary;
    RandomFolder random;
    random.vocabulary = 907;
    random.changes = {{"eos_token_id", {2, 5, 6}}, {"rope_theta", 5000}};
    if (name == "llama3") {
      random.changes["rope_scaling"] = {{"rope_type", "llama3"},
                                        {"factor", 8},
                                        {"low_freq_factor", 1},
                                        {"high_freq_factor", 4},
                                        {"original_max_position_embeddings", 64}};
    }
    random.write(temporary.path());
    std::filesystem::copy(fixtures().tokenizer(name) / "tokenizer.json", temporary.path() / "tokenizer.json");
    std::ofstream(temporary.path() / "tokenizer_config.json")
        << json{{"chat_template",
                 {{{"name", "default"}, {"template", "{{ a }}"}}, {{"name", "rag"}, {"template", "b"}}}},
                {"pad_token", {{"content", name == "llama2" ? "<unk>" : "<|eot_id|>"}}}};
    const auto out = temporary.path() / "out.gguf";
    const CommandResult result = convert(temporary.path(), out, "F32");
    CAPTURE(result.err);
    REQUIRE(result.status == 0);
    const json settings = open_model(out).config();
    CHECK(settings["tokenizer.ggml.eos_token_id"] == 2);
    CHECK(settings["tokenizer.ggml.eot_token_id"] == 5);
    CHECK(settings["tokenizer.ggml.eom_token_id"] == 6);
    CHECK(settings["tokenizer.ggml.padding_token_id"] == (name == "llama2" ? 0 : 2));
    CHECK(settings["tokenizer.ggml.add_bos_token"] == (name == "llama2"));
    CHECK(settings["tokenizer.chat_template"] == "{{ a }}");
    CHECK(settings["tokenizer.chat_template.rag"] == "b");
    CHECK(settings["tokenizer.chat_templates"] == json{"rag"});
    const std::string prompt = "Once upon a time, in 1234";
    const json expected = generated(temporary.path(), prompt), found = generated(out, prompt);
    CHECK(found["ids"] == expected["ids"]);
    // The fixture's bytes are special tokens, which the folder's text leaves out.
    if (name != "llama2") CHECK(found["text"] == expected["text"]);
  }
}

TEST_CASE("convert: what it is not given, and what it cannot do") {
  const TemporaryFolder temporary;
  const auto model = temporary.path() / "model", out = temporary.path() / "out.gguf";
  std::filesystem::create_directory(model);
  RandomFolder random;
  random.write(model);
  CHECK(fails_saying(convert(model, out, "Q9_9"), {"--type", "Q9_9", "BF16"}) == "");
  CHECK(fails_saying(convert(model, temporary.path(), "F16"),
                     {temporary.path().string(), "it is a folder"}) == "");
  CHECK(fails_saying(convert(model, temporary.path() / "no" / "out.gguf", "F16"),
                     {"no/out.gguf", "no folder"}) == "");
  CHECK(fails_saying(convert(temporary.path() / "none", out, "F16"), {"none"}) == "");
  CHECK(fails_saying(convert(model, model / "model.safetensors", "F16"),
                     {"model.safetensors", "one of the files of the model"}) == "");
  CHECK(open_model(model).find("model.norm.weight"));
  const auto gguf = temporary.write("model.gguf", small_gguf().build());
  for (const char* option : {"--mmproj", "--no-vocabulary"})
    CHECK(fails_saying(convert(gguf, out, "F16", {option}), {"model.gguf", option, "GGUF file already"}) ==
          "");
  CHECK(fails_saying(convert(gguf, temporary.path() / "out.bin", "F16"), {"model.gguf", ".bin"}) == "");
  CHECK(fails_saying(convert(gguf, gguf, "F16"), {"model.gguf"}) == "");
  CHECK(fails_saying(convert(model, out, "F16", {"--tensor-type", "x"}),
                     {"--tensor-type", "'x'", "PATTERN=TYPE"}) == "");
  CHECK(fails_saying(convert(model, out, "F16", {"--tensor-type", "x=IQ2_S"}), {"'x=IQ2_S'", "Q8_0"}) == "");
  CHECK(fails_saying(convert(model, out, "F16", {"--tensor-type", "(=F16"}), {"--tensor-type", "'(=F16'"}) ==
        "");
  CHECK(fails_saying(convert(model, out, "F16", {"--imatrix", gguf.string()}), {"model.gguf", "means"}) ==
        "");

  std::ofstream(model / "tokenizer.json") << R"({"model": {"type": "Unigram", "vocab": [["a", -1.5]]}})";
  CHECK(fails_saying(convert(model, out, "F16"), {"tokenizer.json", "--no-vocabulary"}) == "");
  CHECK(convert(model, out, "F16", {"--no-vocabulary"}).status == 0);
  CHECK(open_model(out).config().at("tokenizer.ggml.model") == "no_vocab");
  std::ofstream(model / "tokenizer_config.json") << "[";
  CHECK(fails_saying(convert(model, out, "F16"), {"tokenizer_config.json"}) == "");
  std::filesystem::remove(model / "tokenizer_config.json");

  random.changes = {{"hidden_act", "relu"}};
  random.write(model);
  CHECK(fails_saying(convert(model, out, "F16"), {"hidden_act", "silu", "relu"}) == "");
  random.changes = {{"num_attention_heads", 8}};
  random.write(model);
  CHECK(fails_saying(convert(model, out, "F16"), {"q_proj"}) == "");
  std::filesystem::remove(model / "model.safetensors");
  CHECK(fails_saying(convert(model, out, "F16"), {"no weights"}) == "");
}

TEST_CASE("convert writes encoders: the file gives the folder's vectors") {
  for (const char* name :
       {"bert", "nomic-bert", "modernbert", "embedding-gemma", "jina-v2", "jina-v2-code", "neobert"}) {
    CAPTURE(name);
    const TemporaryFolder folder;
    const auto model = fixtures().model(name), out = folder.path() / "out.gguf";
    const CommandResult converted = convert(model, out, "F32");
    CAPTURE(converted.err);
    REQUIRE(converted.status == 0);
    const std::string in = (model / "expected.safetensors").string();
    const auto states = [&](const std::filesystem::path& path, const char* to) {
      const std::string file = (folder.path() / to).string();
      const CommandResult result = pumice_command(
          {"eval", path.string(), "--inputs", in, "--outputs", file, "--output", "last_hidden_state"});
      CAPTURE(result.err);
      REQUIRE(result.status == 0);
      const auto opened = SafetensorsFile::open(file);
      REQUIRE(opened.ok());
      return *SafetensorsFile::floats(*opened->find("last_hidden_state"));
    };
    CHECK(relative_error(states(out, "a.safetensors"), states(model, "b.safetensors")) < 1e-6);
  }
}

TEST_CASE("convert: a WordPiece vocabulary gives the same vectors") {
  const TemporaryFolder folder;
  REQUIRE(BertFolder().write(folder));
  const auto out = folder.path() / "out.gguf";
  REQUIRE(convert(folder.path(), out, "F32").status == 0);
  for (const char* text : {"The quick brown fox", "Äpfel, 42 transformers' don't", "東京"}) {
    CHECK(pumice_command({"embed", out.string(), text}).out ==
          pumice_command({"embed", folder.path().string(), text}).out);
  }
}
