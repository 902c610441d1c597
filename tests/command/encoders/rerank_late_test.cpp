// `pumice rerank` with a model of late interaction, in PyLate's files and in ColBERT's, against the
// reference.
#include <fstream>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/formats/safetensors.h"
#include "support/command/agreement.h"
#include "support/command/command.h"
#include "support/seeded_numbers.h"

using namespace pumice;
using nlohmann::json;

namespace {

struct LateFolder {
  TemporaryFolder folder;
  std::filesystem::path model = fixtures().model("modernbert-late");
  json late = json::parse(std::ifstream(model / "late.json"));
  std::vector<float> dense;

  LateFolder() {
    std::filesystem::copy_file(fixtures().tokenizer(late["tokenizer"]) / "tokenizer.json",
                               folder.path() / "tokenizer.json");
    std::filesystem::copy_file(model / "config.json", folder.path() / "config.json");
    dense = seeded_floats(late["seed"], "linear.weight", columns() * hidden(), 0, 0.25f);
  }
  size_t columns() const { return late["columns"]; }
  size_t hidden() const { return json::parse(std::ifstream(model / "config.json"))["hidden_size"]; }
  SafetensorsFile::Entry matrix() const {
    return {"linear.weight", "F32", {columns(), hidden()}, std::as_bytes(std::span(dense))};
  }
  std::string path() const { return folder.path().string(); }

  void write_pylate() {
    std::filesystem::copy_file(model / "model.safetensors", folder.path() / "model.safetensors");
    std::filesystem::create_directory(folder.path() / "1_Dense");
    const SafetensorsFile::Entry entry = matrix();
    REQUIRE(write_safetensors(folder.path() / "1_Dense" / "model.safetensors", std::span(&entry, 1)).ok());
    folder.write("1_Dense/config.json", json({{"in_features", hidden()},
                                              {"out_features", columns()},
                                              {"bias", false},
                                              {"activation_function", "torch.nn.modules.linear.Identity"}})
                                            .dump());
    folder.write("modules.json",
                 R"([{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
                     {"idx": 1, "name": "1", "path": "1_Dense", "type": "pylate.models.Dense.Dense"}])");
    json settings;
    for (const char* name : {"query_prefix", "document_prefix", "query_length", "document_length"})
      settings[name] = late[name];
    folder.write("config_sentence_transformers.json", settings.dump());
  }

  void write_colbert() {
    const auto file = SafetensorsFile::open(model / "model.safetensors");
    REQUIRE(file.ok());
    std::vector<SafetensorsFile::Entry> entries = file->entries;
    entries.push_back(matrix());
    REQUIRE(write_safetensors(folder.path() / "model.safetensors", entries).ok());
    folder.write("artifact.metadata", json({{"query_token_id", late["query_prefix"]},
                                            {"doc_token_id", late["document_prefix"]},
                                            {"query_maxlen", late["query_length"]},
                                            {"doc_maxlen", late["document_length"]}})
                                          .dump());
  }

  std::vector<json> rerank(std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments = {"rerank", path(), "--query", late["query"]};
    arguments.insert(arguments.end(), more.begin(), more.end());
    for (const json& text : late["texts"]) arguments.push_back(text);
    return printed_objects(arguments);
  }
  void check() const {
    const std::vector<json> found = rerank();
    REQUIRE(found.size() == late["scores"].size());
    for (size_t i = 0; i < found.size(); ++i) {
      CHECK(found[i]["score"].get<double>() ==
            doctest::Approx(late["scores"][i].get<double>()).epsilon(1e-4));
    }
  }
};

} // namespace

