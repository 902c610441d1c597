// `pumice embed` and pumice_embedder give the same vectors, or both refuse the model.
#include <doctest/doctest.h>

#include "io/formats/safetensors.h"
#include "media/image.h"
#include "support/command/agreement.h"
#include "support/files/bert_folder.h"
#include "support/in_turn.h"
#include "support/vulkan/gpu.h"
#include "support/vulkan/row_bits.h"
#include "task/embedder.h"

using namespace pumice;
using nlohmann::json;

namespace {

using Vectors = std::vector<std::vector<float>>;

Vectors printed_vectors(const std::string& model, const std::vector<std::string>& texts,
                        const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = {"embed", model};
  arguments.insert(arguments.end(), texts.begin(), texts.end());
  arguments.insert(arguments.end(), more.begin(), more.end());
  Vectors vectors;
  for (const json& each : printed_objects(arguments)) vectors.push_back(each["embedding"]);
  return vectors;
}

Vectors cut(const std::vector<float>& values, uint32_t columns) {
  Vectors vectors;
  for (auto at = values.begin(); at != values.end(); at += columns) vectors.emplace_back(at, at + columns);
  return vectors;
}

EmbedderHandle make_embedder(pumice_model* model, pumice_embedder_options options = {}) {
  options.struct_size = sizeof options;
  pumice_embedder* made = nullptr;
  pumice_error error;
  if (pumice_embedder_create(model, &options, &made, &error) != PUMICE_OK) CHECK(!made);
  return EmbedderHandle(made);
}

Vectors embed(pumice_embedder* embedder, const std::vector<std::string>& texts, size_t* cut_texts = nullptr) {
  std::vector<const char*> pointers;
  for (const std::string& text : texts) pointers.push_back(text.c_str());
  const uint32_t columns = pumice_embedder_columns(embedder);
  REQUIRE(columns > 0);
  std::vector<float> values(texts.size() * columns);
  pumice_error error;
  require_ok(pumice_embedder_embed(embedder, pointers.data(), texts.size(), values.data(), cut_texts, &error),
             error);
  return cut(values, columns);
}

// Of a model for texts; none where the interface refuses it.
Vectors given_vectors(pumice_device* device, const std::string& path, const std::vector<std::string>& texts,
                      const pumice_embedder_options& options = {}) {
  const ModelHandle model = load_for(device, path, PUMICE_FOR_VECTORS);
  if (!model) return {};
  const EmbedderHandle embedder = make_embedder(model.get(), options);
  return embedder ? embed(embedder.get(), texts) : Vectors();
}

} // namespace

TEST_CASE("embed: every fixture's vectors are the same by the command and by the interface") {
  const DeviceHandle& device = shared_device();
  const std::vector<std::string> texts = {words_for(20), words_for(40) + " " + words_for(31)};
  size_t embedded = 0;
  for (const std::string& name : turns_of(fixtures().models(), 9)) {
    CAPTURE(name);
    const TemporaryFolder folder;
    write_word_folder(folder, name);
    const auto file = ModelFile::open(folder.path());
    if (!file.ok() || !EmbedderPlan::of_texts(*file, {}).ok()) continue; // by both
    const std::string path = folder.path().string();
    const Vectors printed = printed_vectors(path, texts);
    CHECK(printed.size() == texts.size());
    CHECK(given_vectors(device.get(), path, texts) == printed);
    ++embedded;
  }
  CHECK(embedded > (every_case() ? 40 : 4));
}

TEST_CASE("embed: models that ship are read by both, or by neither") {
  const DeviceHandle& device = shared_device();
  const std::vector<std::string> texts = {"Once upon a time", "the 3rd of March 2021"};
  for (const char* name : {"stories-2m.gguf", "chat-2m.gguf", "dates"}) {
    CAPTURE(std::string(name));
    const std::string path = (pretrained_folder() / name).string();
    const Vectors printed = printed_vectors(path, texts);
    CHECK(printed.empty() == (std::string(name) == "dates"));
    CHECK(given_vectors(device.get(), path, texts) == printed);
  }
  const ModelHandle for_text = load(device.get());
  CHECK(!make_embedder(for_text.get())); // a decoder that was loaded to go on with texts
}

