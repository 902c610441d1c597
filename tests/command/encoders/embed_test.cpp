// `pumice embed`: a vector for each line, in order, whatever else is in the batch.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>

#include <nlohmann/json.hpp>

#include "support/command/command.h"
#include "support/files/bert_folder.h"
#include "support/vulkan/gpu.h"

using namespace pumice;
using nlohmann::json;

namespace {

using Vectors = std::vector<std::vector<float>>;

Vectors numbers(const std::string& text) {
  Vectors vectors;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream parts(line);
    std::vector<float>& vector = vectors.emplace_back();
    for (std::string part; parts >> part;) vector.push_back(std::strtof(part.c_str(), nullptr));
  }
  return vectors;
}

CommandResult run_embed(const std::filesystem::path& model, const std::string& input,
                        std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"embed", model.string()});
  const CommandResult result = pumice_command(more, input);
  INFO(result.err);
  REQUIRE(result.status == 0);
  return result;
}

Vectors embed(const std::filesystem::path& model, const std::string& input,
              const std::vector<std::string>& more = {}) {
  return numbers(run_embed(model, input, more).out);
}

uint64_t steps(const CommandResult& result) {
  const size_t end = result.err.find(" step");
  REQUIRE(end != std::string::npos);
  return std::stoull(result.err.substr(result.err.rfind(' ', end - 1) + 1));
}

// Lines of 0 to `most` words.
std::vector<std::string> random_lines(size_t count, size_t most) {
  const char* words[] = {"the",          "quick", "brown", "fox", "Äpfel",
                         "transformers", "42",    "don't", "x,y", "東京"};
  std::mt19937 random(3);
  std::vector<std::string> lines(count);
  for (std::string& line : lines) {
    for (size_t left = random() % (most + 1); left > 0; --left) {
      line += words[random() % std::size(words)];
      if (left > 1) line += ' ';
    }
  }
  return lines;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

} // namespace

TEST_CASE("embed gives a vector of length one for each line, the same alone as beside others") {
  const TemporaryFolder folder;
  REQUIRE(BertFolder().write(folder));
  const std::vector<std::string> lines = {"a much longer line than the others, with many words in it", "",
                                          "fox", "the quick brown fox", "fox"};
  for (const char* pooling : {"mean", "cls"}) {
    CAPTURE(pooling);
    const Vectors together = embed(folder.path(), joined(lines), {"--pooling", pooling});
    REQUIRE(together.size() == lines.size());
    for (size_t i = 0; i < lines.size(); ++i) {
      CAPTURE(i);
      REQUIRE(together[i].size() == BertFolder::hidden);
      double squares = 0;
      for (float value : together[i]) squares += double{value} * value;
      CHECK(std::abs(squares - 1) < 1e-5);
      CHECK(embed(folder.path(), lines[i] + "\n", {"--pooling", pooling}) == Vectors{together[i]});
    }
    CHECK(together[2] == together[4]);
    CHECK(together[2] != together[3]);
  }
  CHECK(embed(folder.path(), joined(lines)) == embed(folder.path(), joined(lines), {"--pooling", "mean"}));
  // The last line need not end, lines may end as on Windows, and there may be none.
  CHECK(embed(folder.path(), "fox") == embed(folder.path(), "fox\r\n"));
  CHECK(run_embed(folder.path(), "").out == "");
}

TEST_CASE("embed: arguments, JSON and a file have the same vectors") {
  const TemporaryFolder folder;
  REQUIRE(BertFolder().write(folder));
  const Vectors expected = embed(folder.path(), "fox\nthe quick\n");
  const std::string model = folder.path().string(), out = (folder.path() / "out.safetensors").string();
  CHECK(numbers(pumice_command({"embed", model, "fox", "the quick"}).out) == expected);

  std::istringstream objects(run_embed(model, "fox\nthe quick\n", {"--json"}).out);
  for (size_t i = 0; i < 2; ++i) {
    std::string line;
    REQUIRE(std::getline(objects, line));
    const json object = json::parse(line);
    CHECK(object["text"] == (i ? "the quick" : "fox"));
    CHECK(object["embedding"].get<std::vector<float>>() == expected[i]);
  }
  CHECK(run_embed(model, "fox\nthe quick\n", {"-o", out}).out == "");
  const auto file = SafetensorsFile::open(out);
  REQUIRE(file.ok());
  REQUIRE(file->find("embeddings"));
  CHECK(file->find("embeddings")->shape == std::vector<uint64_t>{2, BertFolder::hidden});
  std::vector<float> all = expected[0];
  all.insert(all.end(), expected[1].begin(), expected[1].end());
  CHECK(*SafetensorsFile::floats(*file->find("embeddings")) == all);
}

