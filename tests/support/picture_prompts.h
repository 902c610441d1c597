#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "generate/picture_prompt.h"
#include "media/image.h"
#include "shaders/embedding/prompt_rows.params.h"
#include "speech/prepared_sound.h"
#include "step/batch.h"
#include "step/encoder.h"
#include "step/picture_rows.h"
#include "support/command/answers.h"
#include "support/model.h"

// A picture of these sizes; tools/fixtures.py has the same.
inline pumice::Image patterned_picture(uint32_t height, uint32_t width) {
  pumice::Image image{width, height, std::vector<uint8_t>(size_t{height} * width * 3)};
  for (uint64_t i = 0; i < image.pixels.size(); ++i)
    image.pixels[i] = static_cast<uint8_t>((i * i * 7 + i * 13) % 251);
  return image;
}

namespace picture_tests {

using namespace pumice;

inline std::unique_ptr<Encoder> make_encoder(const std::shared_ptr<const Model>& model,
                                             const std::string& readable, uint32_t inputs) {
  EncoderOptions options;
  options.inputs = inputs;
  options.tokens = model->shape().encoder->context * inputs;
  options.readable = {readable};
  auto encoder = Encoder::create(model, options);
  if (!encoder.ok()) FAIL(encoder.error().text());
  return std::move(*encoder);
}

inline std::vector<float> read(Encoder& encoder, const std::string& name, size_t input) {
  auto values = encoder.read(name, input);
  if (!values.ok()) FAIL(values.error().text());
  return *values;
}

inline void encode(Encoder& encoder, std::span<const EncoderInput> inputs) {
  const auto ranges = encoder.encode(inputs);
  if (!ranges.ok()) FAIL(ranges.error().text());
  for (const InputRange& range : *ranges) encoder.release(range);
}

inline std::vector<EncoderInput> values_of(const Answers& answers, const char* name) {
  std::vector<EncoderInput> inputs(answers.shapes.at(name)[0]);
  for (size_t i = 0; i < inputs.size(); ++i) {
    inputs[i].values.assign(answers.row(name, i).begin(), answers.row(name, i).end());
  }
  return inputs;
}

inline std::shared_ptr<const Model> load_pictures(const std::filesystem::path& path) {
  LoadOptions options;
  options.tower = Tower::pictures;
  return load_model(path, options);
}

// The same of pictures in patches.
inline std::vector<EncoderInput> patched_pictures_of(const Answers& answers, const EncoderShape& shape) {
  const std::vector<float>& values = answers.floats.at("pixel_values");
  std::vector<EncoderInput> pictures;
  size_t next = 0;
  for (size_t i = 0; i < answers.shapes.at("image_grid_thw")[0]; ++i) {
    const std::vector<uint32_t> grid = answers.ids("image_grid_thw", i); // frames, height, width
    EncoderInput& picture = pictures.emplace_back();
    picture.grid = {grid[1], grid[2]};
    const size_t count = size_t{grid[1]} * grid[2] * shape.input_values();
    picture.values.assign(values.begin() + static_cast<ptrdiff_t>(next),
                          values.begin() + static_cast<ptrdiff_t>(next + count));
    next += count;
  }
  return pictures;
}

// The windows of the sounds of a fixture's prompt.
inline std::vector<EncoderInput> windows_of(const Answers& answers, const EncoderShape& shape) {
  if (shape.kind == InputKind::samples) {
    std::vector<EncoderInput> sounds = values_of(answers, "audio_16khz");
    for (EncoderInput& sound : sounds) sound = sound_input(std::move(sound.values), shape);
    return sounds;
  }
  std::vector<EncoderInput> windows = values_of(answers, "input_features");
  SoundPreparation preparation{{}, *shape.sound_windows};
  preparation.spectrum.samples = shape.input_shape[1] * preparation.spectrum.hop;
  for (size_t i = 0; i < windows.size(); ++i) {
    const std::vector<uint32_t> mask = answers.ids("feature_attention_mask", i);
    const auto frames = mask.empty() ? shape.input_shape[1] : std::ranges::count(mask, 1u);
    windows[i] = preparation.input(std::move(windows[i].values), static_cast<uint32_t>(frames));
  }
  return windows;
}

// The pictures of a fixture's prompt, whatever their tensor's shape, or the windows of its sounds.
inline std::vector<EncoderInput> pictures_of(const Answers& answers, const EncoderShape& shape) {
  if (shape.sound_windows) return windows_of(answers, shape);
  const std::vector<float>& values = answers.floats.at("pixel_values");
  if (shape.patch_groups) return patched_pictures_of(answers, shape);
  std::vector<EncoderInput> pictures(values.size() / shape.input_values());
  for (size_t i = 0; i < pictures.size(); ++i) {
    const auto first = values.begin() + static_cast<ptrdiff_t>(i * shape.input_values());
    pictures[i].values.assign(first, first + static_cast<ptrdiff_t>(shape.input_values()));
  }
  return pictures;
}

// The rows of a fixture's pictures, in its prompt.
inline PicturePrompt picture_prompt(const std::filesystem::path& path, const Answers& answers,
                                    const PictureTokens& shape) {
  const auto encoder = make_encoder(load_pictures(path), PictureTokens::features, 1);
  const size_t columns = encoder->columns(PictureTokens::features);
  std::vector<std::vector<float>> pictures;
  std::vector<PatchGrid> grids;
  for (const EncoderInput& input : pictures_of(answers, encoder->shape())) {
    encode(*encoder, std::span(&input, 1));
    pictures.push_back(rows_of_picture(shape, encoder->shape(), input.grid,
                                       read(*encoder, PictureTokens::features, 0), columns));
    grids.push_back(input.grid);
  }
  auto prompt = with_pictures(shape, answers.ids("input_ids", 0), pictures, "input_ids", grids);
  if (!prompt.ok()) FAIL(prompt.error().text());
  return *prompt;
}

inline bool is_picture_row(uint32_t token) {
  return (token & PROMPT_ROW) != 0;
}

// The logits of all rows of a prompt, in steps of `chunk`, or more where a picture has to be in one step.
inline std::vector<float> logits_of(const std::shared_ptr<const Model>& model, const PicturePrompt& prompt,
                                    uint32_t chunk) {
  RunnerOptions options;
  const PictureTokens& shape = *model->shape().pictures;
  options.size.chunk = chunk + (shape.bidirectional ? shape.rows : 0);
  options.size.cache = CacheType::f32;
  options.size.context = static_cast<uint32_t>(prompt.tokens.size());
  options.sampling = false;
  options.all_outputs = true;
  options.readable = {"logits"};
  auto runner = Runner::create(model, options);
  if (!runner.ok()) FAIL(runner.error().text());
  const size_t columns = prompt.embeddings->values.size() /
                         static_cast<size_t>(std::ranges::count_if(
                             prompt.tokens, [](uint32_t token) { return (token & PROMPT_ROW) != 0; }));
  const RotaryPlaces places =
      shape.has_places() ? RotaryPlaces(prompt.tokens, prompt.embeddings->grids) : RotaryPlaces();
  REQUIRE((*runner)->set_place_lag(0, places.lag()).ok());
  std::vector<float> logits;
  size_t number = 0;
  uint32_t count = 0;
  for (size_t begin = 0; begin < prompt.tokens.size(); begin += count) {
    count = static_cast<uint32_t>(std::min<size_t>(chunk, prompt.tokens.size() - begin));
    const auto in_picture = [&](size_t at) {
      return at < prompt.tokens.size() && is_picture_row(prompt.tokens[at]);
    };
    while (shape.bidirectional && in_picture(begin + count) && in_picture(begin + count - 1)) ++count;
    std::vector<StepToken> rows;
    for (uint32_t i = 0; i < count; ++i) {
      rows.push_back({prompt.tokens[begin + i], static_cast<uint32_t>(begin + i), 0, 0, true});
      const RotaryPlaces::Place place = places.at(begin + i);
      rows.back().position_offset = places.lag() - place.lag;
      rows.back().down = place.down;
      rows.back().across = place.across;
    }
    for (uint32_t i = count; shape.bidirectional && i-- > 0;) {
      if (!is_picture_row(rows[i].token)) continue;
      const bool more = i + 1 < count && is_picture_row(rows[i + 1].token);
      rows[i].end = more ? rows[i + 1].end : rows[i].position + 1;
    }
    if (const Status status = (*runner)->write_step(rows); !status.ok()) FAIL(status.error().text());
    for (uint32_t i = 0; i < count; ++i) {
      if ((rows[i].token & PROMPT_ROW) == 0) continue;
      REQUIRE((*runner)
                  ->write_input(count, i,
                                std::span(prompt.embeddings->values).subspan(number++ * columns, columns))
                  .ok());
    }
    REQUIRE((*runner)->submit(count).ok());
    const std::vector<float> part = *(*runner)->read("logits", count);
    logits.insert(logits.end(), part.begin(), part.end());
  }
  return logits;
}

inline std::vector<uint32_t> continue_prompt(Batch& batch, const PicturePrompt& prompt, uint32_t count) {
  SequenceRequest request;
  request.prompt = prompt.tokens;
  request.embeddings = prompt.embeddings;
  request.max_tokens = count;
  request.sampling.temperature = 0;
  const auto added = batch.add(std::move(request));
  if (!added.ok()) FAIL(added.error().text());
  std::vector<uint32_t> ids;
  while (batch.sequences() > 0) {
    const auto tokens = batch.step();
    if (!tokens.ok()) FAIL(tokens.error().text());
    for (const BatchToken& token : *tokens) ids.push_back(token.token);
  }
  return ids;
}

} // namespace picture_tests
