#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "support/files/byte_writer.h"
#include "support/files/special_token.h"
#include "support/files/temporary_folder.h"

// A small model that gives a script for an answer, whatever it was asked: what a family of models writes, and
// how its answer arrives. Each piece of the script is a token, which makes the next one certain; any other
// token makes the first. Marks of the template are tokens of their own.
class Parrot {
public:
  Parrot(std::string_view script, const std::string& chat_template, std::vector<std::string> marks = {},
         const std::string& end = "<|im_end|>") {
    for (int byte = 0; byte < 256; ++byte)
      tokens_.push_back(spelled(std::string(1, static_cast<char>(byte))));
    if (std::ranges::find(marks, end) == marks.end()) marks.push_back(end);
    first_mark_ = tokens_.size();
    tokens_.insert(tokens_.end(), marks.begin(), marks.end());
    cut(script);
    end_ = id_of(end);
    script_.push_back(end_);
    write_settings(chat_template, end);
    write_tokenizer(marks.size());
    write_weights();
  }

  std::string path() const { return folder_.path().string(); }

private:
  // GPT-2's characters for bytes.
  static std::string spelled(std::string_view bytes) {
    std::string text;
    for (const char c : bytes) {
      const auto byte = static_cast<uint8_t>(c);
      const auto prints = [](int value) {
        return (value >= 33 && value <= 126) || (value >= 161 && value <= 172) || value >= 174;
      };
      int number = byte;
      if (!prints(byte)) {
        number = 256;
        for (int before = 0; before < byte; ++before) number += !prints(before);
      }
      if (number < 0x80) {
        text += static_cast<char>(number);
      } else {
        text += {static_cast<char>(0xC0 | number >> 6), static_cast<char>(0x80 | (number & 0x3F))};
      }
    }
    return text;
  }

  uint32_t id_of(const std::string& token) const {
    return static_cast<uint32_t>(std::ranges::find(tokens_, token) - tokens_.begin());
  }

  // Marks, and between them the shortest pieces that no other token is. What is left before a mark belongs to
  // the piece before it.
  void cut(std::string_view script) {
    const std::vector<std::string> marks(tokens_.begin() + static_cast<ptrdiff_t>(first_mark_),
                                         tokens_.end());
    std::string piece;
    bool after_piece = false;
    const auto end_text = [&] {
      if (!piece.empty() && after_piece) tokens_.back() += piece;
      if (!piece.empty() && !after_piece) script_.push_back(id_of(piece));
      piece.clear();
      after_piece = false;
    };
    while (!script.empty()) {
      const auto mark =
          std::ranges::find_if(marks, [&](const std::string& each) { return script.starts_with(each); });
      if (mark != marks.end()) {
        end_text();
        script_.push_back(id_of(*mark));
        script.remove_prefix(mark->size());
        continue;
      }
      piece += spelled(script.substr(0, 1));
      script.remove_prefix(1);
      if (std::ranges::find(tokens_, piece) != tokens_.end()) continue;
      script_.push_back(static_cast<uint32_t>(tokens_.size()));
      tokens_.push_back(std::exchange(piece, {}));
      after_piece = true;
    }
    end_text();
  }

  void write_settings(const std::string& chat_template, const std::string& end) const {
    const nlohmann::json config = {{"architectures", {"LlamaForCausalLM"}},
                                   {"model_type", "llama"},
                                   {"hidden_size", width()},
                                   {"intermediate_size", 32},
                                   {"num_hidden_layers", 1},
                                   {"num_attention_heads", width() / 32},
                                   {"num_key_value_heads", width() / 32},
                                   {"max_position_embeddings", 2048},
                                   {"vocab_size", tokens_.size()},
                                   {"rms_norm_eps", 1e-5},
                                   {"hidden_act", "silu"},
                                   {"tie_word_embeddings", false},
                                   {"eos_token_id", end_}};
    folder_.write("config.json", config.dump());
    folder_.write("tokenizer_config.json",
                  nlohmann::json{{"chat_template", chat_template}, {"eos_token", end}}.dump());
  }

  void write_tokenizer(size_t marks) const {
    nlohmann::json tokenizer = {
        {"version", "1.0"},
        {"added_tokens", nlohmann::json::array()},
        {"normalizer", nullptr},
        {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
        {"post_processor", nullptr},
        {"decoder", {{"type", "ByteLevel"}}},
        {"model", {{"type", "BPE"}, {"merges", nlohmann::json::array()}}}};
    for (size_t id = 0; id < tokens_.size(); ++id) {
      const bool mark = id >= first_mark_ && id < first_mark_ + marks;
      if (!mark) {
        tokenizer["model"]["vocab"][tokens_[id]] = id;
        continue;
      }
      tokenizer["added_tokens"].push_back(special_token(id, tokens_[id]));
    }
    folder_.write("tokenizer.json", tokenizer.dump());
  }

  // An embedding is where in the script its token stands, and a row of the head where the token before it
  // does.
  void write_weights() const {
    const size_t d = width(), vocabulary = tokens_.size();
    std::vector<float> embedding(vocabulary * d), head(vocabulary * d);
    for (size_t id = 0; id < vocabulary; ++id) embedding[id * d] = 1;
    for (size_t at = 0; at < script_.size(); ++at) {
      float* row = &embedding[script_[at] * d];
      row[0] = 0;
      row[at + 1] = 1;
      head[script_[at] * d + at] = 8;
    }
    float* end = &embedding[end_ * d]; // begins the script again
    std::fill_n(end, d, 0.0f);
    end[0] = 1;
    struct Tensor {
      std::string name;
      std::array<size_t, 2> shape; // of a vector the first is 0
      const std::vector<float>* values = nullptr;
    };
    const std::string layer = "model.layers.0.";
    std::vector<Tensor> tensors = {{"model.embed_tokens.weight", {vocabulary, d}, &embedding},
                                   {"lm_head.weight", {vocabulary, d}, &head},
                                   {"model.norm.weight", {0, d}},
                                   {layer + "input_layernorm.weight", {0, d}},
                                   {layer + "post_attention_layernorm.weight", {0, d}},
                                   {layer + "mlp.gate_proj.weight", {32, d}},
                                   {layer + "mlp.up_proj.weight", {32, d}},
                                   {layer + "mlp.down_proj.weight", {d, 32}}};
    for (const char* name : {"q", "k", "v", "o"})
      tensors.push_back({layer + "self_attn." + name + "_proj.weight", {d, d}});
    nlohmann::json header;
    ByteWriter data;
    for (const Tensor& tensor : tensors) {
      const bool norm = tensor.shape[0] == 0;
      const size_t begin = data.size(), count = tensor.shape[1] * (norm ? 1 : tensor.shape[0]);
      const std::vector<float> plain(tensor.values ? 0 : count, norm ? 1.0f : 0.0f);
      data.raw(std::as_bytes(std::span(tensor.values ? *tensor.values : plain)));
      header[tensor.name] = {{"dtype", "F32"}, {"data_offsets", {begin, data.size()}}};
      header[tensor.name]["shape"] = norm ? nlohmann::json{d} : nlohmann::json(tensor.shape);
    }
    const std::string text = header.dump();
    ByteWriter file;
    file.number(uint64_t{text.size()}).text(text).raw(data.bytes());
    folder_.write("model.safetensors", file.bytes());
  }

  size_t width() const { return (script_.size() + 1 + 31) / 32 * 32; }

  TemporaryFolder folder_;
  std::vector<std::string> tokens_;
  size_t first_mark_ = 0;
  uint32_t end_ = 0;
  std::vector<uint32_t> script_; // tokens
};