TEST_CASE("embed: the folder's settings and the options count alike") {
  const TemporaryFolder folder;
  REQUIRE(BertFolder().write(folder));
  const std::string path = folder.path().string();
  const DeviceHandle& device = shared_device();
  const std::vector<std::string> texts = {"the quick brown fox", "fox"};
  const auto same = [&](const pumice_embedder_options& options, const std::vector<std::string>& more) {
    const Vectors printed = printed_vectors(path, texts, more);
    REQUIRE(printed.size() == texts.size());
    CHECK(given_vectors(device.get(), path, texts, options) == printed);
    return printed;
  };
  const Vectors mean = same({}, {});
  for (const char* part : {"1_Pooling", "2_Dense"}) std::filesystem::create_directories(folder.path() / part);
  folder.write("1_Pooling/config.json", R"({"pooling_mode_cls_token": true})");
  const Vectors cls = same({}, {});
  CHECK(cls != mean);
  pumice_embedder_options options = {};
  options.pooling = "mean";
  CHECK(same(options, {"--pooling", "mean"}) == mean);

  folder.write(
      "config_sentence_transformers.json",
      R"({"prompts": {"query": "what is ", "document": "this is "}, "default_prompt_name": "document"})");
  const Vectors prompted = same({}, {});
  CHECK(prompted != cls);
  options = {};
  options.prompt = "query";
  CHECK(same(options, {"--prompt", "query"}) != prompted);
  options = {};
  options.prefix = "this is ";
  CHECK(same(options, {"--prefix", "this is "}) == prompted);
  options = {};
  options.prompt = "passage";
  CHECK(given_vectors(device.get(), path, texts, options).empty());
  CHECK(printed_vectors(path, texts, {"--prompt", "passage"}).empty());

  const uint32_t hidden = BertFolder::hidden;
  std::vector<float> weight(size_t{5} * hidden), bias = {1, 2, 3, 4, 5};
  for (size_t i = 0; i < weight.size(); ++i) weight[i] = static_cast<float>(i % 7) - 3;
  folder.write(
      "2_Dense/config.json",
      R"({"in_features": 32, "out_features": 5, "activation_function": "torch.nn.modules.activation.Tanh"})");
  const SafetensorsFile::Entry entries[] = {
      {"linear.weight", "F32", {5, hidden}, std::as_bytes(std::span(weight))},
      {"linear.bias", "F32", {5}, std::as_bytes(std::span(bias))}};
  REQUIRE(write_safetensors(folder.path() / "2_Dense" / "model.safetensors", entries).ok());
  folder.write("modules.json",
               R"([{"type": "sentence_transformers.models.Transformer", "path": ""},
                   {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"},
                   {"type": "sentence_transformers.models.Dense", "path": "2_Dense"}])");
  const Vectors dense = same({}, {});
  REQUIRE(dense[0].size() == 5);
  options = {};
  options.dimensions = 3;
  options.normalize = 1;
  CHECK(same(options, {"--dimensions", "3", "--normalize", "yes"})[0].size() == 3);
  options.normalize = -1;
  CHECK(same(options, {"--dimensions", "3", "--normalize", "no"})[0][0] == dense[0][0]);
  options.dimensions = 6;
  CHECK(given_vectors(device.get(), path, texts, options).empty());

  folder.write("sentence_bert_config.json", R"({"max_seq_length": 4})");
  same({}, {});
  options = {};
  options.max_tokens = 3;
  same(options, {"--max-tokens", "3"});
  const ModelHandle model = load(device.get(), path);
  size_t cut_texts = 9;
  embed(make_embedder(model.get(), options).get(), texts, &cut_texts);
  CHECK(cut_texts == 2); // a prompt takes three tokens and more
}

TEST_CASE("embed: pictures have the same vectors, and texts in their space") {
  const DeviceHandle& device = shared_device();
  for (const std::string name : {"clip", "siglip", "vit", "dinov2", "beit"}) {
    CAPTURE(name);
    const TemporaryFolder folder;
    write_word_folder(folder, name);
    const std::string path = folder.path().string(), file = (folder.path() / "a.png").string();
    Image image{32, 32, std::vector<uint8_t>(32 * 32 * 3)};
    for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = static_cast<uint8_t>(i * i * 31);
    REQUIRE(write_png(image, file).ok());
    const bool with_texts = name == "clip" || name == "siglip";
    const ModelHandle model = load_for(device.get(), path, PUMICE_FOR_TEXT, with_texts);
    REQUIRE(model);
    for (const uint32_t dimensions : {0u, 4u}) {
      pumice_embedder_options options = {};
      options.dimensions = dimensions;
      const EmbedderHandle embedder = make_embedder(model.get(), options);
      REQUIRE(embedder);
      std::vector<std::string> arguments = {"embed", path, "--image", file};
      if (dimensions) arguments.insert(arguments.end(), {"--dimensions", "4"});
      const std::vector<json> printed = printed_objects(arguments);
      REQUIRE(printed.size() == 1);
      pumice_picture picture = {sizeof picture};
      picture.pixels = image.pixels.data();
      picture.width = picture.height = 32;
      std::vector<float> values(pumice_embedder_columns(embedder.get()));
      pumice_error error;
      require_ok(pumice_embedder_embed_pictures(embedder.get(), &picture, 1, values.data(), &error), error);
      CHECK(same_in_any_step(printed[0]["embedding"].get<std::vector<float>>(), values));
      const char* text = "w5 w6";
      const bool read =
          pumice_embedder_embed(embedder.get(), &text, 1, values.data(), nullptr, &error) == PUMICE_OK;
      CHECK(read == with_texts);
    }
  }
}
