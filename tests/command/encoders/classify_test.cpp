// `pumice classify`: pictures and texts against the same model put together by hand.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "media/image.h"
#include "step/encoder.h"
#include "support/command/command.h"
#include "support/files/bert_folder.h"
#include "support/files/word_folder.h"
#include "support/model.h"
#include "support/vulkan/gpu.h"
#include "text/tokenizer.h"

using namespace pumice;
using nlohmann::json;

namespace {

std::vector<float> logits_of(const std::filesystem::path& folder, const EncoderInput& input) {
  EncoderOptions options;
  options.readable = {"logits"};
  auto encoder = Encoder::create(load_model(folder), options);
  REQUIRE(encoder.ok());
  REQUIRE((*encoder)->encode(std::span(&input, 1)).ok());
  return *(*encoder)->read("logits", 0);
}

// That the object's labels are all of these logits' own, best first.
void check_labels(const json& object, const std::vector<float>& logits, const std::string& prefix) {
  double sum = 0, last = 1;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
  REQUIRE(object["labels"].size() == logits.size());
  for (const json& each : object["labels"]) {
    const std::string label = each["label"];
    REQUIRE(label.starts_with(prefix));
    const size_t index = std::stoul(label.substr(prefix.size()));
    const double probability = each["probability"];
    CHECK(probability == doctest::Approx(std::exp(static_cast<double>(logits[index])) / sum));
    CHECK(probability <= last);
    last = probability;
  }
}

CommandResult classify(std::vector<std::string> arguments, const std::string* input = nullptr) {
  arguments.insert(arguments.begin(), "classify");
  arguments.push_back("--no-cache");
  const CommandResult result = pumice_command(arguments, input);
  INFO(result.err);
  REQUIRE(result.status == 0);
  return result;
}

} // namespace

TEST_CASE("classify gives the labels of pictures, best first") {
  const std::string model = fixtures().model("vit").string();
  const TemporaryFolder folder;
  const auto path = [&](const char* name) { return (folder.path() / name).string(); };
  Image image{32, 32, std::vector<uint8_t>(32 * 32 * 3)};
  EncoderInput input;
  for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = static_cast<uint8_t>(i * i * 31);
  for (size_t channel = 0; channel < 3; ++channel) {
    for (size_t i = channel; i < image.pixels.size(); i += 3) {
      input.values.push_back(static_cast<float>(image.pixels[i]) / 255 * 2 - 1);
    }
  }
  REQUIRE(write_png(image, path("a.png")).ok());
  REQUIRE(write_png(Image{1, 1, {9, 200, 3}}, path("dot.png")).ok());
  const json found = json::parse(classify({model, path("a.png"), "--json", "--top", "100"}).out);
  CHECK(found["image"] == path("a.png"));
  check_labels(found, logits_of(model, input), "LABEL_");

  const std::vector<std::string> alone = lines_of(classify({model, path("a.png")}).out);
  REQUIRE(alone.size() == 5);
  CHECK(alone[0].ends_with("\t" + found["labels"][0]["label"].get<std::string>()));
  const std::vector<std::string> both =
      lines_of(classify({model, path("dot.png"), path("a.png"), "--top", "1"}).out);
  REQUIRE(both.size() == 2);
  CHECK(both[0].starts_with(path("dot.png") + "\t"));
  CHECK(both[1] == path("a.png") + "\t" + alone[0]);

  folder.write("text.jpg", "this is no picture");
  CHECK(fails_saying(pumice_command({"classify", model, path("text.jpg")}), {"text.jpg", "PNG"}) == "");
  CHECK(fails_saying(pumice_command({"classify", model, path("none.png")}), {"none.png"}) == "");
  const CommandResult others =
      pumice_command({"classify", model, path("none.png"), path("a.png"), path("text.jpg"), path("a.png")});
  CHECK(others.status == 1);
  CHECK(lines_of(others.out).size() == 10);
  CHECK(others.err.find("text.jpg") != std::string::npos);
  CHECK(fails_saying(pumice_command({"classify", model}), {"no picture was given"}) == "");
}

TEST_CASE("classify gives the labels of texts, and of lines of standard input") {
  const TemporaryFolder folder;
  REQUIRE(BertFolder{.labels = 3}.write(folder));
  const std::string model = folder.path().string(), text = "the quick brown fox";
  const auto tokenizer = Tokenizer::load(folder.path() / "tokenizer.json");
  REQUIRE(tokenizer.ok());
  const json found = json::parse(classify({model, text, "--json"}).out);
  CHECK(found["text"] == text);
  check_labels(found, logits_of(folder.path(), {(*tokenizer)->encode(text, true), {}, {}}), "L");

  const std::string input = "42\n\n" + text + "\n";
  const std::vector<std::string> lines = lines_of(classify({model, "--json"}, &input).out);
  REQUIRE(lines.size() == 3);
  CHECK(json::parse(lines[0])["text"] == "42");
  CHECK(json::parse(lines[1])["text"] == "");
  CHECK(json::parse(lines[2]) == found);
  CHECK(lines_of(classify({model, "--top", "2"}, &input).out).size() == 6);
}

TEST_CASE("classify needs a classification head") {
  const auto path = [](const char* model) { return fixtures().model(model).string(); };
  CHECK(fails_saying(pumice_command({"classify", path("bert"), "x"}), {"classification head"}) == "");
  CHECK(fails_saying(pumice_command({"classify", path("llama-mha"), "x"}), {"pumice run"}) == "");
  CHECK(fails_saying(pumice_command({"classify", path("marian"), "x"}), {"pumice translate"}) == "");
}
