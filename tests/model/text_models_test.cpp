// Folders of models that also see, made of fixtures: they run as their text models.
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "io/formats/safetensors.h"
#include "model/architecture.h"
#include "support/command/command.h"
#include "support/files/fixtures.h"
#include "support/files/temporary_folder.h"
#include "support/in_turn.h"
#include "support/model.h"
#include "support/require.h"

using namespace pumice;
using nlohmann::json;

namespace {

// How a published folder names its text model and what is beside it.
struct Layout {
  std::string stack, head;         // in place of "model." and "lm_head."
  std::vector<std::string> others; // tensors that a text model has not
};

const Layout inside = {"model.language_model.",
                       "lm_head.",
                       {"model.visual.patch_embed.proj.weight", "model.visual.blocks.0.attn.qkv.weight"}};
const Layout beside = {
    "language_model.model.",
    "language_model.lm_head.",
    {"vision_tower.vision_model.embeddings.patch_embedding.weight", "multi_modal_projector.linear_1.weight"}};
const Layout idefics = {
    "model.text_model.", "lm_head.", {"model.vision_model.embeddings.patch_embedding.weight"}};

struct Family {
  const char* fixture;
  const char* model_type; // of the whole
  const char* text_type;  // of text_config
  const char* architecture;
  Layout layout;
};

const Family families[] = {
    {"gemma3", "gemma3", "gemma3_text", "Gemma3ForConditionalGeneration", beside},
    {"gemma3", "gemma3", "gemma3_text", "Gemma3ForConditionalGeneration", inside},
    {"gemma4", "gemma4", "gemma4_text", "Gemma4ForConditionalGeneration", inside},
    {"gemma4-moe", "gemma4", "gemma4_text", "Gemma4ForConditionalGeneration", inside},
    {"llama4", "llama4", "llama4_text", "Llama4ForConditionalGeneration", beside},
    {"ministral3", "mistral3", "ministral3", "Mistral3ForConditionalGeneration", beside},
    {"mistral-swa", "llava_next", "mistral", "LlavaNextForConditionalGeneration", beside},
    {"qwen3-5", "qwen3_5", "qwen3_5_text", "Qwen3_5ForConditionalGeneration", inside},
    {"qwen3-5-moe", "qwen3_5_moe", "qwen3_5_moe_text", "Qwen3_5MoeForConditionalGeneration", inside},
    {"qwen3-5", "minicpmv4_6", "qwen3_5_text", "MiniCPMV4_6ForConditionalGeneration", inside},
    {"qwen2", "qwen2_5_vl", "qwen2_5_vl_text", "Qwen2_5_VLForConditionalGeneration", inside},
    {"qwen3", "internvl", "qwen3", "InternVLForConditionalGeneration", beside},
    {"qwen3", "qwen3_vl", "qwen3_vl_text", "Qwen3VLForConditionalGeneration", inside},
    {"qwen3-moe", "qwen3_vl_moe", "qwen3_vl_moe_text", "Qwen3VLMoeForConditionalGeneration", inside},
    {"glm4", "glm4v", "glm4v_text", "Glm4vForConditionalGeneration", inside},
    {"glm4-moe", "glm4v_moe", "glm4v_moe_text", "Glm4vMoeForConditionalGeneration", inside},
    {"lfm2", "lfm2_vl", "lfm2", "Lfm2VlForConditionalGeneration", inside},
    {"cohere2", "cohere2_vision", "cohere2", "Cohere2VisionForConditionalGeneration", beside},
    {"granite", "llava_next", "granite", "LlavaNextForConditionalGeneration", beside},
    {"llama-gqa", "idefics3", "llama", "Idefics3ForConditionalGeneration", idefics},
    {"deepseek-v3", "kimi_vl", "deepseek_v3", "KimiVLForConditionalGeneration", beside},
    {"gemma3n", "gemma3n", "gemma3n_text", "Gemma3nForConditionalGeneration", inside},
};

std::string inside_name(std::string name, const Layout& layout) {
  if (name.starts_with("model.language_model.")) name = "model." + name.substr(21); // the fixture's own
  if (name.starts_with("model.")) return layout.stack + name.substr(6);
  if (name.starts_with("lm_head.")) return layout.head + name.substr(8);
  return name;
}

json read_json(const std::filesystem::path& path) {
  std::ifstream stream(path);
  return json::parse(stream);
}

// The folder as it would be published.
void write_folder(const TemporaryFolder& folder, const Family& family) {
  const std::filesystem::path source = fixtures().model(family.fixture);
  json text = read_json(source / "config.json");
  if (text.contains("text_config")) text = json(text["text_config"]);
  json config = {{"architectures", {family.architecture}},
                 {"model_type", family.model_type},
                 {"image_token_id", 5},
                 {"mm_tokens_per_image", 4},
                 {"vision_config",
                  {{"model_type", "siglip_vision_model"},
                   {"hidden_size", 8},
                   {"num_attention_heads", 2},
                   {"image_size", 32},
                   {"patch_size", 8}}}};
  // These are named beside the text model's settings.
  for (const char* name : {"tie_word_embeddings", "eos_token_id"}) {
    if (!text.contains(name)) continue;
    config[name] = text[name];
    text.erase(name);
  }
  text.erase("architectures");
  text["model_type"] = family.text_type;
  const std::string_view type = family.model_type;
  if (type.starts_with("qwen") || type == "glm4v") { // equal places in a text: they change nothing
    const double dim = text.value("head_dim", 16) * text.value("partial_rotary_factor", 1.0);
    const auto pairs = static_cast<int>(dim / 2), third = pairs / 3;
    text["rope_parameters"]["mrope_section"] = {pairs - 2 * third, third, third};
  }
  config["text_config"] = text;
  folder.write("config.json", std::string_view(config.dump()));
  const ModelFile file = require(ModelFile::open(source));
  std::vector<SafetensorsFile::Entry> entries;
  std::vector<std::byte> zeros(4 * 8);
  for (const TensorView& tensor : file.tensors()) {
    entries.push_back({inside_name(tensor.name, family.layout), std::string(info(tensor.type).name),
                       tensor.shape, tensor.data});
  }
  for (const std::string& name : family.layout.others) entries.push_back({name, "F32", {2, 4}, zeros});
  entries.push_back({"mtp.layers.0.input_layernorm.weight", "F32", {8}, zeros});
  entries.push_back({"vision_tower.position_ids", "I64", {4}, zeros});
  require(write_safetensors(folder.path() / "model.safetensors", entries));
}

// Logits are the same bits, unless rows of pictures are added between layers: there a norm is no part of the
// product before it, and its squares are summed in another order.
void check_same(const std::vector<float>& found, const std::vector<float>& expected, bool same_bits) {
  if (same_bits) {
    CHECK(found == expected);
    return;
  }
  REQUIRE(found.size() == expected.size());
  float largest = 0, difference = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    difference = std::max(difference, std::abs(found[i] - expected[i]));
  }
  CHECK(difference < 1e-5f * largest);
}

} // namespace

