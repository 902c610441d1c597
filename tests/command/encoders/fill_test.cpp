// `pumice fill`, sparse vectors and logits of masked language models, and token ids in the place of texts.
#include <fstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "support/command/agreement.h"
#include "support/command/answers.h"
#include "support/command/command.h"
#include "support/files/bert_folder.h"
#include "support/vulkan/gpu.h"

using nlohmann::json;

namespace {

BertFolder masked() {
  BertFolder folder;
  folder.masked = true;
  return folder;
}

std::vector<std::string> lines_of_output(const CommandResult& result) {
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  std::vector<std::string> lines;
  std::istringstream stream(result.out);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

} // namespace

TEST_CASE("fill finds words for each gap, alone and beside other texts, as the C interface does") {
  const TemporaryFolder folder;
  REQUIRE(masked().write(folder));
  const std::string model = folder.path().string();
  const char* texts[] = {"the [MASK] fox", "the quick <mask> and the [MASK]"};
  const auto lines =
      lines_of_output(pumice_command({"fill", model, texts[0], texts[1], "--json", "--top", "3"}));
  REQUIRE(lines.size() == 2);
  for (size_t i = 0; i < 2; ++i) {
    const json object = json::parse(lines[i]);
    CHECK(object["text"] == texts[i]);
    REQUIRE(object["gaps"].size() == i + 1);
    for (const json& gap : object["gaps"]) {
      REQUIRE(gap.size() == 3);
      CHECK(gap[0]["probability"] >= gap[1]["probability"]);
      CHECK(gap[0]["text"].get<std::string>().find(texts[i]) == std::string::npos);
    }
    CHECK(json::parse(lines_of_output(
              pumice_command({"fill", model, texts[i], "--json", "--top", "3"}))[0]) == object);
  }
  const auto plain = lines_of_output(pumice_command({"fill", model, texts[0], "--top", "2"}));
  REQUIRE(plain.size() == 2);
  const json best = json::parse(lines[0])["gaps"][0][0];
  CHECK(plain[0].ends_with("\t" + best["word"].get<std::string>() + "\t" + best["text"].get<std::string>()));

  const DeviceHandle& device = shared_device();
  const ModelHandle headless = load_for(device.get(), model, PUMICE_FOR_TEXT);
  pumice_filler* filler = nullptr;
  pumice_error error;
  CHECK(pumice_filler_create(headless.get(), nullptr, &filler, &error) == PUMICE_UNSUPPORTED);
  CHECK(std::string(error.message).find("PUMICE_FOR_SCORES") != std::string::npos);
  const ModelHandle loaded = load_for(device.get(), model, PUMICE_FOR_SCORES);
  pumice_filler_options options = {sizeof options};
  options.top = 3;
  require_ok(pumice_filler_create(loaded.get(), &options, &filler, &error), error);
  const pumice_fill* fills = nullptr;
  size_t count = 0;
  require_ok(pumice_filler_fill(filler, texts, 2, &fills, &count, nullptr, &error), error);
  REQUIRE(count == 9);
  for (size_t i = 0; i < count; ++i) {
    const json expected = json::parse(lines[fills[i].text])["gaps"][fills[i].gap][i % 3];
    CHECK(fills[i].token == expected["id"]);
    CHECK(fills[i].probability == expected["probability"].get<float>());
    CHECK(fills[i].word == expected["word"]);
  }
  pumice_filler_destroy(filler);
}

TEST_CASE("fill refuses texts without gaps, and models without the head") {
  const TemporaryFolder folder, plain;
  REQUIRE(masked().write(folder));
  REQUIRE(BertFolder().write(plain));
  CHECK(fails_saying(pumice_command({"fill", folder.path().string(), "no gap"}),
                     {"a gap to fill, '[MASK]'"}) == "");
  CHECK(fails_saying(pumice_command({"fill", plain.path().string(), "[MASK]"}), {"masked language model"}) ==
        "");
  CHECK(fails_saying(pumice_command({"rerank", folder.path().string(), "--query", "a", "b"}),
                     {"no sequence-classification head"}) == "");
  CHECK(fails_saying(pumice_command({"embed", plain.path().string(), "--sparse", "fox"}),
                     {"sparse vectors"}) == "");
}

TEST_CASE("a model that lacks what a task needs is named as what it is, with the command that it is for") {
  const TemporaryFolder gaps, classes, notes;
  REQUIRE(masked().write(gaps));
  BertFolder labelled;
  labelled.labels = 3;
  REQUIRE(labelled.write(classes));
  const std::string text = notes.write("text.txt", std::string_view("a fox")).string();
  const auto model = [](const char* name) { return fixtures().model(name).string(); };
  const struct {
    std::vector<std::string> arguments, says;
  } cases[] = {
      {{"fill", fixtures().story().string(), "[MASK]"},
       {"is a decoder", "masked language", "use pumice run"}},
      {{"fill", model("mamba2"), "[MASK]"}, {"is a decoder", "masked language", "use pumice run"}},
      {{"fill", model("vit"), "[MASK]"}, {"is an encoder of pictures", "use pumice classify"}},
      {{"fill", model("t5"), "[MASK]"}, {"is an encoder-decoder", "use pumice"}},
      {{"fill", classes.path().string(), "[MASK]"}, {"is an encoder:", "use pumice classify"}},
      {{"answer", gaps.path().string(), text, "who?"}, {"is an encoder:", "use pumice fill"}},
      {{"answer", fixtures().story().string(), text, "who?"}, {"is a decoder", "use pumice run"}},
      {{"classify", gaps.path().string(), "fox"}, {"no classification head", "use pumice fill"}},
      {{"classify", gaps.path().string(), "--tokens", "fox"}, {"labels each token", "use pumice fill"}},
      {{"run", gaps.path().string(), "x"}, {"it writes no text", "use pumice fill or pumice embed"}},
      {{"caption", classes.path().string(), "a.png"}, {"is an encoder:", "use pumice classify"}},
      {{"transcribe", gaps.path().string(), "a.wav"}, {"is an encoder:", "not read sound; use pumice fill"}},
  };
  for (const auto& each : cases) {
    CAPTURE(each.arguments);
    CHECK(fails_saying(pumice_command(each.arguments), each.says) == "");
  }
}

TEST_CASE("eval writes the logits of a masked language model where they are asked for") {
  const std::filesystem::path model = fixtures().model("bert-masked");
  const TemporaryFolder folder;
  const std::string inputs = (model / "expected.safetensors").string(),
                    out = (folder.path() / "out.safetensors").string();
  const auto evaluate = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"eval", model.string(), "--inputs", inputs, "--outputs", out});
    const CommandResult result = pumice_command(more);
    CAPTURE(result.err);
    REQUIRE(result.status == 0);
    return Answers(out);
  };
  CHECK(!evaluate({}).floats.contains("logits"));
  const Answers expected(inputs), found = evaluate({"--output", "logits"});
  REQUIRE(found.shapes.at("logits") == expected.shapes.at("logits"));
  CHECK(relative_rms(found.floats.at("logits"), expected.floats.at("logits")) <= 1e-4);
}