TEST_CASE("rerank gives the reference's scores of late interaction, from PyLate's files and ColBERT's") {
  LateFolder pylate, colbert;
  pylate.write_pylate();
  pylate.check();
  colbert.write_colbert();
  colbert.check();
  const std::vector<json> best = pylate.rerank({"--top", "1"});
  REQUIRE(best.size() == 1);
  const std::vector<double> scores = pylate.late["scores"];
  CHECK(best[0]["score"].get<double>() == doctest::Approx(*std::ranges::max_element(scores)).epsilon(1e-4));
  CHECK(fails_saying(pumice_command({"embed", pylate.path(), "fox"}),
                     {"late interaction", "pumice rerank"}) == "");
  CHECK(pumice_command({"inspect", pylate.path()}).out.find("rerank") != std::string::npos);

  const ModelHandle loaded = load_for(shared_device().get(), pylate.path(), PUMICE_FOR_TEXT);
  pumice_reranker* reranker = nullptr;
  pumice_error error;
  require_ok(pumice_reranker_create(loaded.get(), nullptr, &reranker, &error), error);
  const std::string text = pylate.late["texts"][0], query = pylate.late["query"];
  const char* pointer = text.c_str();
  float score = 0;
  require_ok(pumice_reranker_score(reranker, "another", &pointer, 1, &score, nullptr, &error), error);
  const float other = score;
  require_ok(pumice_reranker_score(reranker, query.c_str(), &pointer, 1, &score, nullptr, &error), error);
  CHECK(score != other);
  CHECK(score == doctest::Approx(scores[0]).epsilon(1e-4));
  pumice_reranker_destroy(reranker);
}

TEST_CASE("search finds passages with the scores that rerank gives them, in an index that C reads too") {
  LateFolder folder;
  folder.write_pylate();
  const std::filesystem::path texts = folder.folder.path() / "texts";
  std::filesystem::create_directory(texts);
  const std::vector<std::string> all = folder.late["texts"];
  for (size_t i = 0; i < all.size(); ++i) folder.folder.write(fmt::format("texts/{}.txt", i), all[i]);
  const std::string query = folder.late["query"];
  std::vector<std::string> command = {"search", folder.path(), texts.string(), query, "--top", "100"};
  const auto check = [&](const std::vector<json>& found) {
    REQUIRE(found.size() == all.size());
    for (const json& each : found) {
      const auto text = static_cast<size_t>(std::stoi(each["file"].get<std::string>()));
      CHECK(each["text"] == all[text]);
      CHECK(each["score"].get<double>() ==
            doctest::Approx(folder.late["scores"][text].get<double>()).epsilon(1e-4));
    }
    CHECK(std::ranges::is_sorted(found, std::greater<>(), [](const json& each) { return each["score"]; }));
  };
  const std::vector<json> found = printed_objects(command);
  check(found);
  folder.folder.write("texts/0.txt", all[0] + "\n\n"); // read again; the others' vectors stay
  check(printed_objects(command));
  CHECK(pumice_command({"inspect", folder.path()}).out.find("search") != std::string::npos);

  const ModelHandle loaded = load_for(shared_device().get(), folder.path(), PUMICE_FOR_TEXT);
  pumice_index_options options = {};
  options.struct_size = sizeof options;
  const std::string path = texts.string();
  options.folder = path.c_str();
  pumice_index* index = nullptr;
  pumice_error error;
  require_ok(pumice_index_create(loaded.get(), &options, &index, &error), error);
  const IndexHandle handle(index);
  require_ok(pumice_index_update(index, nullptr, nullptr, &error), error);
  const pumice_passage* passages = nullptr;
  size_t count = 0;
  require_ok(pumice_index_search(index, query.c_str(), 100, &passages, &count, &error), error);
  REQUIRE(count == found.size());
  for (size_t i = 0; i < count; ++i) CHECK(passages[i].score == found[i]["score"].get<float>());
  command.insert(command.end(), {"--pooling", "mean"}); // other vectors than the index has
  CHECK(fails_saying(pumice_command(command), {"other options"}) == "");
}

// The masks at the end are farther from the query's words than a window reaches.
TEST_CASE("a query that is filled up far beyond its words has a score") {
  LateFolder folder;
  folder.late["query_length"] = 64;
  folder.write_pylate();
  for (const json& each : folder.rerank()) {
    const double score = each["score"].is_number() ? each["score"].get<double>() : -1;
    CHECK(score > 0);
    CHECK(score <= 64);
  }
  folder.folder.write("config_sentence_transformers.json", R"({"query_prefix": "[nothing] "})");
  CHECK(fails_saying(pumice_command({"rerank", folder.path(), "--query", "a", "b"}),
                     {"query_prefix", "[nothing]"}) == "");
}
