// `pumice rerank` and pumice_reranker give the same scores, or both refuse the model.
#include <doctest/doctest.h>

#include <fstream>

#include "support/command/agreement.h"
#include "support/files/bert_folder.h"
#include "support/in_turn.h"
#include "support/vulkan/gpu.h"
#include "task/reranker.h"

using nlohmann::json;

namespace {

using Scores = std::vector<float>;

// Both ways, which must agree; none where the model is refused.
Scores scores(pumice_device* device, const std::string& path, const std::string& query,
              const std::vector<std::string>& texts, pumice_reranker_options options = {}) {
  std::vector<std::string> arguments = {"rerank", path, "--query", query};
  arguments.insert(arguments.end(), texts.begin(), texts.end());
  if (options.instruction) arguments.insert(arguments.end(), {"--instruction", options.instruction});
  if (options.raw) arguments.push_back("--raw");
  Scores printed;
  for (const json& each : printed_objects(arguments)) printed.push_back(each["score"]);

  Scores given;
  options.struct_size = sizeof options;
  if (const ModelHandle model = load_for(device, path, PUMICE_FOR_SCORES)) {
    pumice_reranker* made = nullptr;
    pumice_error error;
    if (pumice_reranker_create(model.get(), &options, &made, &error) == PUMICE_OK) {
      const RerankerHandle reranker(made);
      std::vector<const char*> pointers;
      for (const std::string& text : texts) pointers.push_back(text.c_str());
      given.resize(texts.size());
      require_ok(pumice_reranker_score(made, query.c_str(), pointers.data(), texts.size(), given.data(),
                                       nullptr, &error),
                 error);
    }
  }
  CHECK(given == printed);
  return printed;
}

} // namespace

TEST_CASE("rerank: every fixture's scores are the same by the command and by the interface") {
  const DeviceHandle& device = shared_device();
  size_t scored = 0;
  for (const std::string& name : turns_of(fixtures().models(), 9, 1)) {
    CAPTURE(name);
    const TemporaryFolder folder;
    write_word_folder(folder, name);
    add_answer_words(folder);
    const auto file = pumice::ModelFile::open(folder.path());
    if (!file.ok() || !pumice::RerankerPlan::of(*file, {}).ok()) continue; // by both
    const std::vector<std::string> texts = {words_for(20), words_for(40)};
    CHECK(scores(device.get(), folder.path().string(), "w5 w9", texts).size() == texts.size());
    ++scored;
  }
  CHECK(scored > (every_case() ? 30 : 2));
}

TEST_CASE("rerank: heads, logits, instructions, and models that ship") {
  const DeviceHandle& device = shared_device();
  pumice_reranker_options raw = {}, instructed = {};
  raw.raw = true;
  instructed.instruction = "find a fox";
  for (const uint32_t labels : {1u, 3u}) {
    const TemporaryFolder folder;
    BertFolder model;
    model.labels = labels;
    REQUIRE(model.write(folder));
    const std::string path = folder.path().string();
    const std::vector<std::string> texts = {"the quick brown fox", "", "42"};
    CHECK(scores(device.get(), path, "what is a fox?", texts).size() == 3);
    CHECK(scores(device.get(), path, "what is a fox?", texts, raw).size() == 3);
    CHECK(scores(device.get(), path, "what is a fox?", texts, instructed).empty());
  }
  for (const char* name : {"stories-2m.gguf", "chat-2m.gguf", "dates"}) {
    CAPTURE(std::string(name));
    const std::string path = (pretrained_folder() / name).string();
    scores(device.get(), path, "Who is it?", {"Tim", "a dog"});
    scores(device.get(), path, "Who is it?", {"Tim", "a dog"}, instructed);
  }
  // Loaded for vectors, a decoder has no head to say yes or no with.
  const ModelHandle model = load_for(device.get(), stories, PUMICE_FOR_VECTORS);
  REQUIRE(model);
  pumice_reranker* made = nullptr;
  pumice_error error;
  CHECK(pumice_reranker_create(model.get(), nullptr, &made, &error) == PUMICE_UNSUPPORTED);
  CHECK(std::string(error.message).find("PUMICE_FOR_SCORES") != std::string::npos);
}