TEST_CASE("embed --sparse prints the weights of tokens, largest first") {
  const TemporaryFolder folder;
  REQUIRE(masked().write(folder));
  const std::string model = folder.path().string();
  const auto lines =
      lines_of_output(pumice_command({"embed", model, "--sparse", "--json", "the quick fox", "fox"}));
  REQUIRE(lines.size() == 2);
  const json weights = json::parse(lines[1])["weights"];
  REQUIRE(weights.size() > 1);
  for (size_t i = 1; i < weights.size(); ++i) CHECK(weights[i - 1]["weight"] >= weights[i]["weight"]);
  CHECK(weights[0]["weight"] > 0);
  const auto plain = lines_of_output(pumice_command({"embed", model, "--sparse", "fox"}));
  CHECK(plain[0].starts_with(weights[0]["id"].dump() + ":"));
}

TEST_CASE("embed: a model whose modules make sparse vectors has these without --sparse") {
  const TemporaryFolder folder;
  REQUIRE(masked().write(folder));
  const std::string model = folder.path().string();
  const auto embedded = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"embed", model, "the quick fox", "fox"});
    return pumice_command(more);
  };
  const std::string sparse = embedded({"--sparse"}).out,
                    dense = embedded({"--pooling", "mean", "--normalize", "no"}).out;
  folder.write(
      "modules.json",
      R"([{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.sparse_encoder.models.MLMTransformer"},
                   {"idx": 1, "name": "1", "path": "1_SpladePooling",
                    "type": "sentence_transformers.sparse_encoder.models.SpladePooling"}])");
  folder.write(
      "config_sentence_transformers.json",
      R"({"model_type": "SparseEncoder", "prompts": {"query": "", "document": ""}, "default_prompt_name": null,
                   "similarity_fn_name": "dot"})");
  std::filesystem::create_directories(folder.path() / "1_SpladePooling");
  const auto pooling = [&](const char* strategy, const char* activation) {
    folder.write("1_SpladePooling/config.json", json{{"pooling_strategy", strategy},
                                                     {"activation_function", activation},
                                                     {"word_embedding_dimension", 9}}
                                                    .dump());
  };
  pooling("max", "relu");
  CHECK(embedded({}).out == sparse);
  CHECK(embedded({"--pooling", "mean"}).out == dense);
  CHECK(fails_saying(embedded({"--dimensions", "3"}), {"--dimensions", "sparse"}) == "");
  CHECK(fails_saying(embedded({"-o", (folder.path() / "v.npy").string()}), {"--output", "sparse"}) == "");
  pooling("sum", "relu");
  CHECK(fails_saying(embedded({}), {"1_SpladePooling/config.json", "pooling_strategy", "'sum'"}) == "");
  pooling("max", "log1p_relu");
  CHECK(fails_saying(embedded({}), {"1_SpladePooling/config.json", "activation_function", "'log1p_relu'"}) ==
        "");
}

