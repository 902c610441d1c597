// Models of LLaMA's mathematics under other names: a fixture that is written as they are gives the same.
#include <cstring>
#include <fstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "io/formats/safetensors.h"
#include "support/command/command.h"
#include "support/files/converted.h"
#include "support/files/fixtures.h"
#include "support/files/temporary_folder.h"
#include "support/model.h"
#include "support/vulkan/gpu.h"

using namespace pumice;
using nlohmann::json;

namespace {

const std::vector<uint32_t> ids = {3, 17, 99, 250, 8, 8, 41};

json read_config(const std::filesystem::path& folder) {
  return json::parse(std::ifstream(folder / "config.json"));
}

using Names = std::vector<std::pair<const char*, const char*>>;

const Names internlm_names = {{"embed_tokens", "tok_embeddings"},       {"input_layernorm", "attention_norm"},
                              {"post_attention_layernorm", "ffn_norm"}, {"mlp.gate_proj", "feed_forward.w1"},
                              {"mlp.up_proj", "feed_forward.w3"},       {"mlp.down_proj", "feed_forward.w2"},
                              {"self_attn.o_proj", "attention.wo"},     {"lm_head", "output"}};
const Names chatglm_names = {{"model.embed_tokens", "transformer.embedding.word_embeddings"},
                             {"model.layers", "transformer.encoder.layers"},
                             {"model.norm", "transformer.encoder.final_layernorm"},
                             {"lm_head", "transformer.output_layer"},
                             {"self_attn.o_proj", "self_attention.dense"},
                             {"mlp.gate_up_proj", "mlp.dense_h_to_4h"},
                             {"mlp.down_proj", "mlp.dense_4h_to_h"}};

std::string renamed(std::string name, const Names& names) {
  for (const auto& [own, other] : names) {
    if (const size_t at = name.find(own); at != std::string::npos) name.replace(at, std::strlen(own), other);
  }
  return name;
}

// The LLaMA fixture as InternLM 2's files have it: for each head of keys its queries, its key and its value.
void write_internlm2(const TemporaryFolder& folder, const std::filesystem::path& source) {
  json config = read_config(source);
  const size_t kv_heads = config["num_key_value_heads"],
               group = config["num_attention_heads"].get<size_t>() / kv_heads;
  config["model_type"] = "internlm2";
  config["bias"] = false;
  folder.write("config.json", config.dump());
  const auto file = require(SafetensorsFile::open(source / "model.safetensors"));
  std::map<std::string, SafetensorsFile::Entry> all;
  for (const SafetensorsFile::Entry& entry : file.entries) all.emplace(entry.name, entry);
  std::vector<std::vector<std::byte>> fused;
  fused.reserve(all.size());
  std::vector<SafetensorsFile::Entry> entries;
  for (const auto& [name, entry] : all) {
    if (name.ends_with("k_proj.weight") || name.ends_with("v_proj.weight")) continue;
    SafetensorsFile::Entry own = entry;
    own.name = renamed(name, internlm_names);
    if (const size_t at = name.find("self_attn.q_proj"); at != std::string::npos) {
      const std::string layer = name.substr(0, at);
      const std::span<const std::byte> q = entry.data, k = all.at(layer + "self_attn.k_proj.weight").data,
                                       v = all.at(layer + "self_attn.v_proj.weight").data;
      const size_t head = k.size() / kv_heads;
      std::vector<std::byte>& rows = fused.emplace_back();
      for (size_t i = 0; i < kv_heads; ++i) {
        for (const auto part : {q.subspan(i * group * head, group * head), k.subspan(i * head, head),
                                v.subspan(i * head, head)})
          rows.insert(rows.end(), part.begin(), part.end());
      }
      own = {
          layer + "attention.wqkv.weight", "F32", {rows.size() / 4 / entry.shape[1], entry.shape[1]}, rows};
    }
    entries.push_back(own);
  }
  require(write_safetensors(folder.path() / "model.safetensors", entries));
}

// The GLM fixture as ChatGLM's files have it: all queries, then all keys and all values.
void write_chatglm(const TemporaryFolder& folder, const std::filesystem::path& source) {
  const json config = read_config(source);
  const json own = {{"model_type", "chatglm"},
                    {"hidden_size", config["hidden_size"]},
                    {"num_layers", config["num_hidden_layers"]},
                    {"num_attention_heads", config["num_attention_heads"]},
                    {"multi_query_attention", true},
                    {"multi_query_group_num", config["num_key_value_heads"]},
                    {"kv_channels", config["head_dim"]},
                    {"ffn_hidden_size", config["intermediate_size"]},
                    {"padded_vocab_size", config["vocab_size"]},
                    {"seq_length", config["max_position_embeddings"]},
                    {"layernorm_epsilon", config["rms_norm_eps"]},
                    {"rope_ratio", config["rope_parameters"]["rope_theta"].get<double>() / 10000},
                    {"add_qkv_bias", true},
                    {"add_bias_linear", false}};
  folder.write("config.json", own.dump());
  const auto file = require(SafetensorsFile::open(source / "model.safetensors"));
  std::map<std::string, std::vector<std::byte>> fused;
  std::vector<SafetensorsFile::Entry> entries;
  for (const char* part : {"q_proj", "k_proj", "v_proj"}) {
    for (const SafetensorsFile::Entry& entry : file.entries) {
      if (entry.name.find(part) == std::string::npos) continue;
      std::vector<std::byte>& rows =
          fused[renamed(renamed(entry.name, {{"self_attn.", "self_attention."}, {part, "query_key_value"}}),
                        chatglm_names)];
      rows.insert(rows.end(), entry.data.begin(), entry.data.end());
    }
  }
  const size_t hidden = config["hidden_size"];
  for (const auto& [name, rows] : fused) {
    std::vector<uint64_t> shape = {rows.size() / 4};
    if (name.ends_with("weight")) shape = {rows.size() / 4 / hidden, hidden};
    entries.push_back({name, "F32", shape, rows});
  }
  for (SafetensorsFile::Entry entry : file.entries) {
    if (renamed(entry.name, {{"q_proj", ""}, {"k_proj", ""}, {"v_proj", ""}}) != entry.name) continue;
    entry.name = renamed(entry.name, chatglm_names);
    entries.push_back(entry);
  }
  require(write_safetensors(folder.path() / "model.safetensors", entries));
}

} // namespace

