// `pumice search` and pumice_index find the same passages, each in an index that the other made.
#include <doctest/doctest.h>

#include "support/command/agreement.h"
#include "support/files/bert_folder.h"
#include "support/vulkan/gpu.h"

using nlohmann::json;

namespace {

struct Found {
  float score = 0;
  std::string file, text;
  uint64_t line = 0;

  bool operator==(const Found&) const = default;
};

std::vector<Found> printed_passages(const std::string& model, const std::string& folder,
                                    const std::string& query, const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = {"search", model, folder, query};
  arguments.insert(arguments.end(), more.begin(), more.end());
  std::vector<Found> found;
  for (const json& each : printed_objects(arguments))
    found.push_back({each["score"], each["file"], each["text"], each["line"]});
  return found;
}

IndexHandle make_index(pumice_model* model, pumice_index_options options) {
  options.struct_size = sizeof options;
  pumice_index* made = nullptr;
  pumice_error error;
  require_ok(pumice_index_create(model, &options, &made, &error), error);
  return IndexHandle(made);
}

std::vector<Found> search(pumice_index* index, const char* query) {
  const pumice_passage* passages = nullptr;
  size_t count = 0;
  pumice_error error;
  require_ok(pumice_index_search(index, query, 5, &passages, &count, &error), error);
  std::vector<Found> found;
  for (size_t i = 0; i < count; ++i)
    found.push_back({passages[i].score, passages[i].file, passages[i].text, passages[i].line});
  return found;
}

uint64_t update(pumice_index* index) {
  uint64_t added = 0;
  const auto progress = [](void* user, uint64_t, uint64_t total) {
    *static_cast<uint64_t*>(user) = total;
    return true;
  };
  pumice_error error;
  require_ok(pumice_index_update(index, progress, &added, &error), error);
  return added;
}

} // namespace

TEST_CASE("search: an index that one made is searched by the other, with the same passages and scores") {
  const TemporaryFolder folder;
  REQUIRE(BertFolder().write(folder));
  std::filesystem::create_directories(folder.path() / "1_Pooling");
  std::filesystem::create_directories(folder.path() / "texts" / "deep");
  folder.write("1_Pooling/config.json", R"({"pooling_mode_cls_token": true})");
  folder.write("config_sentence_transformers.json",
               R"({"prompts": {"query": "what is ", "document": "this is "}})");
  folder.write("texts/a.txt", "the quick brown fox\n\ntransformers are models\n");
  folder.write("texts/deep/b.md", "42\n");
  const std::string model = folder.path().string(), texts = (folder.path() / "texts").string();
  const DeviceHandle& device = shared_device();
  const ModelHandle loaded = load_for(device.get(), model, PUMICE_FOR_TEXT);
  REQUIRE(loaded);
  pumice_index_options options = {};
  options.folder = texts.c_str();

  const std::vector<Found> printed = printed_passages(model, texts, "fox");
  CHECK(printed.size() == 3);
  {
    const IndexHandle index = make_index(loaded.get(), options);
    pumice_error error;
    const pumice_passage* passages = nullptr;
    size_t count = 0;
    CHECK(pumice_index_search(index.get(), "fox", 5, &passages, &count, &error) == PUMICE_NOT_READY);
    CHECK(update(index.get()) == 0); // the command's index is as new as the texts
    CHECK(search(index.get(), "fox") == printed);

    folder.write("texts/c.txt", "a new fox, and another\n");
    CHECK(update(index.get()) == 1);
    const std::vector<Found> given = search(index.get(), "a new fox");
    CHECK(given.size() == 4);
    CHECK(printed_passages(model, texts, "a new fox") == given); // of the interface's index
  }
  options.pooling = "mean";
  pumice_error error;
  CHECK(pumice_index_update(make_index(loaded.get(), options).get(), nullptr, nullptr, &error) ==
        PUMICE_INVALID_ARGUMENT);
  options.rebuild = true;
  options.dimensions = 8;
  options.query_prefix = "a ";
  options.text_prefix = "the ";
  const IndexHandle rebuilt = make_index(loaded.get(), options);
  CHECK(update(rebuilt.get()) == 4);
  CHECK(search(rebuilt.get(), "fox") == printed_passages(model, texts, "fox",
                                                         {"--pooling", "mean", "--dimensions", "8",
                                                          "--query-prefix", "a ", "--text-prefix", "the "}));
  CHECK(printed_passages(model, texts, "fox").empty()); // other options
}

TEST_CASE("search: an update that is cancelled keeps what it has, and the next one goes on there") {
  const TemporaryFolder folder;
  REQUIRE(BertFolder().write(folder));
  std::filesystem::create_directories(folder.path() / "texts");
  std::string passages;
  for (int i = 0; i < 20; ++i) passages += "the quick brown fox and transformers are models\n\n";
  for (char name = 'a'; name < 'u'; ++name) folder.write(std::string("texts/") + name + ".txt", passages);
  const std::string model = folder.path().string(), texts = (folder.path() / "texts").string();
  const ModelHandle loaded = load_for(shared_device().get(), model, PUMICE_FOR_TEXT);
  REQUIRE(loaded);
  pumice_index_options options = {};
  options.folder = texts.c_str();
  options.batch_tokens = 512;
  const IndexHandle index = make_index(loaded.get(), options);
  uint64_t done = 0;
  const auto cancel = [](void* user, uint64_t now, uint64_t) {
    *static_cast<uint64_t*>(user) = now;
    return now < 100;
  };
  pumice_error error;
  CHECK(pumice_index_update(index.get(), cancel, &done, &error) == PUMICE_CANCELLED);
  CHECK(done >= 100);
  CHECK(done < 400);
  const uint64_t left = update(index.get());
  CHECK(left <= 400 - done + 20); // a file that was begun is read again
  CHECK(left >= 400 - done);
  CHECK(search(index.get(), "fox") == printed_passages(model, texts, "fox", {"--rebuild"}));
  // An older index stays as it is where nothing was encoded yet.
  folder.write("texts/z.txt", "a new fox");
  const auto at_once = [](void*, uint64_t, uint64_t) { return false; };
  CHECK(pumice_index_update(index.get(), at_once, nullptr, &error) == PUMICE_CANCELLED);
  CHECK(update(index.get()) == 1);
}