TEST_CASE("embed and classify read token ids, without a tokenizer too") {
  const TemporaryFolder folder;
  BertFolder labelled;
  labelled.labels = 3;
  REQUIRE(labelled.write(folder));
  const std::string model = folder.path().string();
  const std::string ids = pumice_command({"tokenize", model}, "the fox").out;
  std::string list = ids.substr(0, ids.find('\n'));
  std::ranges::replace(list, ' ', ',');
  const auto vector = lines_of_output(pumice_command({"embed", model, "the fox"}));
  const auto labels = lines_of_output(pumice_command({"classify", model, "the fox"}));
  CHECK(lines_of_output(pumice_command({"embed", model, "--ids", list})) == vector);
  std::filesystem::remove(folder.path() / "tokenizer.json");
  CHECK(lines_of_output(pumice_command({"embed", model, "--ids", list})) == vector);
  CHECK(lines_of_output(pumice_command({"classify", model, "--ids", list})) == labels);
  CHECK(fails_saying(pumice_command({"embed", model, "--ids", "1,99999"}), {"--ids 1", "99999"}) == "");
  CHECK(fails_saying(pumice_command({"embed", model, "the fox"}), {"tokenizer"}) == "");
}

TEST_CASE("the rows of a head count where config.json names fewer labels") {
  const TemporaryFolder folder;
  BertFolder labelled;
  labelled.labels = 5;
  REQUIRE(labelled.write(folder));
  std::ifstream stream(folder.path() / "config.json");
  json config = json::parse(stream);
  config["num_labels"] = 5;
  config["id2label"] = {{"0", "no"}, {"1", "yes"}};
  folder.write("config.json", config.dump());
  const CommandResult result = pumice_command({"classify", folder.path().string(), "the fox"});
  CHECK(result.err.find("its head has 5 labels, and config.json names 2") != std::string::npos);
  const auto lines = lines_of_output(result);
  CHECK(lines.size() == 5);
  CHECK(result.out.find("\tLABEL_4\n") != std::string::npos);
  CHECK(result.out.find("\tyes\n") != std::string::npos);
}

TEST_CASE("a config.json without model_type is told what its tensors look like") {
  const TemporaryFolder folder;
  REQUIRE(BertFolder().write(folder));
  std::ifstream stream(folder.path() / "config.json");
  json config = json::parse(stream);
  config.erase("model_type");
  const auto says = [&](const std::string& part) {
    folder.write("config.json", config.dump());
    return fails_saying(pumice_command({"embed", folder.path().string(), "fox"}),
                        {"'model_type' is missing", part});
  };
  CHECK(says("names of bert") == "");
  const struct {
    const char *name, *type;
  } classes[] = {{"RobertaModel", "roberta"},
                 {"XLMRobertaForMaskedLM", "xlm-roberta"},
                 {"ViTForImageClassification", "vit"},
                 {"GPT2LMHeadModel", "gpt2"},
                 {"M2M100ForConditionalGeneration", "m2m_100"}};
  for (const auto& each : classes) {
    config["architectures"] = {each.name};
    CHECK(says(std::string("class '") + each.name + "' is " + each.type) == "");
  }
  config["architectures"] = {"PerceptronModel"};
  CHECK(says("names of bert") == "");
}

TEST_CASE("a text of which the vocabulary lacks most is told of once") {
  const TemporaryFolder folder;
  REQUIRE(BertFolder().write(folder));
  const CommandResult result =
      pumice_command({"embed", folder.path().string(), "the fox", "㊙ ㊗ the", "㊙"});
  CHECK(result.status == 0);
  const size_t at = result.err.find("lacks most of it");
  CHECK(at != std::string::npos);
  CHECK(result.err.find("lacks most of it", at + 1) == std::string::npos);
}
