// `pumice rerank`: scores of pairs, in the order of the lines or best first.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include <nlohmann/json.hpp>

#include "support/command/command.h"
#include "support/files/bert_folder.h"
#include "support/files/word_folder.h"
#include "support/vulkan/gpu.h"
#include "text/tokenizer.h"

using namespace pumice;
using nlohmann::json;

namespace {

const std::vector<std::string> documents = {"the quick brown fox", "", "transformers are models",
                                            "a fox, and another fox that is quick", "42"};

std::string text() {
  std::string all;
  for (const std::string& line : documents) all += line + "\n";
  return all;
}

CommandResult rerank(const std::filesystem::path& model, const std::vector<std::string>& more = {},
                     const std::string& input = text()) {
  std::vector<std::string> arguments = {"rerank", model.string(), "--query", "what is a fox?"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const CommandResult result = pumice_command(arguments, input);
  INFO(result.err);
  REQUIRE(result.status == 0);
  return result;
}

// The scores of lines "SCORE<tab>TEXT", and the texts.
std::vector<std::pair<float, std::string>> scores(const std::string& out) {
  std::vector<std::pair<float, std::string>> found;
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);) {
    const size_t tab = line.find('\t');
    REQUIRE(tab != std::string::npos);
    found.emplace_back(std::strtof(line.c_str(), nullptr), line.substr(tab + 1));
  }
  return found;
}

// The logits that `pumice eval` has for each pair by itself.
std::vector<std::vector<float>> logits(const TemporaryFolder& folder) {
  const auto tokenizer = Tokenizer::load(folder.path() / "tokenizer.json");
  REQUIRE(tokenizer.ok());
  const std::string in = (folder.path() / "in.safetensors").string(),
                    out = (folder.path() / "out.safetensors").string();
  std::vector<std::vector<float>> all;
  for (const std::string& line : documents) {
    const Tokenizer::Encoding pair = (*tokenizer)->encode_pair("what is a fox?", line);
    const std::vector<int64_t> ids(pair.ids.begin(), pair.ids.end()),
        types(pair.types.begin(), pair.types.end());
    REQUIRE(std::ranges::count(types, 1) > 0);
    const SafetensorsFile::Entry entries[] = {
        {"input_ids", "I64", {1, ids.size()}, std::as_bytes(std::span(ids))},
        {"token_type_ids", "I64", {1, ids.size()}, std::as_bytes(std::span(types))}};
    REQUIRE(write_safetensors(in, entries).ok());
    REQUIRE(pumice_command({"eval", folder.path().string(), "--inputs", in, "--outputs", out}).status == 0);
    const auto file = SafetensorsFile::open(out);
    REQUIRE(file.ok());
    REQUIRE(file->find("logits"));
    all.push_back(*SafetensorsFile::floats(*file->find("logits")));
  }
  return all;
}

} // namespace

TEST_CASE("rerank gives what the head says of each pair, with token types") {
  for (uint32_t labels : {1u, 3u}) {
    CAPTURE(labels);
    const TemporaryFolder folder;
    BertFolder model;
    model.labels = labels;
    REQUIRE(model.write(folder));
    const std::vector<std::vector<float>> expected = logits(folder);
    const auto raw = scores(rerank(folder.path(), {"--raw"}).out), own = scores(rerank(folder.path()).out);
    REQUIRE(raw.size() == documents.size());
    REQUIRE(own.size() == documents.size());
    for (size_t i = 0; i < documents.size(); ++i) {
      CAPTURE(i);
      REQUIRE(expected[i].size() == labels);
      CHECK(own[i].second == documents[i]);
      CHECK(raw[i].first == expected[i][labels > 1 ? 1 : 0]);
      double sum = labels == 1 ? 1 : 0; // of a single one, against a logit of zero
      for (float logit : expected[i]) sum += std::exp(double{logit});
      CHECK(own[i].first == doctest::Approx(std::exp(double{raw[i].first}) / sum).epsilon(1e-5));
    }
  }
}

TEST_CASE("rerank: the best, JSON, and pairs that are too long") {
  const TemporaryFolder folder;
  BertFolder model;
  model.labels = 1;
  REQUIRE(model.write(folder));
  auto sorted = scores(rerank(folder.path()).out);
  std::ranges::stable_sort(sorted, [](const auto& a, const auto& b) { return a.first > b.first; });
  sorted.resize(3);
  CHECK(scores(rerank(folder.path(), {"--top", "3"}).out) == sorted);
  CHECK(scores(rerank(folder.path(), {"--top", "99"}).out).size() == documents.size());

  std::istringstream objects(rerank(folder.path(), {"--top", "1", "--json"}).out);
  const json best = json::parse(objects.str());
  CHECK(best["score"].get<float>() == sorted[0].first);
  CHECK(best["text"] == sorted[0].second);
  CHECK(documents[best["index"]] == sorted[0].second);

  // The best of the lines before one that cannot be used.
  const CommandResult cut_off =
      pumice_command({"rerank", folder.path().string(), "--query", "what is a fox?", "--top", "2"},
                     std::string("42\nfox\n\xff\n"));
  CHECK(cut_off.status == 1);
  CHECK(scores(cut_off.out).size() == 2);

  std::string longest = "fox";
  for (int i = 0; i < 300; ++i) longest += " fox";
  const CommandResult cut = rerank(folder.path(), {}, longest + "\n" + longest + " x\n42\n");
  CHECK(cut.err.find("2 lines were longer") != std::string::npos);
  const auto found = scores(cut.out);
  REQUIRE(found.size() == 3);
  CHECK(found[0].first == found[1].first);
  CHECK(found[2] == scores(rerank(folder.path(), {}, "42\n").out)[0]);
}

TEST_CASE("rerank needs a head, and an encoder of text") {
  const TemporaryFolder folder;
  REQUIRE(BertFolder().write(folder));
  const std::string own = folder.path().string(), gpt = fixtures().model("gpt2").string();
  CHECK(fails_saying(pumice_command({"rerank", own, "--query", "x", "y"}),
                     {"sequence-classification", "pumice embed"}) == "");
  CHECK(fails_saying(pumice_command({"rerank", gpt, "--query", "x", "y"}), {"tokenizer.json"}) == "");
  CHECK(fails_saying(pumice_command({"rerank", own, "y"}), {"--query"}) == "");
}

TEST_CASE("rerank: a decoder says yes or no through its template") {
  const TemporaryFolder folder;
  write_word_folder(folder, "qwen3");
  const std::string model = folder.path().string();
  CHECK(fails_saying(pumice_command({"rerank", model, "--query", "w5", "w6"}),
                     {"no token", "pumice embed"}) == "");
  add_answer_words(folder);
  const auto ask = [&](const std::vector<std::string>& more, const std::string& lines) {
    std::vector<std::string> arguments = {"rerank", model, "--query", "w5 w9"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const CommandResult result = pumice_command(arguments, lines);
    INFO(result.err);
    REQUIRE(result.status == 0);
    return scores(result.out);
  };
  const auto all = ask({}, "w20 w21\nw30\nw20 w21\n"), raw = ask({"--raw"}, "w20 w21\nw30\nw20 w21\n");
  REQUIRE(all.size() == 3);
  CHECK(all[0].first == all[2].first);
  CHECK(all[0].first != all[1].first);
  for (size_t i = 0; i < 3; ++i)
    CHECK(all[i].first == doctest::Approx(1 / (1 + std::exp(-raw[i].first))).epsilon(1e-4));
  CHECK(ask({}, "w30\n")[0].first == all[1].first);
  CHECK(ask({"--instruction", "w40 w41"}, "w30\n")[0].first != all[1].first);
}
