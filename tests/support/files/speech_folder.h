#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "support/files/fixtures.h"
#include "support/files/random_model.h"
#include "support/files/special_token.h"
#include "support/files/temporary_folder.h"

// A small llama with random weights and a vocabulary of the tokens that OuteTTS 1.0 speaks with, most of
// which are codes of DAC's fixture; that is the folder's "codec".
class SpeechFolder {
public:
  static constexpr uint32_t codebooks = 2, codes = 16;

  SpeechFolder() {
    for (const char* word : {"<unk>", "good", "morning", "the", "fox"}) vocabulary_.push_back(word);
    for (const char* special :
         {"<|im_start|>", "<|im_end|>", "<|text_start|>", "<|text_end|>", "<|audio_start|>", "<|audio_end|>",
          "<|word_start|>", "<|word_end|>", "<|features|>", "<|code|>"})
      vocabulary_.push_back(special);
    for (uint32_t codebook = 1; codebook <= codebooks; ++codebook) {
      for (uint32_t code = 0; code <= codes; ++code) // one more than the codec has
        vocabulary_.push_back(fmt::format("<|c{}_{}|>", codebook, code));
    }
    vocabulary_.resize(64);
    write_random_model(folder_, {{"architectures", {"LlamaForCausalLM"}},
                                 {"model_type", "llama"},
                                 {"hidden_act", "silu"},
                                 {"hidden_size", 64},
                                 {"intermediate_size", 128},
                                 {"num_hidden_layers", 2},
                                 {"num_attention_heads", 4},
                                 {"num_key_value_heads", 2},
                                 {"max_position_embeddings", 1024},
                                 {"rms_norm_eps", 1e-5},
                                 {"eos_token_id", id("<|im_end|>")},
                                 {"tie_word_embeddings", false},
                                 {"vocab_size", vocabulary_.size()}});
    folder_.write("tokenizer.json", tokenizer().dump());
    std::filesystem::create_directory(codec());
    for (const char* name : {"config.json", "model.safetensors"})
      std::filesystem::copy_file(fixtures().model("dac") / name, codec() / name);
  }

  const std::filesystem::path& path() const { return folder_.path(); }
  std::filesystem::path codec() const { return path() / "codec"; }
  uint32_t id(const std::string& token) const {
    return static_cast<uint32_t>(std::ranges::find(vocabulary_, token) - vocabulary_.begin());
  }
  // Code `code` of a codebook, counted from 0.
  uint32_t code(uint32_t codebook, uint32_t code) const {
    return id(fmt::format("<|c{}_{}|>", codebook + 1, code));
  }
  // The tokens that end a sound, and those beyond the vocabulary that is spelled.
  std::vector<uint32_t> unwanted() const {
    std::vector<uint32_t> ids = {id("<|im_end|>"), id("<|audio_end|>")};
    for (uint32_t each = 0; each < vocabulary_.size(); ++each)
      if (vocabulary_[each].empty()) ids.push_back(each);
    return ids;
  }

private:
  nlohmann::json tokenizer() const {
    nlohmann::json made = word_tokenizer();
    for (uint32_t each = 0; each < vocabulary_.size(); ++each) {
      if (vocabulary_[each].empty()) continue;
      made["model"]["vocab"][vocabulary_[each]] = each;
      if (vocabulary_[each].starts_with('<'))
        made["added_tokens"].push_back(special_token(each, vocabulary_[each]));
    }
    return made;
  }

  TemporaryFolder folder_;
  std::vector<std::string> vocabulary_; // by id; empty: a token that is not spelled
};
