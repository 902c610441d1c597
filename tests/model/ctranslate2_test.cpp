// Folders of CTranslate2, made of the fixtures' weights, against the answers that those have.
#include <algorithm>
#include <fstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "generate/encoder_decoder.h"
#include "generate/forced_pass.h"
#include "speech/word_times.h"
#include "support/command/answers.h"
#include "support/command/messages.h"
#include "support/files/ctranslate2.h"
#include "support/files/fixtures.h"
#include "support/files/temporary_folder.h"
#include "support/in_turn.h"
#include "support/model.h"
#include "support/vulkan/gpu.h"

using namespace pumice;
using nlohmann::json;
using Weights = Ctranslate2Builder::Weights;

namespace {

// The tensors of a fixture.
class Tensors {
public:
  explicit Tensors(const std::filesystem::path& folder) : file_(*ModelFile::open(folder)) {}

  bool has(const std::string& name) const { return file_.find(name); }
  const json& config() const { return file_.config(); }
  std::vector<float> values(const std::string& name) const {
    const TensorView* tensor = file_.find(name);
    REQUIRE_MESSAGE(tensor, name);
    std::vector<float> values(tensor->data.size() / 4);
    std::memcpy(values.data(), tensor->data.data(), tensor->data.size());
    return values;
  }
  std::vector<uint64_t> shape(const std::string& name) const { return file_.find(name)->shape; }

private:
  ModelFile file_;
};

struct Written {
  Ctranslate2Builder builder;
  const Tensors& tensors;

