// `pumice classify --labels`: pictures against texts of one's own, with the reference's logits.
#include <doctest/doctest.h>

#include <cmath>

#include <nlohmann/json.hpp>

#include "support/command/command.h"
#include "support/files/fixture_picture.h"
#include "support/files/word_folder.h"
#include "support/vulkan/gpu.h"

using namespace pumice;
using nlohmann::json;

namespace {

// A model of pictures and texts with its fixture's pictures, and a file with its fixture's texts.
struct LabelFolder {
  TemporaryFolder folder;
  Answers answers;
  std::vector<std::string> pictures, labels;

  explicit LabelFolder(const std::string& model) : answers(fixtures().model(model) / "expected.safetensors") {
    write_word_folder(folder, model);
    for (size_t i = 0; i < answers.shapes.at("pixel_values")[0]; ++i) {
      pictures.push_back((folder.path() / (std::to_string(i) + ".png")).string());
      REQUIRE(write_png(fixture_picture(answers, i), pictures.back()).ok());
    }
    std::string lines = "\r\n"; // a line without a label
    for (size_t i = 0; i < answers.shapes.at("input_ids")[0]; ++i) {
      labels.push_back(words(answers.ids("input_ids", i)));
      lines += labels.back() + "\r\n\n";
    }
    folder.write("labels.txt", lines);
  }

  std::string path(const char* name) const { return (folder.path() / name).string(); }

  CommandResult classify(std::vector<std::string> more) const {
    more.insert(more.begin(), {"classify", folder.path().string()});
    return pumice_command(more);
  }

  // A label's probability, as the reference's logits of the picture give it.
  double probability(size_t picture, const std::string& label, bool each_by_itself) const {
    const std::span<const float> logits = answers.row("logits_per_image", picture);
    double sum = 0, own = 0;
    for (size_t i = 0; i < logits.size(); ++i) {
      sum += std::exp(static_cast<double>(logits[i]));
      if (labels[i] == label) own = std::exp(static_cast<double>(logits[i]));
    }
    return each_by_itself ? own / (1 + own) : own / sum;
  }
};

} // namespace

TEST_CASE("classify gives labels of one's own the reference's probabilities, best first") {
  for (const std::string model : {"clip", "siglip"}) {
    CAPTURE(model);
    const LabelFolder own(model);
    const CommandResult result = own.classify(
        {own.pictures[0], own.pictures[1], "--labels", own.path("labels.txt"), "--sentence", "{}", "--json"});
    CAPTURE(result.err);
    REQUIRE(result.status == 0);
    const std::vector<std::string> lines = lines_of(result.out);
    REQUIRE(lines.size() == 2);
    for (size_t picture = 0; picture < 2; ++picture) {
      const json found = json::parse(lines[picture]);
      CHECK(found["image"] == own.pictures[picture]);
      REQUIRE(found["labels"].size() == own.labels.size());
      double last = 1;
      for (const json& each : found["labels"]) {
        const double probability = each["probability"];
        // The pictures' 8 bits are the difference.
        CHECK(std::abs(probability - own.probability(picture, each["label"], model == "siglip")) <= 1e-3);
        CHECK(probability <= last);
        last = probability;
      }
    }
  }
}

TEST_CASE("classify --labels puts labels into the sentence, and says what is missing") {
  const LabelFolder own("clip");
  own.folder.write("short.txt", "w5\nw6");
  own.folder.write("long.txt", "w7 w8 w5\nw7 w8 w6");
  const auto lines = [&](std::vector<std::string> more) {
    more.insert(more.begin(), own.pictures[0]);
    const CommandResult result = own.classify(more);
    CAPTURE(result.err);
    REQUIRE(result.status == 0);
    return lines_of(result.out);
  };
  const std::vector<std::string> of_sentence =
      lines({"--labels", own.path("short.txt"), "--sentence", "w7 w8 {}"});
  REQUIRE(of_sentence.size() == 2);
  CHECK(of_sentence != lines({"--labels", own.path("short.txt"), "--sentence", "{}"}));
  std::vector<std::string> whole = lines({"--labels", own.path("long.txt"), "--sentence", "{}"});
  REQUIRE(whole.size() == 2);
  for (std::string& line : whole) line.erase(line.find('\t') + 1, std::string("w7 w8 ").size());
  CHECK(whole == of_sentence);
  CHECK(lines({"--labels", own.path("short.txt"), "--top", "1"}).size() == 1);

  own.folder.write("empty.txt", "");
  own.folder.write("blank.txt", "\r\n  \n\n");
  for (const char* empty : {"empty.txt", "blank.txt"}) {
    CAPTURE(std::string(empty));
    const CommandResult result = own.classify({own.pictures[0], "--labels", own.path(empty)});
    CHECK(fails_saying(result, {empty, "expected a label on each line"}) == "");
    CHECK(std::ranges::count(result.err, '\n') == 1);
  }
  CHECK(fails_saying(own.classify({own.pictures[0], "--labels", own.path("none.txt")}), {"none.txt"}) == "");
  CHECK(fails_saying(own.classify({own.pictures[0]}), {"no labels of its own", "--labels"}) == "");
  CHECK(fails_saying(own.classify({"--labels", own.path("short.txt")}), {"no picture was given"}) == "");
  CHECK(fails_saying(
            own.classify({own.pictures[0], "--labels", own.path("short.txt"), "--sentence", "a photo"}),
            {"--sentence", "{}"}) == "");
  const std::string vit = fixtures().model("vit").string();
  CHECK(fails_saying(pumice_command({"classify", vit, own.pictures[0], "--labels", own.path("short.txt")}),
                     {"--labels", "CLIP"}) == "");
}
