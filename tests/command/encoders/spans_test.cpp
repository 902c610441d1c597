// `pumice classify --tokens` and `pumice answer` against the reference's spans, and the C interface beside
// them.
#include <fstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "support/command/agreement.h"
#include "support/command/command.h"
#include "support/files/bert_folder.h"
#include "support/vulkan/gpu.h"

using nlohmann::json;

namespace {

// A fixture's model with the tokenizer that its spans.json names.
struct SpanFolder {
  TemporaryFolder folder;
  json spans;

  explicit SpanFolder(const std::string& model) {
    const std::filesystem::path path = fixtures().model(model);
    spans = json::parse(std::ifstream(path / "spans.json"));
    for (const char* file : {"config.json", "model.safetensors"})
      std::filesystem::copy_file(path / file, folder.path() / file);
    std::filesystem::copy_file(fixtures().tokenizer(spans["tokenizer"]) / "tokenizer.json",
                               folder.path() / "tokenizer.json");
  }
  std::string path() const { return folder.path().string(); }
};

size_t bytes_of(const std::string& text, size_t characters) {
  size_t at = 0;
  for (; characters > 0; --characters) {
    ++at;
    while (at < text.size() && (text[at] & 0xC0) == 0x80) ++at;
  }
  return at;
}

void check_span(const json& found, const json& expected, const std::string& text) {
  CAPTURE(found.dump());
  CAPTURE(expected.dump());
  CHECK(found["start"] == expected["start"]);
  CHECK(found["end"] == expected["end"]);
  CHECK(found["score"].get<double>() == doctest::Approx(expected["score"].get<double>()).epsilon(1e-4));
  const size_t begin = bytes_of(text, found["start"]), end = bytes_of(text, found["end"]);
  CHECK(found["text"] == text.substr(begin, end - begin));
  if (expected.contains("label")) CHECK(found["label"] == expected["label"]);
}

void check_same(const pumice_span& span, const json& printed, const std::string& text) {
  CHECK(span.begin == bytes_of(text, printed["start"]));
  CHECK(span.end == bytes_of(text, printed["end"]));
  CHECK(span.score == printed["score"].get<float>());
  if (printed.contains("label")) {
    CHECK(span.label == printed["label"].get<std::string>());
  } else {
    CHECK(span.label == nullptr);
  }
}

} // namespace

TEST_CASE("classify --tokens finds the reference's spans, as the C interface does") {
  const SpanFolder model("bert-tokens");
  std::vector<std::string> texts;
  for (const json& each : model.spans["texts"]) texts.push_back(each["text"]);
  std::vector<std::string> arguments = {"classify", model.path(), "--tokens"};
  arguments.insert(arguments.end(), texts.begin(), texts.end());
  const std::vector<json> printed = printed_objects(arguments);
  REQUIRE(printed.size() == texts.size());
  size_t count = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    const json &found = printed[i]["spans"], expected = model.spans["texts"][i]["spans"];
    CHECK(printed[i]["text"] == texts[i]);
    REQUIRE(found.size() == expected.size());
    for (size_t k = 0; k < found.size(); ++k) check_span(found[k], expected[k], texts[i]);
    count += found.size();
  }
  CHECK(count > 3);
  const auto plain = lines_of(pumice_command({"classify", model.path(), texts[0], "--no-tune"}).out);
  REQUIRE(plain.size() == printed[0]["spans"].size());
  CHECK(plain[0].ends_with("\t" + printed[0]["spans"][0]["text"].get<std::string>()));

  const ModelHandle loaded = load_for(shared_device().get(), model.path(), PUMICE_FOR_TEXT);
  pumice_tagger* tagger = nullptr;
  pumice_error error;
  require_ok(pumice_tagger_create(loaded.get(), nullptr, &tagger, &error), error);
  std::vector<const char*> pointers;
  for (const std::string& text : texts) pointers.push_back(text.c_str());
  const pumice_span* spans = nullptr;
  size_t found = 0;
  require_ok(pumice_tagger_tag(tagger, pointers.data(), pointers.size(), &spans, &found, &error), error);
  REQUIRE(found == count);
  for (size_t i = 0, k = 0; i < found; ++i, ++k) {
    if (i > 0 && spans[i].index != spans[i - 1].index) k = 0;
    check_same(spans[i], printed[spans[i].index]["spans"][k], texts[spans[i].index]);
  }
  const char* broken = "\xff";
  CHECK(pumice_tagger_tag(tagger, &broken, 1, &spans, &found, &error) == PUMICE_INVALID_ARGUMENT);
  pumice_tagger_destroy(tagger);
}