  // Several matrices of one width, one after the other, with their biases.
  void linear(const std::string& to, const std::vector<std::string>& from) {
    std::vector<float> matrix, bias;
    uint64_t rows = 0;
    for (const std::string& name : from) {
      const auto more = tensors.values(name + ".weight");
      matrix.insert(matrix.end(), more.begin(), more.end());
      rows += tensors.shape(name + ".weight")[0];
      if (!tensors.has(name + ".bias")) continue;
      const auto added = tensors.values(name + ".bias");
      bias.insert(bias.end(), added.begin(), added.end());
    }
    builder.weight(to + "/weight", {rows, matrix.size() / rows}, matrix);
    if (!bias.empty()) builder.weight(to + "/bias", {bias.size()}, bias);
  }
  void norm(const std::string& to, const std::string& from) {
    const auto gamma = tensors.values(from + ".weight");
    builder.weight(to + "/gamma", {gamma.size()}, gamma);
    if (tensors.has(from + ".bias"))
      builder.weight(to + "/beta", {gamma.size()}, tensors.values(from + ".bias"));
  }
  void attention(const std::string& to, const std::string& from, const std::vector<std::string>& names,
                 bool cross) {
    std::vector<std::string> all;
    for (const std::string& name : names) all.push_back(from + name);
    if (cross) {
      linear(to + "/linear_0", {all[0]});
      linear(to + "/linear_1", {all[1], all[2]});
      linear(to + "/linear_2", {all[3]});
    } else {
      linear(to + "/linear_0", {all[0], all[1], all[2]});
      linear(to + "/linear_1", {all[3]});
    }
  }
};

std::vector<float> sinusoids(uint64_t rows, uint64_t columns, uint64_t first, double divisor) {
  std::vector<float> table(rows * columns);
  for (uint64_t row = 0; row < rows; ++row) {
    for (uint64_t i = 0; i < columns / 2; ++i) {
      const double angle =
          static_cast<double>(first + row) * std::pow(10000.0, -2.0 * static_cast<double>(i) / divisor);
      table[row * columns + i] = static_cast<float>(std::sin(angle));
      table[row * columns + columns / 2 + i] = static_cast<float>(std::cos(angle));
    }
  }
  return table;
}

// A folder of a Marian or an M2M-100.
void write_bart(const Tensors& tensors, Weights weights, const TemporaryFolder& folder) {
  const json& config = tensors.config();
  const bool marian = config["model_type"] == "marian";
  Written out{Ctranslate2Builder(weights), tensors};
  const uint64_t hidden = config["d_model"], rows = config["max_position_embeddings"];
  std::vector<float> table = tensors.values("model.shared.weight"), bias;
  uint64_t words = table.size() / hidden;
  if (tensors.has("final_logits_bias")) bias = tensors.values("final_logits_bias");
  if (marian) { // the padding's row, which the decoder begins with, is left out
    REQUIRE(config["pad_token_id"] == words - 1);
    table.resize(--words * hidden);
    bias.resize(words);
  }
  const std::vector<std::string> names = {"q_proj", "k_proj", "v_proj", "out_proj"};
  out.builder.weight("decoder/embeddings/weight", {words, hidden}, table);
  out.builder.alias("encoder/embeddings_0/weight", "decoder/embeddings/weight");
  out.builder.alias("decoder/projection/weight", "decoder/embeddings/weight");
  if (weights == Weights::int8) {
    out.builder.alias("encoder/embeddings_0/weight_scale", "decoder/embeddings/weight_scale");
    out.builder.alias("decoder/projection/weight_scale", "decoder/embeddings/weight_scale");
  }
  if (!bias.empty()) out.builder.weight("decoder/projection/bias", {words}, bias);
  out.builder.number("decoder/start_from_zero_embedding", static_cast<int8_t>(marian));
  for (const std::string side : {"encoder", "decoder"}) {
    out.builder.number(side + "/num_heads", int16_t{4});
    out.builder.number(side + "/pre_norm", static_cast<int8_t>(!marian));
    out.builder.number(side + "/activation",
                       static_cast<int8_t>(config["activation_function"] == "swish" ? 2 : 0));
    out.builder.number(side + "/scale_embeddings", std::sqrt(static_cast<float>(hidden)));
    const std::vector<float> positions = marian ? sinusoids(rows, hidden, 0, static_cast<double>(hidden))
                                                : sinusoids(rows, hidden, 2, static_cast<double>(hidden) - 2);
    out.builder.floats(side + "/position_encodings/encodings", {rows, hidden},
                       positions); // never of eight bits
    if (!marian) out.norm(side + "/layer_norm", "model." + side + ".layer_norm");
    for (int layer = 0; layer < 2; ++layer) {
      const std::string to = side + "/layer_" + std::to_string(layer) + "/";
      const std::string from = "model." + side + ".layers." + std::to_string(layer) + ".";
      out.attention(to + "self_attention", from + "self_attn.", names, false);
      out.norm(to + "self_attention/layer_norm", from + "self_attn_layer_norm");
      if (side == "decoder") {
        out.attention(to + "attention", from + "encoder_attn.", names, true);
        out.norm(to + "attention/layer_norm", from + "encoder_attn_layer_norm");
      }
      out.linear(to + "ffn/linear_0", {from + "fc1"});
      out.linear(to + "ffn/linear_1", {from + "fc2"});
      out.norm(to + "ffn/layer_norm", from + "final_layer_norm");
    }
  }
  folder.write("model.bin", out.builder.build());
}

void write_t5(const Tensors& tensors, Weights weights, const TemporaryFolder& folder) {
  const json& config = tensors.config();
  const bool gated = tensors.has("encoder.block.0.layer.1.DenseReluDense.wi_0.weight");
  Written out{Ctranslate2Builder(weights), tensors};
  const std::vector<std::string> names = {"q", "k", "v", "o"};
  const std::vector<uint64_t> shape = tensors.shape("shared.weight");
  out.builder.weight("decoder/embeddings/weight", shape, tensors.values("shared.weight"));
  out.builder.alias("encoder/embeddings_0/weight", "decoder/embeddings/weight");
  if (tensors.has("lm_head.weight")) {
    out.linear("decoder/projection", {"lm_head"});
  } else {
    out.builder.alias("decoder/projection/weight", "decoder/embeddings/weight");
    if (config.value("scale_decoder_outputs", true)) {
      out.builder.number("decoder/scale_outputs", 1 / std::sqrt(static_cast<float>(shape[1])));
    }
  }
  if (weights == Weights::int8) {
    out.builder.alias("encoder/embeddings_0/weight_scale", "decoder/embeddings/weight_scale");
    if (!tensors.has("lm_head.weight"))
      out.builder.alias("decoder/projection/weight_scale", "decoder/embeddings/weight_scale");
  }
  for (const std::string side : {"encoder", "decoder"}) {
    out.builder.number(side + "/num_heads", config["num_heads"].get<int16_t>());
    out.builder.number(side + "/pre_norm", int8_t{1});
    out.builder.number(side + "/scale_embeddings", int8_t{0});
    out.builder.number(side + "/activation", static_cast<int8_t>(gated ? 1 : 0));
    out.norm(side + "/layer_norm", side + ".final_layer_norm");
    for (int layer = 0; layer < config["num_layers"].get<int>(); ++layer) {
      const std::string to = side + "/layer_" + std::to_string(layer) + "/";
      const std::string from = side + ".block." + std::to_string(layer) + ".layer.";
      const std::string bias = side + ".block.0.layer.0.SelfAttention.relative_attention_bias.weight";
      out.attention(to + "self_attention", from + "0.SelfAttention.", names, false);
      out.builder.floats(to + "self_attention/relative_attention_bias", tensors.shape(bias),
                         tensors.values(bias));
      out.builder.number(to + "self_attention/relative_attention_max_distance",
                         config["relative_attention_max_distance"].get<int32_t>());
      out.norm(to + "self_attention/layer_norm", from + "0.layer_norm");
      if (side == "decoder") {
        out.attention(to + "attention", from + "1.EncDecAttention.", names, true);
        out.norm(to + "attention/layer_norm", from + "1.layer_norm");
      }
      const std::string feed = from + (side == "decoder" ? "2." : "1.");
      out.linear(to + "ffn/linear_0", {feed + (gated ? "DenseReluDense.wi_0" : "DenseReluDense.wi")});
      if (gated) out.linear(to + "ffn/linear_0_noact", {feed + "DenseReluDense.wi_1"});
      out.linear(to + "ffn/linear_1", {feed + "DenseReluDense.wo"});
      out.norm(to + "ffn/layer_norm", feed + "layer_norm");
    }
  }
  folder.write("model.bin", out.builder.build());
}

// The projections of Whisper's attention: its keys have no biases, which are zeros there.
void write_whisper_attention(Written& out, const std::string& to, const std::string& from, bool cross) {
  const auto joined = [&](const std::string& name, std::initializer_list<const char*> parts) {
    std::vector<float> matrix, bias;
    for (const std::string part : parts) {
      const auto rows = out.tensors.values(from + part + ".weight");
      matrix.insert(matrix.end(), rows.begin(), rows.end());
      bias.resize(bias.size() + out.tensors.shape(from + part + ".weight")[0]);
      if (part == "k_proj") continue;
      const auto own = out.tensors.values(from + part + ".bias");
      std::ranges::copy(own, bias.end() - static_cast<ptrdiff_t>(own.size()));
    }
    out.builder.weight(to + name + "/weight", {bias.size(), matrix.size() / bias.size()}, matrix);
    out.builder.weight(to + name + "/bias", {bias.size()}, bias);
  };
  if (cross) {
    joined("/linear_0", {"q_proj"});
    joined("/linear_1", {"k_proj", "v_proj"});
    joined("/linear_2", {"out_proj"});
  } else {
    joined("/linear_0", {"q_proj", "k_proj", "v_proj"});
    joined("/linear_1", {"out_proj"});
  }
}

void write_whisper(const Tensors& tensors, Weights weights, const TemporaryFolder& folder) {
  const json& config = tensors.config();
  Written out{Ctranslate2Builder(weights), tensors};
  const std::string table = "model.decoder.embed_tokens.weight";
  out.builder.weight("decoder/embeddings/weight", tensors.shape(table), tensors.values(table));
  out.builder.alias("decoder/projection/weight", "decoder/embeddings/weight");
  if (weights == Weights::int8)
    out.builder.alias("decoder/projection/weight_scale", "decoder/embeddings/weight_scale");
  for (const std::string name : {"conv1", "conv2"}) { // never of eight bits
    for (const std::string part : {"weight", "bias"}) {
      const std::string from = "model.encoder." + name + "." + part;
      out.builder.floats("encoder/" + name + "/" + part, tensors.shape(from), tensors.values(from));
    }
  }
  for (const std::string side : {"encoder", "decoder"}) {
    const std::string positions = "model." + side + ".embed_positions.weight";
    out.builder.number(side + "/num_heads", config[side + "_attention_heads"].get<int16_t>());
    out.builder.floats(side + "/position_encodings/encodings", tensors.shape(positions),
                       tensors.values(positions));
    out.norm(side + "/layer_norm", "model." + side + ".layer_norm");
    for (int layer = 0; layer < config[side + "_layers"].get<int>(); ++layer) {
      const std::string to = side + "/layer_" + std::to_string(layer) + "/";
      const std::string from = "model." + side + ".layers." + std::to_string(layer) + ".";
      write_whisper_attention(out, to + "self_attention", from + "self_attn.", false);
      out.norm(to + "self_attention/layer_norm", from + "self_attn_layer_norm");
      if (side == "decoder") {
        write_whisper_attention(out, to + "attention", from + "encoder_attn.", true);
        out.norm(to + "attention/layer_norm", from + "encoder_attn_layer_norm");
      }
      out.linear(to + "ffn/linear_0", {from + "fc1"});
      out.linear(to + "ffn/linear_1", {from + "fc2"});
      out.norm(to + "ffn/layer_norm", from + "final_layer_norm");
    }
  }
  out.builder.number("decoder/activation", int8_t{3});
  folder.write("model.bin", out.builder.build("WhisperSpec", 6));

  std::vector<std::string> tokens;
  for (int i = 0; i < config["vocab_size"].get<int>(); ++i) tokens.push_back("w" + std::to_string(i));
  tokens[config["eos_token_id"]] = "<|endoftext|>";
  tokens[config["decoder_start_token_id"]] = "<|startoftranscript|>";
  if (weights == Weights::f16) { // as older folders have it
    std::string lines;
    for (const std::string& token : tokens) lines += token + "\n";
    folder.write("vocabulary.txt", lines);
  } else {
    folder.write("vocabulary.json", json(tokens).dump());
  }
  folder.write("config.json", json({{"suppress_ids", {-1, 319}},
                                    {"suppress_ids_begin", {318}},
                                    {"alignment_heads", {{1, 0}, {0, 3}}}})
                                  .dump());
}

void write_settings(const json& config, const TemporaryFolder& folder) {
  json tokens = json::array();
  const bool marian = config["model_type"] == "marian";
  for (int i = 0; i < config["vocab_size"].get<int>() - (marian ? 1 : 0); ++i)
    tokens.push_back("w" + std::to_string(i));
  const auto name = [](const json& id) { return "w" + std::to_string(id.get<int>()); };
  folder.write("shared_vocabulary.json", tokens.dump());
  const json start = marian ? config["eos_token_id"] : config["decoder_start_token_id"];
  folder.write("config.json", json({{"eos_token", name(config["eos_token_id"])},
                                    {"decoder_start_token", name(start)},
                                    {"layer_norm_epsilon", nullptr}})
                                  .dump());
}

void check(const std::string& name, Weights weights) {
  CAPTURE(name);
  CAPTURE(static_cast<int>(weights));
  const std::filesystem::path fixture = fixtures().model(name);
  const Tensors tensors(fixture);
  const TemporaryFolder folder;
  const json& type = tensors.config()["model_type"];
  if (type == "whisper") {
    write_whisper(tensors, weights, folder);
  } else {
    type == "t5" ? write_t5(tensors, weights, folder) : write_bart(tensors, weights, folder);
    write_settings(tensors.config(), folder);
  }
  const Answers answers(fixture / "expected.safetensors");
  const auto model = load_model(folder.path());
  CHECK(model->file().architecture() == type.get<std::string>());

  ForcedPassOptions options;
  // Marian's decoder begins with zeros there, and with random numbers in the fixture.
  const bool whole = tensors.config()["model_type"] != "marian";
  options.readable = {"encoder_last_hidden_state"};
  if (whole) options.readable.push_back("logits");
  auto pass = ForcedPass::create(model, options);
  if (!pass.ok()) FAIL(pass.error().text());
  const std::vector<ForcedInput> inputs = answers.inputs();
  if (const Status status = (*pass)->run(std::span(inputs).first(1)); !status.ok())
    FAIL(status.error().text());
  // As far as numbers of eight bits, of sixteen, or the order of sums goes.
  // T5 does not scale its scores, so that rounded weights move its random ones far.
  const bool t5 = tensors.config()["model_type"] == "t5";
  const double most = weights == Weights::int8  ? (t5 ? 0.5 : 0.1)
                      : weights == Weights::f16 ? (t5 ? 6e-2 : 5e-3)
                                                : 1e-4;
  for (const std::string& tensor : options.readable) {
    CAPTURE(tensor);
    const std::vector<float> values = *(*pass)->read(tensor, 0);
    std::vector<float> expected(answers.row(tensor, 0).begin(), answers.row(tensor, 0).end());
    if (tensor == "logits" && values.size() < expected.size()) FAIL("the vocabulary is too small");
    CHECK(relative_rms(values, expected) <= most);
  }
  if (weights != Weights::f32 || !whole) return;
  auto session = EncoderDecoder::create(model, {});
  if (!session.ok()) FAIL(session.error().text());
  auto config = read_generation_config(model->file(), model->shape().vocabulary);
  if (!config.ok()) FAIL(config.error().text());
  GenerationOptions generation;
  generation.config = *config;
  generation.config.ends.clear();
  generation.config.max_tokens = 12;
  generation.sampling.temperature = 0;
  const auto texts = (*session)->generate(std::span(&inputs[0].input, 1), generation);
  if (!texts.ok()) FAIL(texts.error().text());
  CHECK(texts->at(0).at(0).tokens == answers.ids("generated_ids", 0));
}

} // namespace

