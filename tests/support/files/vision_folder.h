#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "media/image.h"
#include "support/files/temporary_folder.h"
#include "support/files/word_folder.h"

inline std::string file_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The fixture of a model that sees, with words for its tokens, one of them for pictures, and a template. As
// LLaVA's, it reads contents as lists of parts, and pictures come first.
inline void write_vision_folder(const TemporaryFolder& folder) {
  constexpr const char* chat_template =
      "{% for m in messages %}{{ 'w4 ' if m.role == 'user' else 'w6 ' }}"
      "{% for p in m.content | selectattr('type', 'equalto', 'image') %}<image> {% endfor %}"
      "{% for p in m.content | selectattr('type', 'equalto', 'text') %}{{ p.text + ' ' }}{% endfor %}"
      "{% endfor %}{% if add_generation_prompt %}w6{% endif %}";
  write_word_folder(folder, "llava");
  nlohmann::json changed = nlohmann::json::parse(file_text(folder.path() / "tokenizer.json"));
  changed["model"]["vocab"].erase(word(319));
  changed["model"]["vocab"]["<image>"] = 319;
  nlohmann::json token = changed["added_tokens"][0];
  token["id"] = 319;
  token["content"] = "<image>";
  changed["added_tokens"].push_back(token);
  folder.write("tokenizer.json", changed.dump());
  folder.write("chat_template.json", nlohmann::json{{"chat_template", chat_template}}.dump());
}

// A picture of the size that the fixture reads.
inline pumice::Image small_picture(uint32_t seed) {
  pumice::Image image{32, 32, std::vector<uint8_t>(32 * 32 * 3)};
  for (size_t i = 0; i < image.pixels.size(); ++i)
    image.pixels[i] = static_cast<uint8_t>((i * i + seed) * 31);
  return image;
}

inline std::string write_picture(const TemporaryFolder& folder, const char* name, uint32_t seed) {
  const std::filesystem::path path = folder.path() / name;
  REQUIRE(pumice::write_png(small_picture(seed), path).ok());
  return path.string();
}