TEST_CASE("ChatGLM's own files give what GLM gives, and so does the GGUF file that convert writes") {
  const std::filesystem::path source = fixtures().model("glm");
  const auto expected = forward(load_model(source), ids, 7);
  const TemporaryFolder folder;
  write_chatglm(folder, source);
  CHECK(forward(load_model(folder.path()), ids, 7) == expected);
  const std::filesystem::path gguf = folder.path() / "model.gguf";
  (void)convert_to(gguf, folder.path(), TensorType::f32);
  CHECK(require(ModelFile::open(gguf)).architecture() == "chatglm");
  CHECK(relative_rms(forward(load_model(gguf), ids, 7), expected) <= 1e-6);
}

TEST_CASE("InternLM 2 gives what LLaMA gives, from its folder and from the GGUF file that convert writes") {
  const std::filesystem::path source = fixtures().model("llama-gqa");
  const auto expected = forward(load_model(source), ids, 7);
  const TemporaryFolder folder;
  write_internlm2(folder, source);
  const auto model = load_model(folder.path());
  CHECK(forward(model, ids, 7) == expected);
  CHECK(forward(model, ids, 1) == forward(load_model(source), ids, 1));
  const std::filesystem::path gguf = folder.path() / "model.gguf";
  (void)convert_to(gguf, folder.path(), TensorType::f32);
  CHECK(require(ModelFile::open(gguf)).architecture() == "internlm2");
  CHECK(relative_rms(forward(load_model(gguf), ids, 7), expected) <= 1e-6);
}

TEST_CASE(
    "MiMo is Qwen 2 beside layers that predict further tokens; dynamic scaling starts beyond the context") {
  const std::filesystem::path source = fixtures().model("qwen2");
  const TemporaryFolder folder;
  json config = read_config(source);
  config["model_type"] = "mimo";
  config["num_nextn_predict_layers"] = 1;
  config["rope_parameters"]["rope_type"] = "dynamic";
  config["rope_parameters"]["factor"] = 2.0;
  folder.write("config.json", config.dump());
  const auto file = require(SafetensorsFile::open(source / "model.safetensors"));
  std::vector<SafetensorsFile::Entry> entries = file.entries;
  const std::vector<std::byte> zeros(4 * 8);
  entries.push_back({"model.mtp_layers.0.input_layernorm.weight", "F32", {8}, zeros});
  require(write_safetensors(folder.path() / "model.safetensors", entries));
  CHECK(forward(load_model(folder.path()), ids, 7) == forward(load_model(source), ids, 7));
}