TEST_CASE("search: a passage that the model cannot read is named and left out") {
  const TemporaryFolder folder; // whose tokenizer has more tokens than the model
  BertFolder small;
  small.vocabulary = 320;
  REQUIRE(small.write(folder));
  std::filesystem::create_directories(folder.path() / "texts");
  folder.write("texts/a.txt", "a\n\nthe and of\n\na b\n");
  const std::string model = folder.path().string(), texts = (folder.path() / "texts").string();
  const CommandResult result = pumice_command({"search", model, texts, "a", "--json"});
  CAPTURE(result.err);
  CHECK(result.status == 1);
  CHECK(result.err.find("a.txt: line 3: ") != std::string::npos);
  REQUIRE(lines_of(result.out).size() == 2);
  CHECK(json::parse(lines_of(result.out)[0])["text"] == "a");
  const CommandResult queries = pumice_command({"search", model, texts, "the", "a", "--json"});
  CHECK(queries.status == 1);
  REQUIRE(lines_of(queries.out).size() == 3);
  CHECK(json::parse(lines_of(queries.out)[0])["query"] == "the");
  CHECK(json::parse(lines_of(queries.out)[0]).contains("error"));
  CHECK(lines_of(queries.out)[1] == lines_of(result.out)[0]);
}

TEST_CASE("search: by sparse vectors, whose products are the scores") {
  const TemporaryFolder folder;
  BertFolder masked;
  masked.masked = true;
  REQUIRE(masked.write(folder));
  std::filesystem::create_directories(folder.path() / "texts");
  folder.write("texts/a.txt", "the quick brown fox\n\ntransformers are models\n\n42\n");
  const std::string model = folder.path().string(), texts = (folder.path() / "texts").string();
  const std::vector<Found> printed = printed_passages(model, texts, "fox", {"--sparse"});
  REQUIRE(!printed.empty());
  for (const char* command : {"inspect", "run", "bench"})
    CHECK(fails_saying(pumice_command({command, texts + ".index"}), {"that pumice search has made"}) == "");

  std::map<std::string, std::map<uint32_t, double>> vectors;
  for (const json& each : printed_objects(
           {"embed", model, "--sparse", "the quick brown fox", "transformers are models", "42", "fox"})) {
    for (const json& weight : each["weights"])
      vectors[each["text"]][weight["id"].get<uint32_t>()] = weight["weight"];
  }
  const auto product = [&](const std::string& text) {
    double sum = 0;
    for (const auto& [token, weight] : vectors.at("fox")) {
      const auto found = vectors.at(text).find(token);
      if (found != vectors.at(text).end()) sum += weight * found->second;
    }
    return sum;
  };
  size_t related = 0;
  for (const auto& [text, vector] : vectors) related += text != "fox" && product(text) > 0;
  CHECK(printed.size() == related);
  for (const Found& each : printed) CHECK(each.score == doctest::Approx(product(each.text)).epsilon(1e-4));

  const ModelHandle headless = load_for(shared_device().get(), model, PUMICE_FOR_TEXT);
  pumice_index_options options = {sizeof options};
  options.folder = texts.c_str();
  options.sparse = 1;
  pumice_index* none = nullptr;
  pumice_error error;
  CHECK(pumice_index_create(headless.get(), &options, &none, &error) == PUMICE_UNSUPPORTED);
  const ModelHandle loaded = load_for(shared_device().get(), model, PUMICE_FOR_SCORES);
  const IndexHandle index = make_index(loaded.get(), options);
  CHECK(update(index.get()) == 0); // the command's index is as new as the texts
  CHECK(search(index.get(), "fox") == printed);
  folder.write("texts/b.txt", "a new fox\n");
  CHECK(update(index.get()) == 1);
  CHECK(printed_passages(model, texts, "a new fox", {"--sparse"}) == search(index.get(), "a new fox"));
  CHECK(fails_saying(pumice_command({"search", model, texts, "fox"}), {"other options", "sparse vectors"}) ==
        "");
}

TEST_CASE("search: by decoders that read whole texts") {
  const DeviceHandle& device = shared_device();
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() / "texts");
  folder.write("texts/a.txt", "Once upon a time\n\nThere was a dog\n");
  const std::string texts = (folder.path() / "texts").string();
  const ModelHandle model = load_for(device.get(), stories, PUMICE_FOR_VECTORS);
  REQUIRE(model);
  pumice_index_options options = {};
  options.folder = texts.c_str();
  const IndexHandle index = make_index(model.get(), options);
  CHECK(update(index.get()) == 2);
  const std::vector<Found> given = search(index.get(), "a dog");
  CHECK(given.size() == 2);
  CHECK(printed_passages(stories, texts, "a dog") == given);
}