TEST_CASE("embed: a thousand lines take far fewer steps, and come in their order" *
          doctest::test_suite("rest")) {
  const TemporaryFolder folder;
  REQUIRE(BertFolder().write(folder));
  const std::vector<std::string> lines = random_lines(1000, 12);
  const CommandResult result = run_embed(folder.path(), joined(lines));
  CHECK(result.err.find("1000 lines") != std::string::npos);
  CHECK(steps(result) <= 25);
  CHECK(result.err.find("cut off") == std::string::npos);
  const Vectors all = numbers(result.out);
  REQUIRE(all.size() == lines.size());
  for (size_t i = 0; i < lines.size(); i += 211) {
    CAPTURE(lines[i]);
    CHECK(embed(folder.path(), lines[i] + "\n") == Vectors{all[i]});
  }
  // Whatever the budget, the vectors are the same.
  const CommandResult small = run_embed(folder.path(), joined(lines), {"--batch-tokens", "1"});
  CHECK(steps(small) > steps(result));
  CHECK(small.out == result.out);
}

TEST_CASE("embed cuts a line at the context and says so") {
  const TemporaryFolder folder;
  REQUIRE(BertFolder().write(folder));
  std::string longest = "the"; // the context less the two special tokens
  for (int i = 1; i < 62; ++i) longest += " the";
  const CommandResult fits = run_embed(folder.path(), longest + "\n");
  CHECK(fits.err.find("cut off") == std::string::npos);
  CHECK(fits.err.find("1 line, 64 tokens") != std::string::npos);
  const CommandResult cut = run_embed(folder.path(), longest + " the quick\n" + longest + " x\nfox\n");
  CHECK(cut.err.find("2 lines were longer than the model's context of 64 tokens") != std::string::npos);
  const Vectors vectors = numbers(cut.out);
  REQUIRE(vectors.size() == 3);
  CHECK(vectors[0] == numbers(fits.out)[0]);
  CHECK(vectors[1] == vectors[0]);
}

TEST_CASE("embed pools as the folder's own settings say") {
  const TemporaryFolder folder;
  REQUIRE(BertFolder().write(folder));
  std::filesystem::create_directories(folder.path() / "1_Pooling");
  const Vectors mean = embed(folder.path(), "fox\n", {"--pooling", "mean"}),
                cls = embed(folder.path(), "fox\n", {"--pooling", "cls"});
  CHECK(mean != cls);
  folder.write("1_Pooling/config.json",
               R"({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false})");
  CHECK(embed(folder.path(), "fox\n") == cls);
  CHECK(embed(folder.path(), "fox\n", {"--pooling", "mean"}) == mean);
  folder.write("1_Pooling/config.json",
               R"({"pooling_mode_cls_token": false, "pooling_mode_mean_tokens": true})");
  CHECK(embed(folder.path(), "fox\n") == mean);
  folder.write("1_Pooling/config.json", R"({"pooling_mode_max_tokens": true})");
  CHECK(fails_saying(pumice_command({"embed", folder.path().string(), "fox"}),
                     {"1_Pooling", "pooling_mode_max_tokens", "--pooling"}) == "");
}

