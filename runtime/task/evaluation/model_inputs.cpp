#include "task/evaluation/model_inputs.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "speech/prepared_sound.h"

namespace pumice {

namespace {

Status check_same_shape(const IdTable& table, const IdTable& other, const std::string& name) {
  if (table.rows == other.rows && table.columns == other.columns) return {};
  return Error{Code::invalid_file,
               fmt::format("{}: expected the shape of {}, [{}, {}]; found [{}, {}]", table.source, name,
                           other.rows, other.columns, table.rows, table.columns)};
}

// Reads a tensor of the same shape as `ids`. If the file does not have it, every element is `fallback`.
Result<IdTable> read_beside(const SafetensorsFile& file, const std::string& path, const std::string& name,
                            const IdTable& ids, const std::string& ids_name, int64_t fallback) {
  IdTable table = ids;
  std::ranges::fill(table.values, fallback);
  if (!file.find(name)) return table;
  PUMICE_TRY(table, read_table(file, path, name));
  PUMICE_CHECK(check_same_shape(table, ids, ids_name));
  return table;
}

// The elements of a table at `places`. Each must be below `limit`.
Result<std::vector<std::vector<uint32_t>>> pick(const IdTable& table, const Unpadded& places, uint32_t limit,
                                                const char* kind) {
  std::vector<std::vector<uint32_t>> picked(places.rows.size());
  for (size_t row = 0; row < places.rows.size(); ++row) {
    for (uint64_t column : places.rows[row]) {
      const int64_t value = table.values[row * table.columns + column];
      if (value < 0 || value >= limit) {
        return Error{Code::invalid_argument,
                     fmt::format("{}: element [{}, {}] is {}, and the ids of the {} are 0 to {}",
                                 table.source, row, column, value, kind, limit - 1)};
      }
      picked[row].push_back(static_cast<uint32_t>(value));
    }
  }
  return picked;
}

Result<EncoderBatch> read_token_inputs(const SafetensorsFile& file, const std::string& path,
                                       const EncoderShape& shape) {
  PUMICE_TRY(TokenBatch tokens, read_tokens(file, path, "input_ids", "attention_mask", shape.vocabulary));
  EncoderBatch batch{std::move(tokens.source), std::move(tokens.places), {}};
  batch.inputs.resize(tokens.ids.size());
  for (size_t row = 0; row < batch.inputs.size(); ++row)
    batch.inputs[row].tokens = std::move(tokens.ids[row]);
  if (!file.find("token_type_ids")) return batch;
  PUMICE_TRY(const IdTable ids, read_table(file, path, "input_ids"));
  PUMICE_TRY(const IdTable table, read_beside(file, path, "token_type_ids", ids, "input_ids", 0));
  PUMICE_TRY(auto types, pick(table, batch.places, shape.token_types, "token types"));
  for (size_t row = 0; row < types.size(); ++row) batch.inputs[row].token_types = std::move(types[row]);
  return batch;
}

// Reads sound samples: [batch, samples], or [samples] for a single sound. A sound is at most a window long.
Result<EncoderBatch> read_sounds(const SafetensorsFile::Entry& entry, const std::string& path,
                                 const EncoderShape& shape) {
  EncoderBatch batch{fmt::format("{}: tensor '{}'", path, entry.name), {}, {}};
  const std::vector<uint64_t>& dims = entry.shape;
  if (dims.empty() || dims.size() > 2 || dims[0] == 0 || dims.back() == 0) {
    return Error{Code::invalid_file, fmt::format("{}: expected the shape [batch, samples]; found [{}]",
                                                 batch.source, fmt::join(dims, ", "))};
  }
  const Result<std::vector<float>> values = SafetensorsFile::floats(entry);
  if (!values.ok()) {
    return Error{values.error().code,
                 fmt::format("{}: expected numbers (F32); found {}", batch.source, entry.dtype)};
  }
  const auto length = static_cast<ptrdiff_t>(dims.back());
  for (auto first = values->begin(); first != values->end(); first += length) {
    batch.inputs.emplace_back().values.assign(first, first + length);
  }
  const bool frames = shape.kind == InputKind::samples;
  if (frames &&
      (dims.back() > shape.input_values() || shape.frames(static_cast<uint32_t>(dims.back())) == 0)) {
    return Error{Code::invalid_argument,
                 fmt::format("{}: a sound of {} samples; the model reads at most {}, and no fewer than its "
                             "convolutions span",
                             batch.source, dims.back(), shape.input_values())};
  }
  std::vector<uint64_t> all(frames ? shape.frames(static_cast<uint32_t>(dims.back())) : shape.context);
  std::iota(all.begin(), all.end(), 0);
  batch.places = {all.size(), std::vector(batch.inputs.size(), all)};
  batch.samples = !frames;
  return batch;
}

// The values of a tensor, which has this shape or one that is as large: one input for each row, or a single
// one without the batch dimension.
Result<EncoderBatch> read_values(const SafetensorsFile::Entry& entry, const std::string& path,
                                 const EncoderShape& shape, std::vector<uint64_t> dims) {
  EncoderBatch batch{fmt::format("{}: tensor '{}'", path, entry.name), {}, {}};
  if (dims.size() == shape.input_shape.size()) dims.insert(dims.begin(), 1);
  if (dims.size() != shape.input_shape.size() + 1 || dims[0] == 0 ||
      !std::equal(dims.begin() + 1, dims.end(), shape.input_shape.begin())) {
    return Error{Code::invalid_argument,
                 fmt::format("{}: expected the shape [batch, {}]; found [{}]", batch.source,
                             fmt::join(shape.input_shape, ", "), fmt::join(entry.shape, ", "))};
  }
  const Result<std::vector<float>> values = SafetensorsFile::floats(entry);
  if (!values.ok()) {
    return Error{values.error().code,
                 fmt::format("{}: expected numbers (F32); found {}", batch.source, entry.dtype)};
  }
  std::vector<uint64_t> all(shape.context);
  std::iota(all.begin(), all.end(), 0);
  batch.places = {shape.context, std::vector(dims[0], all)};
  for (uint64_t row = 0; row < dims[0]; ++row) {
    const auto first = values->begin() + static_cast<ptrdiff_t>(row * shape.input_values());
    batch.inputs.emplace_back().values.assign(first, first + shape.input_values());
  }
  return batch;
}

// Reads pictures or sound features: one for each row, or a single one without the batch dimension.
Result<EncoderBatch> read_value_inputs(const SafetensorsFile& file, const std::string& path,
                                       const EncoderShape& shape) {
  if (shape.kind == InputKind::samples) {
    const SafetensorsFile::Entry* sound = file.find("input_values");
    if (!sound) {
      PUMICE_TRY(sound, find_tensor(file, path, "audio_16khz", "samples [batch, samples]"));
    }
    return read_sounds(*sound, path, shape);
  }
  const std::string name = shape.kind == InputKind::pixels ? "pixel_values" : "input_features";
  const std::string expected = fmt::format("[batch, {}]", fmt::join(shape.input_shape, ", "));
  if (shape.kind == InputKind::features && !file.find(name)) {
    if (const SafetensorsFile::Entry* sound = file.find("audio_16khz")) {
      return read_sounds(*sound, path, shape);
    }
  }
  PUMICE_TRY(const SafetensorsFile::Entry* entry,
             find_tensor(file, path, name, "numbers of shape " + expected));
  return read_values(*entry, path, shape, entry->shape);
}

} // namespace

Result<const SafetensorsFile::Entry*> find_tensor(const SafetensorsFile& file, const std::string& path,
                                                  const std::string& name, const std::string& expected) {
  if (const SafetensorsFile::Entry* entry = file.find(name)) return entry;
  std::string found;
  for (const SafetensorsFile::Entry& each : file.entries) found += (found.empty() ? "" : ", ") + each.name;
  return Error{Code::not_found, fmt::format("{}: there is no tensor '{}', which holds {}; the file has {}",
                                            path, name, expected, found.empty() ? "no tensors" : found)};
}

Result<IdTable> read_table(const SafetensorsFile& file, const std::string& path, const std::string& name) {
  IdTable table;
  table.source = fmt::format("{}: tensor '{}'", path, name);
  PUMICE_TRY(const SafetensorsFile::Entry* entry,
             find_tensor(file, path, name, "whole numbers of shape [batch, tokens]"));
  if (entry->shape.empty() || entry->shape.size() > 2) {
    return Error{Code::invalid_file, fmt::format("{}: expected the shape [batch, tokens]; found [{}]",
                                                 table.source, fmt::join(entry->shape, ", "))};
  }
  table.rows = entry->shape.size() == 2 ? entry->shape[0] : 1;
  table.columns = entry->shape.back();
  if (table.rows == 0 || table.columns == 0) {
    return Error{Code::invalid_file,
                 fmt::format("{}: it is empty: expected at least one token; found the shape [{}]",
                             table.source, fmt::join(entry->shape, ", "))};
  }
  Result<std::vector<int64_t>> values = SafetensorsFile::integers(*entry);
  if (!values.ok()) {
    return Error{values.error().code,
                 fmt::format("{}: expected whole numbers (I64); found {}", table.source, entry->dtype)};
  }
  table.values = *std::move(values);
  return table;
}

uint64_t Unpadded::longest() const {
  uint64_t longest = 0;
  for (const std::vector<uint64_t>& row : rows) longest = std::max<uint64_t>(longest, row.size());
  return longest;
}

Result<TokenBatch> read_tokens(const SafetensorsFile& file, const std::string& path, const std::string& name,
                               const std::string& mask_name, uint32_t vocabulary) {
  PUMICE_TRY(const IdTable table, read_table(file, path, name));
  PUMICE_TRY(const IdTable mask, read_beside(file, path, mask_name, table, name, 1));
  TokenBatch batch{table.source, {table.columns, {}}, {}};
  batch.places.rows.resize(table.rows);
  for (uint64_t i = 0; i < mask.values.size(); ++i) {
    if (mask.values[i]) batch.places.rows[i / table.columns].push_back(i % table.columns);
  }
  PUMICE_TRY(batch.ids, pick(table, batch.places, vocabulary, "vocabulary"));
  return batch;
}

namespace {

// Pictures, each with a text whose tokens begin with one for each of the picture's rows.
Result<EncoderBatch> read_pictures_with_texts(const SafetensorsFile& file, const std::string& path,
                                              const EncoderShape& shape) {
  PUMICE_TRY(EncoderBatch batch, read_value_inputs(file, path, shape));
  PUMICE_TRY(TokenBatch texts, read_tokens(file, path, "input_ids", "attention_mask", shape.vocabulary));
  const bool fits = texts.ids.size() == batch.inputs.size() &&
                    std::ranges::all_of(texts.ids, [&](const std::vector<uint32_t>& ids) {
                      return ids.size() >= shape.picture_rows;
                    });
  if (!fits) {
    return Error{
        Code::invalid_file,
        fmt::format("{}: expected a row for each of the {} pictures, which begins with {} tokens that "
                    "stand for the picture",
                    texts.source, batch.inputs.size(), shape.picture_rows)};
  }
  for (size_t i = 0; i < batch.inputs.size(); ++i)
    batch.inputs[i].tokens.assign(texts.ids[i].begin() + shape.picture_rows, texts.ids[i].end());
  batch.places = std::move(texts.places);
  return batch;
}

} // namespace

Result<EncoderBatch> read_encoder_inputs(const SafetensorsFile& file, const std::string& path,
                                         const EncoderShape& shape) {
  if (shape.kind == InputKind::tokens) return read_token_inputs(file, path, shape);
  return shape.picture_rows > 0 ? read_pictures_with_texts(file, path, shape)
                                : read_value_inputs(file, path, shape);
}

namespace {

// Patches of pictures, [patches, values of one], and the grid of each picture: [pictures, 3], of which the
// first number counts frames.
Result<EncoderBatch> read_patches(const SafetensorsFile& file, const std::string& path,
                                  const SafetensorsFile::Entry& entry, const EncoderShape& shape) {
  EncoderBatch batch{fmt::format("{}: tensor '{}'", path, entry.name), {}, {}};
  PUMICE_TRY(const IdTable grids, read_table(file, path, "image_grid_thw"));
  if (grids.columns != 3) {
    return Error{Code::invalid_file, fmt::format("{}: expected the shape [pictures, 3]; found [{}, {}]",
                                                 grids.source, grids.rows, grids.columns)};
  }
  const Result<std::vector<float>> values = SafetensorsFile::floats(entry);
  if (!values.ok()) {
    return Error{values.error().code,
                 fmt::format("{}: expected numbers (F32); found {}", batch.source, entry.dtype)};
  }
  constexpr int64_t most_edge = 1 << 20;
  size_t next = 0;
  for (uint64_t i = 0; i < grids.rows; ++i) {
    const std::span grid = std::span(grids.values).subspan(i * 3, 3);
    if (grid[0] != 1 || grid[1] < 1 || grid[2] < 1 || std::max(grid[1], grid[2]) > most_edge) {
      return Error{Code::unsupported,
                   fmt::format("{}: picture {} has a grid of {}: expected 1 frame, and edges of 1 to {}",
                               grids.source, i, fmt::join(grid, " x "), most_edge)};
    }
    EncoderInput& input = batch.inputs.emplace_back();
    input.grid = {static_cast<uint32_t>(grid[1]), static_cast<uint32_t>(grid[2])};
    const uint64_t count = input.grid.count() * shape.input_values();
    if (count > values->size() - next) break;
    const auto first = values->begin() + static_cast<ptrdiff_t>(next);
    input.values.assign(first, first + static_cast<ptrdiff_t>(count));
    next += count;
  }
  if (next == values->size() && (batch.inputs.empty() || !batch.inputs.back().values.empty())) return batch;
  return Error{Code::invalid_file,
               fmt::format("{}: expected {} numbers of each patch of the grids in {}; found {} in all",
                           batch.source, shape.input_values(), grids.source, values->size())};
}

// The features of windows of sounds. Where a sound has one window, its mask is that of the window's frames.
Result<EncoderBatch> read_sound_windows(const SafetensorsFile& file, const std::string& path,
                                        const EncoderShape& shape) {
  constexpr const char* mask_name = "feature_attention_mask";
  const uint32_t frames = shape.input_shape[1];
  PUMICE_TRY(const SafetensorsFile::Entry* entry,
             find_tensor(file, path, prompt_pictures_name(shape), "features of sounds"));
  PUMICE_TRY(EncoderBatch batch, read_values(*entry, path, shape, entry->shape));
  std::vector<uint32_t> own(batch.inputs.size(), frames);
  if (file.find(mask_name)) {
    PUMICE_TRY(const IdTable mask, read_table(file, path, mask_name));
    if (mask.rows != batch.inputs.size() || mask.columns != frames) {
      return Error{Code::invalid_file,
                   fmt::format("{}: expected the shape [{}, {}]; found [{}, {}]", mask.source,
                               batch.inputs.size(), frames, mask.rows, mask.columns)};
    }
    for (size_t i = 0; i < own.size(); ++i) {
      const auto row = mask.values.begin() + static_cast<ptrdiff_t>(i * frames);
      own[i] = static_cast<uint32_t>(std::find(row, row + frames, 0) - row);
    }
  }
  SoundPreparation preparation{{}, *shape.sound_windows};
  preparation.spectrum.samples = frames * preparation.spectrum.hop;
  for (size_t i = 0; i < own.size(); ++i)
    batch.inputs[i] = preparation.input(std::move(batch.inputs[i].values), own[i]);
  return batch;
}

// Pictures whose tiles, in pixel_values_local, have another size: num_local_patches says how many each has.
// A picture's tiles come before it.
Result<EncoderBatch> read_tiled_pictures(const SafetensorsFile& file, const std::string& path,
                                         const EncoderShape& shape) {
  constexpr const char *tiles_name = "pixel_values_local", *counts_name = "num_local_patches";
  PUMICE_TRY(EncoderBatch batch, read_value_inputs(file, path, shape));
  const SafetensorsFile::Entry* entry = file.find(tiles_name);
  if (!entry) return batch;
  const Tiling& tiling = *shape.preparation->tiling;
  EncoderShape of_tile = shape;
  of_tile.input_shape[1] = of_tile.input_shape[2] = tiling.edge;
  PUMICE_TRY(EncoderBatch tiles, read_values(*entry, path, of_tile, entry->shape));
  PUMICE_TRY(const IdTable counts, read_table(file, path, counts_name));
  std::vector<EncoderInput> all;
  size_t next = 0;
  for (size_t i = 0; i < batch.inputs.size() && i < counts.values.size(); ++i) {
    const auto count = static_cast<uint64_t>(std::max<int64_t>(counts.values[i], 0));
    for (uint64_t tile = 0; tile < count && next < tiles.inputs.size(); ++tile, ++next) {
      tiles.inputs[next].grid = tiling.tile_rows;
      all.push_back(std::move(tiles.inputs[next]));
    }
    all.push_back(std::move(batch.inputs[i]));
  }
  if (all.size() != batch.inputs.size() + tiles.inputs.size()) {
    return Error{Code::invalid_file,
                 fmt::format("{}: expected a number for each of {} pictures, {} tiles in all; found {}",
                             counts.source, batch.inputs.size(), tiles.inputs.size(),
                             fmt::join(counts.values, ", "))};
  }
  batch.inputs = std::move(all);
  return batch;
}

// Refuses pictures of which pixel_attention_mask leaves a part out.
Status check_whole(const SafetensorsFile& file, const std::string& path, const EncoderShape& shape,
                   const std::vector<bool>& pads) {
  const SafetensorsFile::Entry* entry = file.find("pixel_attention_mask");
  if (!entry) return {};
  const std::string source = fmt::format("{}: tensor 'pixel_attention_mask'", path);
  PUMICE_TRY(const std::vector<int64_t> mask, SafetensorsFile::integers(*entry));
  const size_t pixels = size_t{shape.input_shape[1]} * shape.input_shape[2];
  if (mask.size() != pads.size() * pixels) {
    return Error{Code::invalid_file, fmt::format("{}: expected {} numbers, one for each pixel; found {}",
                                                 source, pads.size() * pixels, mask.size())};
  }
  for (size_t i = 0; i < mask.size(); ++i) {
    if (mask[i] != 0 || pads[i / pixels]) continue;
    return Error{Code::unsupported,
                 fmt::format("{}: picture {} has pixels that are padding: only pictures of "
                             "the full size are supported",
                             source, i / pixels)};
  }
  return {};
}

} // namespace

const char* prompt_pictures_name(const EncoderShape& shape) {
  if (shape.kind == InputKind::samples) return "audio_16khz";
  return shape.kind == InputKind::features ? "input_features" : "pixel_values";
}

Result<EncoderBatch> read_prompt_pictures(const SafetensorsFile& file, const std::string& path,
                                          const EncoderShape& shape) {
  if (shape.kind == InputKind::features) return read_sound_windows(file, path, shape);
  if (shape.kind == InputKind::samples) {
    PUMICE_TRY(EncoderBatch batch, read_value_inputs(file, path, shape));
    for (EncoderInput& input : batch.inputs) input = sound_input(std::move(input.values), shape);
    return batch;
  }
  PUMICE_TRY(const SafetensorsFile::Entry* entry,
             find_tensor(file, path, "pixel_values", "pictures of a prompt"));
  if (shape.kind == InputKind::patches) return read_patches(file, path, *entry, shape);
  if (shape.preparation && shape.preparation->tiling && shape.preparation->tiling->whole_edge > 0)
    return read_tiled_pictures(file, path, shape);
  if (entry->shape.size() != shape.input_shape.size() + 2) return read_encoder_inputs(file, path, shape);
  std::vector<uint64_t> dims(entry->shape.begin() + 1, entry->shape.end());
  dims[0] *= entry->shape[0];
  PUMICE_TRY(EncoderBatch batch, read_values(*entry, path, shape, dims));
  std::vector<bool> pads;
  for (const EncoderInput& input : batch.inputs)
    pads.push_back(std::ranges::all_of(input.values, [](float value) { return value == 0; }));
  PUMICE_CHECK(check_whole(file, path, shape, pads));
  size_t kept = 0;
  for (size_t i = 0; i < pads.size(); ++i) {
    if (!pads[i]) std::swap(batch.inputs[kept++], batch.inputs[i]);
  }
  batch.inputs.resize(kept);
  batch.places.rows.resize(kept);
  return batch;
}

Status replace_sound(const Model& model, EncoderBatch& batch) {
  if (!std::exchange(batch.samples, false)) return {};
  Status status = replace_samples(model, 16000, batch.inputs);
  if (status.ok()) return status;
  return Error{status.error().code, fmt::format("{}: {}", batch.source, status.error().message)};
}

Status check_lengths(const EncoderBatch& batch, const EncoderShape& shape) {
  const uint64_t longest = batch.places.longest();
  if (shape.any_length || longest <= shape.context) return {};
  return Error{Code::invalid_argument, fmt::format("{}: a row has {} tokens, and the model reads {} at most",
                                                   batch.source, longest, shape.context)};
}

uint32_t step_positions(const EncoderBatch& batch, const EncoderShape& shape, uint32_t wanted) {
  const auto longest = static_cast<uint32_t>(std::max<uint64_t>(batch.places.longest(), 1));
  uint64_t total = 0;
  for (const std::vector<uint64_t>& row : batch.places.rows) total += row.size();
  wanted = static_cast<uint32_t>(std::min<uint64_t>(wanted, total));
  if (shape.kind != InputKind::tokens) wanted -= wanted % longest;
  return std::max(longest, wanted);
}

} // namespace pumice
