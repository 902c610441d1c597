#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "support/command/answers.h"
#include "support/files/fixtures.h"
#include "support/picture_answers.h"
#include "support/picture_prompts.h"
#include "text/chat/picture_markup.h"

// The fixtures of models that each prepare pictures in a way of their own.
namespace picture_tests {

struct VisionModel {
  const char* name; // of the fixture
  std::vector<SpecialWord> special;
  uint32_t first;    // of the tokens that stand for pictures, or around them
  const char* place; // of a picture in a template
  // What a prompt has for a picture that is cut like this, with the picture's token once for each part.
  std::vector<uint32_t> (*shown)(const PictureGrid& grid);
  std::vector<Image> pictures; // of the fixture's prompt
  const char* kind = "image";  // of parts of messages
};

// Of Qwen's models, whose pictures are patches.
inline VisionModel qwen_vl(const char* name) {
  return {name,
          {{310, "<|vision_start|>"}, {311, "<|vision_end|>"}, {319, "<|image_pad|>"}},
          310,
          "<|vision_start|><|image_pad|><|vision_end|>",
          [](const PictureGrid&) {
            return std::vector<uint32_t>{310, 319, 311};
          },
          {patterned_picture(29, 61), patterned_picture(17, 33)}};
}

inline VisionModel glm4v(const char* name = "glm4v") {
  VisionModel model = qwen_vl(name);
  model.special = {{310, "<|begin_of_image|>"}, {311, "<|end_of_image|>"}, {319, "<|image|>"}};
  model.place = "<|begin_of_image|><|image|><|end_of_image|>";
  return model;
}

// In their own proportions; the second one is tall.
inline VisionModel gemma4_vision(const char* name) {
  return {name,
          {{310, "<|image>"}, {311, "<image|>"}, {319, "<|image|>"}},
          310,
          "<|image|>",
          [](const PictureGrid&) {
            return std::vector<uint32_t>{310, 319, 311};
          },
          {patterned_picture(29, 61), patterned_picture(33, 17)}};
}

inline VisionModel qwen2_5_vl() {
  return qwen_vl("qwen2-5-vl");
}

inline VisionModel gemma3_vision() {
  return {"gemma3-vision",
          {{310, "<start_of_image>"}, {311, "<end_of_image>"}, {319, "<image_soft_token>"}},
          310,
          "<start_of_image>",
          [](const PictureGrid&) {
            return std::vector<uint32_t>{310, 319, 311};
          },
          {patterned_picture(29, 61), patterned_picture(17, 33)}};
}

// There are words for 2 rows of 3 tiles.
inline VisionModel smolvlm() {
  return {"smolvlm",
          {{311, "<fake_token_around_image>"},
           {312, "<global-img>"},
           {313, "<row_1_col_1>"},
           {314, "<row_1_col_2>"},
           {315, "<row_1_col_3>"},
           {316, "<row_2_col_1>"},
           {317, "<row_2_col_2>"},
           {318, "<row_2_col_3>"},
           {319, "<image>"}},
          311,
          "<image>",
          [](const PictureGrid& grid) {
            std::vector<uint32_t> tokens;
            for (uint32_t row = 0; row < grid.rows; ++row)
              for (uint32_t column = 0; column < grid.columns; ++column)
                tokens.insert(tokens.end(), {311, 313 + 3 * row + column, 319});
            tokens.insert(tokens.end(), {311, 312, 319, 311});
            return tokens;
          },
          {patterned_picture(29, 61)}};
}

// 318 ends a line of a picture, 317 the last one.
inline std::vector<uint32_t> lines_of_picture(const PictureGrid& grid) {
  std::vector<uint32_t> tokens;
  for (uint32_t line = 1; line <= grid.lines; ++line) {
    tokens.insert(tokens.end(), grid.line, 319);
    tokens.push_back(line < grid.lines ? 318 : 317);
  }
  return tokens;
}

inline VisionModel in_lines(const char* fixture) {
  return {fixture,          {{317, "[IMG_END]"}, {318, "[IMG_BREAK]"}, {319, "[IMG]"}}, 317, "[IMG]",
          lines_of_picture, {patterned_picture(29, 61), patterned_picture(17, 33)}};
}
inline VisionModel mistral3_vision() {
  return in_lines("mistral3-vision");
}
inline VisionModel pixtral() { // in a folder of LLaVA
  return in_lines("pixtral");
}

inline VisionModel lighton_ocr() {
  return {"lighton-ocr",
          {{319, "<|image_pad|>"}},
          319,
          "<|image_pad|>",
          [](const PictureGrid&) { return std::vector<uint32_t>{319}; },
          {patterned_picture(29, 61), patterned_picture(17, 33)}};
}

// One picture in tiles, and one that is a tile itself.
inline VisionModel internvl() {
  return {"internvl",
          {{317, "<img>"}, {318, "</img>"}, {319, "<IMG_CONTEXT>"}},
          317,
          "<IMG_CONTEXT>",
          [](const PictureGrid& grid) {
            std::vector<uint32_t> tokens(grid.pictures() + 2, 319);
            tokens.front() = 317;
            tokens.back() = 318;
            return tokens;
          },
          {patterned_picture(29, 61), patterned_picture(23, 25)}};
}

// A picture in slices, which has one line of them, and one without. Before each is its number.
inline VisionModel minicpm_v() {
  return {"minicpm-v",
          {{310, "<image>"},
           {311, "</image>"},
           {312, "<slice>"},
           {313, "</slice>"},
           {314, "<image_id>"},
           {315, "</image_id>"},
           {316, "0"},
           {317, "1"},
           {319, "<|image_pad|>"}},
          310,
          "<|image_pad|>",
          [](const PictureGrid& grid) {
            std::vector<uint32_t> tokens = {314, 316, 315, 310, 319, 311};
            for (uint32_t slice = 0; slice < grid.rows * grid.columns; ++slice)
              tokens.insert(tokens.end(), {312, 319, 313});
            return tokens;
          },
          {patterned_picture(29, 61), patterned_picture(17, 33)}};
}

// A picture in tiles, of which the whole has another size, and one without.
inline VisionModel deepseek_ocr2() {
  return {"deepseek-ocr2",
          {{319, "<image>"}},
          319,
          "<image>",
          [](const PictureGrid& grid) { return std::vector<uint32_t>(grid.pictures(), 319); },
          {patterned_picture(29, 61), patterned_picture(23, 17)}};
}

// Models that hear.
inline VisionModel voxtral() {
  return {
      "voxtral",
      {{315, "[INST]"}, {316, "[/INST]"}, {317, "[TRANSCRIBE]"}, {318, "[BEGIN_AUDIO]"}, {319, "[AUDIO]"}},
      318,
      "[BEGIN_AUDIO][AUDIO]",
      [](const PictureGrid& grid) {
        std::vector<uint32_t> tokens(grid.pictures() + 1, 319);
        tokens.front() = 318;
        return tokens;
      },
      {},
      "audio"};
}
inline VisionModel qwen2_audio() {
  return {"qwen2-audio",
          {{317, "<|audio_bos|>"}, {318, "<|audio_eos|>"}, {319, "<|AUDIO|>"}},
          317,
          "<|audio_bos|><|AUDIO|><|audio_eos|>",
          [](const PictureGrid&) {
            return std::vector<uint32_t>{317, 319, 318};
          },
          {},
          "audio"};
}

// The text of the fixture's prompt as a template writes it.
inline std::string text_of_prompt(const Answers& answers, const VisionModel& model) {
  std::string text;
  bool in_picture = false;
  for (const uint32_t id : answers.ids("input_ids", 0)) {
    const bool shows = id >= model.first;
    if (!shows) text += word(id) + " ";
    if (shows && !in_picture) text += std::string(model.place) + " ";
    in_picture = shows;
  }
  return text;
}

// The fixture with words for its tokens, and a template that shows a message's pictures before its words.
inline void write_vision_folder(const TemporaryFolder& folder, const VisionModel& model) {
  write_vision_folder(folder, model.name, model.special);
  folder.write("chat_template.jinja",
               "{% for m in messages %}{{ 'w4 ' if m.role == 'user' else 'w6 ' }}"
               "{% for p in m.content | selectattr('type', 'equalto', '" +
                   std::string(model.kind) + "') %}" + model.place +
                   " {% endfor %}"
                   "{% for p in m.content | selectattr('type', 'equalto', 'text') %}{{ p.text + ' ' }}"
                   "{% endfor %}{% endfor %}{% if add_generation_prompt %}w6{% endif %}");
}

} // namespace picture_tests