TEST_CASE("embed: prompts, prefixes, dense layers and normalisation come from the folder") {
  const TemporaryFolder folder;
  REQUIRE(BertFolder().write(folder));
  const auto prompted = embed(folder.path(), "what is fox\n"), plain = embed(folder.path(), "fox\n");
  CHECK(embed(folder.path(), "fox\n", {"--prefix", "what is "}) == prompted);
  folder.write("config_sentence_transformers.json",
               R"({"prompts": {"query": "what is ", "document": ""}, "default_prompt_name": null})");
  CHECK(embed(folder.path(), "fox\n", {"--prompt", "query"}) == prompted);
  CHECK(embed(folder.path(), "fox\n") == plain);
  CHECK(fails_saying(pumice_command({"embed", folder.path().string(), "fox", "--prompt", "x"}),
                     {"no prompt 'x'", "document, query"}) == "");
  folder.write("config_sentence_transformers.json",
               R"({"prompts": {"query": "what is "}, "default_prompt_name": "query"})");
  CHECK(embed(folder.path(), "fox\n") == prompted);
  folder.write("config_sentence_transformers.json", "{}");

  folder.write("modules.json", R"([{"path": "", "type": "sentence_transformers.models.Transformer"},
                                   {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}])");
  std::filesystem::create_directories(folder.path() / "1_Pooling");
  folder.write("1_Pooling/config.json", R"({"pooling_mode_mean_tokens": true})");
  const std::vector<float> raw = embed(folder.path(), "fox\n")[0];
  const std::vector<float> unit = embed(folder.path(), "fox\n", {"--normalize", "yes"})[0];
  CHECK(unit == plain[0]);
  CHECK(raw != unit);
  const std::vector<float> four = embed(folder.path(), "fox\n", {"--dimensions", "4"})[0];
  CHECK(four == std::vector<float>(raw.begin(), raw.begin() + 4));
  double squares = 0;
  const Vectors cut = embed(folder.path(), "fox\n", {"--dimensions", "4", "--normalize", "yes"});
  for (float x : cut[0]) squares += double{x} * x;
  CHECK(std::abs(squares - 1) < 1e-6);

  folder.write("modules.json", R"([{"path": "", "type": "sentence_transformers.models.Transformer"},
                                   {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
                                   {"path": "2_Dense", "type": "sentence_transformers.models.Dense"}])");
  std::filesystem::create_directories(folder.path() / "2_Dense");
  folder.write("2_Dense/config.json",
               R"({"in_features": 32, "out_features": 2, "bias": true,
                   "activation_function": "torch.nn.modules.activation.Tanh"})");
  std::vector<float> weight(64), bias = {0.5f, -0.25f};
  for (size_t i = 0; i < weight.size(); ++i) weight[i] = 0.01f * static_cast<float>(i % 7) - 0.02f;
  const SafetensorsFile::Entry entries[] = {
      {"linear.weight", "F32", {2, 32}, std::as_bytes(std::span(weight))},
      {"linear.bias", "F32", {2}, std::as_bytes(std::span(bias))}};
  REQUIRE(write_safetensors(folder.path() / "2_Dense" / "model.safetensors", entries).ok());
  const std::vector<float> dense = embed(folder.path(), "fox\n")[0];
  REQUIRE(dense.size() == 2);
  for (size_t row = 0; row < 2; ++row) {
    double sum = bias[row];
    for (size_t i = 0; i < 32; ++i) sum += double{weight[row * 32 + i]} * raw[i];
    CHECK(dense[row] == doctest::Approx(std::tanh(sum)).epsilon(1e-5));
  }
  folder.write("modules.json", R"([{"path": "", "type": "sentence_transformers.models.CNN"}])");
  CHECK(fails_saying(pumice_command({"embed", folder.path().string(), "fox"}), {"modules.json", "CNN"}) ==
        "");
}