TEST_CASE("classify --tokens reads texts of any length, and nothing is cut") {
  const SpanFolder model("bert-tokens");
  const std::string sentence = "My name is Sarah and I live in London. ";
  std::string text;
  for (int i = 0; i < 20; ++i) text += sentence;
  const CommandResult result = pumice_command({"classify", model.path(), "--tokens", "--json", text, ""});
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  CHECK(result.err.find("cut") == std::string::npos);
  const auto lines = lines_of(result.out);
  REQUIRE(lines.size() == 2);
  const json spans = json::parse(lines[0])["spans"];
  REQUIRE(spans.size() > 20);
  CHECK(spans.back()["start"].get<size_t>() > 18 * sentence.size());
  CHECK(json::parse(lines[1])["spans"].empty());
}

TEST_CASE("answer finds the reference's answers in windows of a text, as the C interface does") {
  const SpanFolder model("roberta-answers");
  const std::string text = model.spans["text"], file = (model.folder.path() / "text.txt").string();
  model.folder.write("text.txt", text + "\n");
  const std::string limit = model.spans["max_tokens"].dump();
  std::vector<std::string> questions;
  for (const json& each : model.spans["questions"]) questions.push_back(each["question"]);
  const std::vector<json> printed = printed_objects(
      {"answer", model.path(), file, questions[0], questions[1], "--top", "3", "--max-tokens", limit});
  REQUIRE(printed.size() == 2);
  for (size_t i = 0; i < 2; ++i) {
    CHECK(printed[i]["question"] == questions[i]);
    const json &found = printed[i]["answers"], expected = model.spans["questions"][i]["answers"];
    REQUIRE(found.size() == expected.size());
    for (size_t k = 0; k < found.size(); ++k) check_span(found[k], expected[k], text);
  }
  const ModelHandle loaded = load_for(shared_device().get(), model.path(), PUMICE_FOR_TEXT);
  pumice_answerer* answerer = nullptr;
  pumice_error error;
  pumice_answerer_options options = {sizeof options};
  options.top = 3;
  options.max_tokens = static_cast<uint32_t>(std::stoul(limit));
  require_ok(pumice_answerer_create(loaded.get(), &options, &answerer, &error), error);
  const char* pointers[] = {questions[0].c_str(), questions[1].c_str()};
  const pumice_span* answers = nullptr;
  size_t count = 0;
  require_ok(pumice_answerer_answer(answerer, text.c_str(), pointers, 2, &answers, &count, &error), error);
  REQUIRE(count == 6);
  for (size_t i = 0; i < count; ++i) {
    CHECK(answers[i].index == i / 3);
    check_same(answers[i], printed[i / 3]["answers"][i % 3], text);
  }
  CHECK(pumice_answerer_answer(answerer, "", pointers, 2, &answers, &count, &error) ==
        PUMICE_INVALID_ARGUMENT);
  pumice_answerer_destroy(answerer);
}

TEST_CASE("models without a head of each token are told what they are for") {
  const SpanFolder answers("roberta-answers"), tokens("bert-tokens");
  const TemporaryFolder plain;
  REQUIRE(BertFolder().write(plain));
  CHECK(fails_saying(pumice_command({"classify", plain.path().string(), "--tokens", "fox"}),
                     {"labels each token"}) == "");
  CHECK(fails_saying(pumice_command({"classify", answers.path(), "fox"}), {"use pumice answer"}) == "");
  plain.write("text.txt", "a fox");
  const std::string file = (plain.path() / "text.txt").string();
  CHECK(fails_saying(pumice_command({"answer", tokens.path(), file, "who?"}), {"finds answers"}) == "");
  CHECK(fails_saying(pumice_command({"answer", answers.path(), file, std::string(900, 'q')}),
                     {"no room for the text"}) == "");
  CHECK(fails_saying(pumice_command({"classify", tokens.path(), "--ids", "1,2"}), {"--ids"}) == "");
  const CommandResult inspected = pumice_command({"inspect", answers.path()});
  CHECK(inspected.out.find("answer") != std::string::npos);
}
