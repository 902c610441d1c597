#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "convert/conversion.h"
#include "support/files/fixtures.h"
#include "support/files/special_token.h"
#include "support/files/temporary_folder.h"
#include "support/require.h"
#include "support/vision_models.h"

// Models that see in GGUF: a file of the text model, and llama.cpp's file of the encoder of its pictures.
namespace picture_tests {

inline VisionModel llava() {
  return {"llava",
          {{319, "<image>"}},
          319,
          "<image>",
          [](const PictureGrid&) { return std::vector<uint32_t>{319}; },
          {patterned_picture(32, 32)}};
}

// A fixture with a vocabulary that GGUF has a form of: bytes, and the special tokens.
inline void write_byte_folder(const TemporaryFolder& folder, const VisionModel& model) {
  const std::filesystem::path from = fixtures().model(model.name);
  for (const char* name :
       {"config.json", "generation_config.json", "preprocessor_config.json", "model.safetensors"}) {
    if (std::filesystem::exists(from / name)) std::filesystem::copy_file(from / name, folder.path() / name);
  }
  std::vector<std::string> tokens(320);
  nlohmann::json added = nlohmann::json::array();
  const auto add = [&](uint32_t id, const std::string& text) {
    tokens[id] = text;
    added.push_back(special_token(id, text));
  };
  add(0, "<unk>");
  add(1, "<s>");
  add(2, "</s>");
  for (const SpecialWord& each : model.special)
    if (!each.is_number()) add(each.id, each.text); // which is bytes here
  nlohmann::json vocabulary = nlohmann::json::object();
  uint32_t next_odd = 256; // characters for the bytes that are none themselves
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool printed = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
    const uint32_t character = printed ? byte : next_odd++;
    std::string& text = tokens[3 + byte];
    if (character < 128) {
      text += static_cast<char>(character);
    } else {
      text += static_cast<char>(0xC0 | character >> 6);
      text += static_cast<char>(0x80 | (character & 63));
    }
  }
  for (uint32_t id = 0; id < 320; ++id)
    vocabulary[tokens[id].empty() ? "unused" + std::to_string(id) : tokens[id]] = id;
  const nlohmann::json bytes = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  folder.write("tokenizer.json", nlohmann::json{{"version", "1.0"},
                                                {"added_tokens", added},
                                                {"normalizer", nullptr},
                                                {"pre_tokenizer", bytes},
                                                {"post_processor", nullptr},
                                                {"decoder", bytes},
                                                {"model",
                                                 {{"type", "BPE"},
                                                  {"unk_token", nullptr},
                                                  {"vocab", vocabulary},
                                                  {"merges", nlohmann::json::array()}}}}
                                     .dump());
  folder.write("chat_template.jinja",
               "{% for m in messages %}{{ m.role }}: "
               "{% for p in m.content | selectattr('type', 'equalto', '" +
                   std::string(model.kind) + "') %}" + model.place +
                   "{% endfor %}{% for p in m.content | selectattr('type', 'equalto', 'text') %}{{ p.text }}"
                   "{% endfor %}\n{% endfor %}");
}

// Converts the folder's model, or the encoder of its pictures.
inline void convert(const std::filesystem::path& folder, const std::filesystem::path& to, Tower tower,
                    TensorType type = TensorType::f32) {
  const ModelFile file = require(ModelFile::open(folder));
  const std::unique_ptr<ModelDefinition> definition = require(open_model_definition(file, tower));
  ConversionOptions options;
  options.mixture = require(find_mixture(info(type).name));
  require(convert_to_gguf(file, *definition, to, options, {}));
}

// A fixture's folder, and its two GGUF files in another one.
struct PicturePair {
  VisionModel fixture;
  TemporaryFolder folder, converted;
  std::string text = (converted.path() / "model.gguf").string();
  std::string mmproj = (converted.path() / "mmproj-model.gguf").string();

  explicit PicturePair(VisionModel of, TensorType type = TensorType::f32,
                       std::string_view tokenizer_config = "{}")
      : fixture(std::move(of)) {
    write_byte_folder(folder, fixture);
    folder.write("tokenizer_config.json", tokenizer_config);
    convert(folder.path(), text, Tower::main);
    convert(folder.path(), mmproj, Tower::pictures, type);
  }

  Result<ModelFile> open() const { return open_pair(text, mmproj); }

  static Result<ModelFile> open_pair(const std::string& text, const std::string& mmproj) {
    PUMICE_TRY(ModelFile file, ModelFile::open(text));
    PUMICE_TRY(ModelFile pictures, ModelFile::open(mmproj));
    PUMICE_CHECK(file.attach_mmproj(std::move(pictures)));
    return file;
  }

  // The pictures of the fixture's prompt as files.
  std::vector<std::string> pictures() const {
    std::vector<std::string> paths;
    for (const Image& image : fixture.pictures) {
      paths.push_back((folder.path() / ("picture" + std::to_string(paths.size()) + ".png")).string());
      require(write_png(image, paths.back()));
    }
    return paths;
  }
};

} // namespace picture_tests