TEST_CASE("embed writes NumPy's form and JSON lines") {
  const TemporaryFolder folder;
  REQUIRE(BertFolder().write(folder));
  const Vectors expected = embed(folder.path(), "fox\nthe quick\n");
  const std::string npy = (folder.path() / "out.npy").string(),
                    lines = (folder.path() / "out.jsonl").string();
  run_embed(folder.path(), "fox\nthe quick\n", {"-o", npy});
  std::ifstream file(npy, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  REQUIRE(bytes.size() == 128 + 2 * 32 * 4);
  CHECK(bytes.substr(0, 8) == std::string("\x93NUMPY\x01\x00", 8));
  CHECK(bytes.find("'shape': (2, 32)") != std::string::npos);
  std::vector<float> values(64);
  std::memcpy(values.data(), bytes.data() + 128, 256);
  CHECK(std::vector<float>(values.begin() + 32, values.end()) == expected[1]);
  run_embed(folder.path(), "fox\nthe quick\n", {"-o", lines});
  std::ifstream text(lines);
  for (size_t i = 0; i < 2; ++i) {
    std::string line;
    REQUIRE(std::getline(text, line));
    CHECK(json::parse(line).get<std::vector<float>>() == expected[i]);
  }
  // A line that cannot be used has a row of NaN, or null.
  const std::string bad = "fox\n\xff\nthe quick\n";
  CHECK(pumice_command({"embed", folder.path().string(), "-o", npy}, bad).status == 1);
  std::ifstream with_gap(npy, std::ios::binary);
  const std::string rows((std::istreambuf_iterator<char>(with_gap)), {});
  REQUIRE(rows.size() == 128 + 3 * 32 * 4);
  std::memcpy(values.data(), rows.data() + 128 + 128, 256);
  CHECK(std::isnan(values[0]));
  CHECK(std::isnan(values[31]));
  CHECK(std::vector<float>(values.begin() + 32, values.end()) == expected[1]);
  CHECK(pumice_command({"embed", folder.path().string(), "-o", lines}, bad).status == 1);
  std::ifstream again(lines);
  const std::string all((std::istreambuf_iterator<char>(again)), {});
  CHECK(all.find("]\nnull\n[") != std::string::npos);
}

TEST_CASE("search finds the passages that are nearest, and reads only what has changed") {
  const TemporaryFolder folder;
  REQUIRE(BertFolder().write(folder));
  std::filesystem::create_directories(folder.path() / "texts" / "deep");
  folder.write("texts/a.txt", "the quick brown fox\n\ntransformers are models\n");
  folder.write("texts/deep/b.md", "42\n");
  folder.write("texts/binary", std::string("a\0b", 3));
  const std::string model = folder.path().string(), texts = (folder.path() / "texts").string();
  const auto search = [&](const std::string& query, const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {"search", model, texts, query, "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return pumice_command(arguments);
  };
  const auto found = [](const CommandResult& result) {
    INFO(result.err);
    REQUIRE(result.status == 0);
    std::vector<json> all;
    std::istringstream lines(result.out);
    for (std::string line; std::getline(lines, line);) all.push_back(json::parse(line));
    return all;
  };
  const CommandResult first = search("transformers are models");
  const std::vector<json> best = found(first);
  CHECK(first.err.find("3 passages, of which 3 new") != std::string::npos);
  REQUIRE(best.size() == 3);
  CHECK(best[0]["file"] == "a.txt");
  CHECK(best[0]["line"] == 3);
  CHECK(best[0]["score"].get<double>() == doctest::Approx(1).epsilon(1e-5));
  CHECK(best[0]["score"] > best[1]["score"]);
  const CommandResult again = search("transformers are models");
  CHECK(again.out == first.out);
  CHECK(again.err.find("passages") == std::string::npos);

  folder.write("texts/c.txt", "a new fox, and another\n");
  const CommandResult more = search("a new fox, and another", {"--top", "1"});
  CHECK(more.err.find("4 passages, of which 1 new") != std::string::npos);
  CHECK(found(more)[0]["file"] == "c.txt");
  std::filesystem::remove(folder.path() / "texts" / "a.txt");
  CHECK(found(search("fox")).size() == 2);
  CHECK(fails_saying(search("fox", {"--pooling", "cls"}), {"other options", "--rebuild"}) == "");
  CHECK(found(search("fox", {"--pooling", "cls", "--rebuild"})).size() == 2);
  CHECK(fails_saying(pumice_command({"search", model, texts + "/none", "x"}), {"none"}) == "");
  std::filesystem::create_directories(folder.path() / "strange");
  folder.write("strange/a.txt", "щ ю я ж\n");
  const CommandResult strange =
      pumice_command({"search", model, (folder.path() / "strange").string(), "fox"});
  CHECK(strange.status == 0);
  CHECK(strange.err.find("lacks most of 1 new passage") != std::string::npos);
  CHECK(fails_saying(pumice_command({"search", texts + ".index", texts, "x"}), {"is an index", "--index"}) ==
        "");
  CHECK(fails_saying(pumice_command({"embed", texts + ".index", "x"}), {"is an index"}) == "");
  CHECK(fails_saying(pumice_command({"search", model, texts + ".index", "x"}), {"an index", "texts"}) == "");
  std::filesystem::create_directories(folder.path() / "empty");
  CHECK(fails_saying(pumice_command({"search", model, (folder.path() / "empty").string(), "x"}),
                     {"there is no text"}) == "");
}

TEST_CASE("an index that cannot be written stays as it was") {
  const TemporaryFolder folder;
  REQUIRE(BertFolder().write(folder));
  std::filesystem::create_directory(folder.path() / "texts");
  folder.write("texts/a.txt", "the quick brown fox\n");
  const std::string model = folder.path().string(), texts = (folder.path() / "texts").string();
  const auto search = [&] { return pumice_command({"search", model, texts, "fox", "--json"}); };
  const CommandResult before = search();
  CAPTURE(before.err);
  REQUIRE(before.status == 0);
  const std::filesystem::path passages = texts + ".index/passages.jsonl";
  using std::filesystem::perms;
  const perms usual = std::filesystem::status(passages).permissions();
  std::filesystem::permissions(passages, perms::owner_read | perms::group_read);
  folder.write("texts/b.txt", "a new fox\n");
  CHECK(fails_saying(search(), {"passages.jsonl", "write-protected"}) == "");
  std::filesystem::permissions(passages, usual);
  std::filesystem::remove(folder.path() / "texts" / "b.txt");
  const CommandResult after = search();
  CHECK(after.status == 0);
  CHECK(after.out == before.out);
  CHECK(after.err.find("passage") == std::string::npos); // nothing was encoded again
}

TEST_CASE("embed: what it cannot do is said") {
  const TemporaryFolder folder;
  REQUIRE(BertFolder().write(folder));
  const std::string own = folder.path().string();
  const auto model = [&](const char* name) { return fixtures().model(name).string(); };
  CHECK(fails_saying(pumice_command({"embed", own, "x", "--pooling", "max"}), {"--pooling", "max", "cls"}) ==
        "");
  CHECK(fails_saying(pumice_command({"embed", model("llama-mha"), "x"}), {"tokenizer.json"}) == "");
  CHECK(fails_saying(pumice_command({"embed", model("mamba2"), "x"}), {"mamba2", "keep states"}) == "");
  CHECK(fails_saying(pumice_command({"embed", model("t5"), "x"}), {"t5 is an encoder-decoder"}) == "");
  CHECK(fails_saying(pumice_command({"embed", model("vit"), "x"}), {"vit is an encoder of pictures"}) == "");
  CHECK(fails_saying(pumice_command({"embed", model("bert"), "x"}), {"tokenizer.json"}) == "");
  CHECK(fails_saying(pumice_command({"run", own, "x"}), {"is an encoder", "pumice embed"}) == "");
  const std::string bad = "fox\nb\xff\nthe quick\n";
  const CommandResult ended = pumice_command({"embed", own}, bad);
  CHECK(ended.status == 1);
  Vectors with_gap = embed(folder.path(), "fox\nthe quick\n");
  with_gap.insert(with_gap.begin() + 1, std::vector<float>());
  CHECK(numbers(ended.out) == with_gap);
  CHECK(ended.err.find("standard input: line 2") != std::string::npos);
  CHECK(ended.err.find("UTF-8") != std::string::npos);
  const CommandResult skipped = pumice_command({"embed", own, "--skip-bad-lines"}, bad);
  CHECK(skipped.status == 0);
  CHECK(numbers(skipped.out) == embed(folder.path(), "fox\nthe quick\n"));
  CHECK(skipped.err.find("standard input: line 2") != std::string::npos);
  CHECK(fails_saying(pumice_command({"embed", own, "x", "-o", "/dev/null/x"}), {"/dev/null/x"}) == "");

  const TemporaryFolder other; // whose tokenizer has more tokens than the model
  BertFolder small;
  small.vocabulary = 320;
  REQUIRE(small.write(other));
  CHECK(fails_saying(pumice_command({"embed", other.path().string(), "the transformers fox"}),
                     {"TEXT 1", "there is no token", "0 to 319"}) == "");
  const CommandResult objects = pumice_command({"embed", other.path().string(), "--json"}, "the\na\n");
  CHECK(objects.status == 1);
  const json first = json::parse(objects.out.substr(0, objects.out.find('\n')));
  CHECK(first["text"] == "the");
  CHECK(first["error"].get<std::string>().find("standard input: line 1") != std::string::npos);
  CHECK(json::parse(objects.out.substr(objects.out.find('\n')))["text"] == "a");
}