// Each model in floats, and in turn in another type; a long run has each in both.
FIXTURE_TEST_CASE("folders of CTranslate2 give what their originals give, in each type of weights") {
  size_t turn = 0;
  for (const char* name : {"marian", "m2m100", "t5", "flan-t5", "whisper"}) {
    check(name, Weights::f32);
    for (Weights weights : turn_of(std::array{Weights::f16, Weights::int8}, turn++)) check(name, weights);
  }
}

FIXTURE_TEST_CASE("a Whisper of CTranslate2 brings the settings of its own config.json") {
  const TemporaryFolder folder;
  const Tensors tensors(fixtures().model("whisper"));
  write_whisper(tensors, Weights::f32, folder);
  const ModelFile file = *ModelFile::open(folder.path());
  CHECK(file.config()["suppress_tokens"] == json::array({319}));
  CHECK(file.config()["begin_suppress_tokens"] == json::array({318}));
  CHECK(file.config()["is_multilingual"] == true);
  CHECK(file.config()["preprocessor_config"]["feature_size"] == 80);
  CHECK(file.config()["preprocessor_config"]["chunk_length"] == 1);
  const auto heads = read_alignment_heads(file);
  REQUIRE(heads.ok());
  REQUIRE(heads->size() == 2);
  CHECK((*heads)[1].layer == 0);
  CHECK((*heads)[1].head == 3);
  folder.write("vocabulary.json", R"(["a", "<|endoftext|>"])");
  CHECK(says(ModelFile::open(folder.path()), {"no token <|startoftranscript|>"}) == "");
  folder.write("vocabulary.json", R"({"a": 1})");
  CHECK(says(ModelFile::open(folder.path()), {"vocabulary.json", "a list of tokens"}) == "");
}

TEST_CASE("models of CTranslate2 that are damaged or of another kind are refused") {
  const TemporaryFolder folder;
  folder.write("config.json", "{}");
  const auto refuses = [&](const std::string& bytes, std::initializer_list<std::string_view> parts) {
    folder.write("model.bin", bytes);
    return says(ModelFile::open(folder.path()), parts);
  };
  Ctranslate2Builder builder(Weights::f32);
  builder.floats("a", {2, 2}, {1, 2, 3, 4});
  CHECK(refuses("", {"model.bin", "too early"}) == "");
  CHECK(refuses(builder.build().substr(0, 50), {"model.bin", "too early"}) == "");
  CHECK(refuses(builder.build("TransformerSpec", 99), {"version 4 to 6", "99"}) == "");
  CHECK(refuses(builder.build("BertSpec"), {"TransformerSpec", "WhisperSpec", "BertSpec"}) == "");
  CHECK(refuses(builder.build("WhisperSpec"), {"encoder/position_encodings/encodings"}) == "");
  CHECK(refuses(builder.build(), {"encoder/embeddings_0/weight"}) == "");
  builder.alias("b", "c");
  CHECK(refuses(builder.build(), {"\"b\"", "\"c\"", "not in the file"}) == "");
}
