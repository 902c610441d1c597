// `pumice classify` and pumice_classifier give the same probabilities, or both refuse the model.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "media/image.h"
#include "support/command/agreement.h"
#include "support/files/bert_folder.h"
#include "support/vulkan/gpu.h"
#include "support/vulkan/row_bits.h"
#include "task/classifier.h"

using namespace pumice;
using nlohmann::json;

namespace {

using Scores = std::multimap<std::string, float>; // by label

Scores printed_scores(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "classify");
  arguments.insert(arguments.end(), {"--top", "1000"});
  Scores scores;
  for (const json& each : printed_objects(arguments)) {
    for (const json& one : each["labels"])
      scores.emplace(one["label"], one.contains("score") ? one["score"] : one["probability"]);
  }
  return scores;
}

// Of a picture, or a text; none where the interface refuses the model.
Scores given_scores(pumice_device* device, const std::string& path, const Image* image,
                    const std::vector<const char*>& labels = {}) {
  const ModelHandle model = load_for(device, path, PUMICE_FOR_TEXT, !labels.empty());
  if (!model) return {};
  pumice_classifier_options options = {sizeof options};
  options.labels = labels.data();
  options.label_count = labels.size();
  pumice_classifier* made = nullptr;
  pumice_error error;
  if (pumice_classifier_create(model.get(), &options, &made, &error) != PUMICE_OK) return {};
  const ClassifierHandle classifier(made);
  std::vector<float> values(pumice_classifier_label_count(made));
  if (image) {
    pumice_picture picture = {sizeof picture};
    picture.pixels = image->pixels.data();
    picture.width = image->width;
    picture.height = image->height;
    require_ok(pumice_classifier_classify_pictures(made, &picture, 1, values.data(), &error), error);
  } else {
    const char* text = "w20 w21";
    require_ok(pumice_classifier_classify(made, &text, 1, values.data(), nullptr, &error), error);
  }
  CHECK(!pumice_classifier_label(made, values.size()));
  Scores scores;
  for (size_t i = 0; i < values.size(); ++i) scores.emplace(pumice_classifier_label(made, i), values[i]);
  return scores;
}

// The command's plan may have room for more pictures, and other kernels.
bool same_scores(const Scores& a, const Scores& b) {
  std::vector<float> values[2];
  for (const auto& [label, score] : a) values[0].push_back(score);
  for (const auto& [label, score] : b) values[1].push_back(score);
  return std::ranges::equal(a, b, {}, &Scores::value_type::first, &Scores::value_type::first) &&
         same_in_any_step(values[0], values[1]);
}

Image some_picture() {
  Image image{32, 32, std::vector<uint8_t>(32 * 32 * 3)};
  for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = static_cast<uint8_t>(i * i * 31);
  return image;
}

} // namespace

TEST_CASE("classify: every fixture's probabilities are the same by the command and by the interface") {
  const DeviceHandle& device = shared_device();
  const Image image = some_picture();
  size_t of_pictures = 0;
  for (const std::string& name : fixtures().models()) {
    CAPTURE(name);
    const TemporaryFolder folder;
    write_word_folder(folder, name);
    const auto own = ModelFile::open(folder.path());
    const auto plan = own.ok() ? ClassifierPlan::of(*own, {}) : Result<ClassifierPlan>(own.error());
    if (!plan.ok()) continue; // by both
    const bool pictures = plan->model.reads_pictures();
    const std::string path = folder.path().string(), file = (folder.path() / "a.png").string();
    REQUIRE(write_png(image, file).ok());
    const Scores printed = printed_scores({path, pictures ? file : std::string("w20 w21")});
    CHECK(printed.size() == plan->labels.size());
    CHECK(same_scores(given_scores(device.get(), path, pictures ? &image : nullptr), printed));
    of_pictures += pictures;
  }
  CHECK(of_pictures > 2);
}

TEST_CASE("classify: texts of one label, of several, and of a regression") {
  const DeviceHandle& device = shared_device();
  for (const char* problem : {"", "multi_label_classification", "regression"}) {
    for (const uint32_t labels : {1u, 3u}) {
      CAPTURE(labels);
      const TemporaryFolder folder;
      BertFolder model;
      model.labels = labels;
      REQUIRE(model.write(folder));
      json config = json::parse(std::ifstream(folder.path() / "config.json"));
      if (*problem) config["problem_type"] = problem;
      folder.write("config.json", config.dump());
      const std::string path = folder.path().string();
      const Scores printed = printed_scores({path, "w20 w21"});
      CHECK(printed.size() == labels);
      CHECK(given_scores(device.get(), path, nullptr) == printed);
    }
  }
}

TEST_CASE("classify: labels of one's own, in a space of texts and pictures") {
  const DeviceHandle& device = shared_device();
  const Image image = some_picture();
  for (const std::string name : {"clip", "siglip"}) {
    CAPTURE(name);
    const TemporaryFolder folder;
    write_word_folder(folder, name);
    folder.write("labels.txt", "w20\nw30 w31\nw40\n");
    const std::string path = folder.path().string(), file = (folder.path() / "a.png").string();
    REQUIRE(write_png(image, file).ok());
    const Scores printed = printed_scores({path, file, "--labels", (folder.path() / "labels.txt").string()});
    CHECK(printed.size() == 3);
    CHECK(same_scores(given_scores(device.get(), path, &image, {"w20", "w30 w31", "w40"}), printed));
    CHECK(given_scores(device.get(), path, &image).empty());
  }
}
