#pragma once

#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "io/formats/safetensors.h"
#include "support/files/fixtures.h"
#include "support/files/temporary_folder.h"

// A small BERT of random weights with the tokenizer of a fixture: 900 tokens, of which text is made.
struct BertFolder {
  uint32_t labels = 0; // of a sequence classification; 0: no head
  uint32_t context = 64;
  uint32_t vocabulary = 900;
  bool masked = false; // with the head of a masked language model

  static constexpr uint32_t hidden = 32, feed_forward = 48, heads = 4, layers = 2;

  // Its parts in a folder that is there already. False where they cannot be written.
  bool write(const TemporaryFolder& folder) const {
    nlohmann::json config = {{"model_type", "bert"},
                             {"vocab_size", vocabulary},
                             {"hidden_size", hidden},
                             {"intermediate_size", feed_forward},
                             {"num_attention_heads", heads},
                             {"num_hidden_layers", layers},
                             {"max_position_embeddings", context},
                             {"type_vocab_size", 2},
                             {"layer_norm_eps", 1e-12},
                             {"hidden_act", "gelu"},
                             {"pad_token_id", 0}};
    for (uint32_t i = 0; i < labels; ++i) config["id2label"][std::to_string(i)] = "L" + std::to_string(i);
    folder.write("config.json", config.dump());
    std::error_code error;
    std::filesystem::copy_file(fixtures().tokenizer("bert-uncased") / "tokenizer.json",
                               folder.path() / "tokenizer.json", error);
    return !error && write_weights(folder.path() / "model.safetensors");
  }

private:
  using Shapes = std::map<std::string, std::vector<uint64_t>>;

  Shapes shapes() const {
    Shapes shapes = {{"embeddings.word_embeddings.weight", {vocabulary, hidden}},
                     {"embeddings.position_embeddings.weight", {context, hidden}},
                     {"embeddings.token_type_embeddings.weight", {2, hidden}}};
    add_norm(shapes, "embeddings.LayerNorm");
    for (uint32_t layer = 0; layer < layers; ++layer) {
      const std::string at = "encoder.layer." + std::to_string(layer) + ".";
      for (const char* name :
           {"attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"}) {
        add_linear(shapes, at + name, hidden, hidden);
      }
      add_norm(shapes, at + "attention.output.LayerNorm");
      add_linear(shapes, at + "intermediate.dense", feed_forward, hidden);
      add_linear(shapes, at + "output.dense", hidden, feed_forward);
      add_norm(shapes, at + "output.LayerNorm");
    }
    add_linear(shapes, "pooler.dense", hidden, hidden);
    if (labels) add_linear(shapes, "classifier", labels, hidden);
    if (masked) {
      add_linear(shapes, "cls.predictions.transform.dense", hidden, hidden);
      add_norm(shapes, "cls.predictions.transform.LayerNorm");
      shapes["cls.predictions.bias"] = {vocabulary};
    }
    return shapes;
  }
  static void add_norm(Shapes& shapes, const std::string& name) {
    shapes[name + ".weight"] = shapes[name + ".bias"] = {hidden};
  }
  static void add_linear(Shapes& shapes, const std::string& name, uint64_t rows, uint64_t columns) {
    shapes[name + ".weight"] = {rows, columns};
    shapes[name + ".bias"] = {rows};
  }

  bool write_weights(const std::filesystem::path& path) const {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    std::vector<std::vector<float>> values;
    std::vector<pumice::SafetensorsFile::Entry> entries;
    for (const auto& [name, shape] : shapes()) {
      const bool norm = name.find("LayerNorm.weight") != std::string::npos;
      const uint64_t columns = shape.back(), count = shape.size() == 2 ? shape[0] * columns : columns;
      std::vector<float>& own = values.emplace_back(count);
      for (float& value : own) value = (norm ? 1.0f : 0.0f) + 0.2f * normal(random);
      entries.push_back({name, "F32", shape, std::as_bytes(std::span(own))});
    }
    return pumice::write_safetensors(path, entries).ok();
  }
};