// Each family is loaded, and every third computes, and those that add rows of pictures to several layers; in
// a long run each does.
FIXTURE_TEST_CASE("a model that also sees runs as its text model, and what is left out is named") {
  size_t turn = 0;
  for (const Family& family : families) {
    CAPTURE(family.architecture);
    CAPTURE(family.fixture);
    const bool other_set = &fixtures() != &fixture_sets().front(); // which has fewer
    if (other_set && !std::filesystem::exists(fixtures().model(family.fixture))) continue;
    const TemporaryFolder folder;
    write_folder(folder, family);
    const std::vector<uint32_t> ids = {3, 17, 99, 250, 8, 8, 41};
    const auto alone = load_model(fixtures().model(family.fixture)), whole = load_model(folder.path());
    const bool deep = whole->shape().pictures && whole->shape().pictures->deep_layers > 0;
    if (takes(turn++ % 3 == 0 || deep)) check_same(forward(whole, ids, 7), forward(alone, ids, 7), !deep);
    CHECK(whole->shape().context == alone->shape().context);

    const CommandResult result = pumice_command({"inspect", folder.path().string(), "--json"});
    REQUIRE(result.status == 0);
    const json report = json::parse(result.out);
    std::vector<std::string> left = family.layout.others;
    left.insert(left.end(), {"mtp.layers.0.input_layernorm.weight", "vision_tower.position_ids"});
    for (const std::string& name : left) {
      CAPTURE(name);
      CHECK(std::ranges::count(report["tensors_left_out"], json(name)) == 1);
    }
    // Nothing else, but what the fixture itself has too much.
    const json own =
        json::parse(pumice_command({"inspect", fixtures().model(family.fixture).string(), "--json"}).out);
    CHECK(report["tensors_left_out"].size() == left.size() + own["tensors_left_out"].size());
  }
}

FIXTURE_TEST_CASE("an error about a tensor of a text model inside another names it as the file does") {
  const TemporaryFolder folder;
  const Family& family = families[0];
  write_folder(folder, family);
  json config = read_json(folder.path() / "config.json");
  config["text_config"]["hidden_size"] = 96;
  folder.write("config.json", std::string_view(config.dump()));
  const auto loaded = Model::load(folder.path(), test_context());
  REQUIRE_FALSE(loaded.ok());
  CHECK(loaded.error().message.find("language_model.model.embed_tokens.weight") != std::string::npos);
  config["text_config"]["model_type"] = "unheard_of";
  config["model_type"] = "unheard_of_too";
  folder.write("config.json", std::string_view(config.dump()));
  const auto unknown = Model::load(folder.path(), test_context());
  REQUIRE_FALSE(unknown.ok());
  CHECK(unknown.error().message.find("unheard_of_too") != std::string::npos);
}
