#pragma once

#include <cctype>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "support/files/fixtures.h"
#include "support/files/word_folder.h"
#include "support/picture_prompts.h"
#include "support/require.h"
#include "support/session.h"
#include "support/vulkan/gpu.h"

// What tests of decoders that see have in common.
namespace picture_tests {

// The text of a fixture's prompt as a person writes it: the ids that stand for its picture are one mark.
inline std::string prompt_text(const Answers& answers, uint32_t first, const std::string& mark) {
  std::string text;
  bool shown = false;
  for (const uint32_t id : answers.ids("input_ids", 0)) {
    if (id >= first && shown) continue;
    shown = shown || id >= first;
    text += (text.empty() ? "" : " ") + (id >= first ? mark : word(id));
  }
  return text;
}

struct SpecialWord {
  uint32_t id;
  const char* text;

  bool is_number() const { return std::isdigit(static_cast<unsigned char>(text[0])) != 0; }
};

// The fixture with words for its tokens, and these special tokens among them.
inline void write_vision_folder(const TemporaryFolder& folder, const std::string& name,
                                const std::vector<SpecialWord>& special) {
  write_word_folder(folder, name);
  nlohmann::json tokenizer = nlohmann::json::parse(std::ifstream(folder.path() / "tokenizer.json"));
  for (const SpecialWord& each : special) {
    tokenizer["model"]["vocab"].erase(word(each.id));
    tokenizer["model"]["vocab"][each.text] = each.id;
    nlohmann::json token = tokenizer["added_tokens"][0];
    token["id"] = each.id;
    token["content"] = each.text;
    token["single_word"] = each.is_number(); // not within words
    tokenizer["added_tokens"].push_back(token);
  }
  folder.write("tokenizer.json", tokenizer.dump());
  std::filesystem::copy_file(fixtures().model(name) / "preprocessor_config.json",
                             folder.path() / "preprocessor_config.json");
}

// The first tokens after a prompt.
inline std::vector<uint32_t> answer_to(const std::shared_ptr<const Model>& model, const PicturePrompt& prompt,
                                       size_t count) {
  SessionOptions options;
  options.size.cache = CacheType::f32;
  options.size.chunk = 8;
  const auto session = require(Session::create(model, options));
  REQUIRE(session->set_prompt(prompt.tokens, {}, {}, prompt.embeddings).ok());
  return take(*session, count);
}

// Logits of all tokens in steps of several sizes, and the text that follows.
inline void check_answers(const std::shared_ptr<const Model>& model, const PicturePrompt& prompt,
                          const Answers& answers) {
  const std::vector<float> logits = logits_of(model, prompt, 256);
  CHECK(relative_rms(logits, answers.floats.at("logits")) <= 1e-4);
  for (uint32_t chunk : {1u, 7u}) {
    CAPTURE(chunk);
    const std::vector<float> in_steps = logits_of(model, prompt, chunk);
    CHECK(relative_rms(in_steps, answers.floats.at("logits")) <= 1e-4);
    if (TestGpu::get().profile.cpu) CHECK(in_steps == logits);
  }
  const std::vector<uint32_t> expected = answers.ids("generated_ids", 0);
  for (uint32_t chunk : {7u, 256u}) {
    SessionOptions options;
    options.size.chunk = chunk;
    options.size.cache = CacheType::f32;
    const auto batch = require(Batch::create(model, options));
    CHECK(continue_prompt(*batch, prompt, static_cast<uint32_t>(expected.size())) == expected);
  }
}

// The reference's pixels, but for a few that PIL rounds the other way.
inline void check_pixels(std::span<const float> found, std::span<const float> expected) {
  REQUIRE(found.size() == expected.size());
  constexpr float level = 2.0f / 255; // of pixels from -1 to 1
  size_t others = 0;
  float worst = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    const float difference = std::abs(found[i] - expected[i]);
    worst = std::max(worst, difference);
    if (difference > 1e-5f) ++others;
  }
  CHECK(worst <= 1.01f * level);
  CHECK(others <= found.size() / 1000);
}

} // namespace picture_tests
