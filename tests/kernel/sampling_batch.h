#pragma once

#include <algorithm>
#include <array>
#include <cfloat>
#include <cmath>
#include <random>
#include <vector>

#include "kernel/sampling/form_words.h"
#include "kernel/sampling/sampling.h"
#include "shaders/common/step.h"
#include "support/vulkan/gpu.h"

using Quad = std::array<uint32_t, 4>;

// What one step samples from; output j's logits are logits[j], its row is rows[output_rows[j]].
struct Batch {
  std::vector<std::vector<float>> logits;
  std::vector<pumice::SamplingParams> params;   // for each sequence
  std::vector<std::vector<uint32_t>> histories; // for each sequence
  std::vector<Quad> rows;                       // token, position, sequence, first
  std::vector<uint32_t> output_rows;
  std::vector<std::vector<uint32_t>> masks; // for each of the first sequences; empty: none
  // For each of the first sequences: the table of its form and its place; null: none.
  std::vector<std::pair<const pumice::FormTable*, uint32_t>> forms;
  // For each of the first sequences: tokens that are guessed at. For each of the first outputs: how many of
  // them lie before it.
  std::vector<std::vector<uint32_t>> drafts;
  std::vector<uint32_t> drafts_before;
  // What may be drawn behind each of them: masks, or places in the form.
  std::vector<std::vector<std::vector<uint32_t>>> draft_masks;
  std::vector<std::vector<uint32_t>> draft_places;
  uint32_t capacity = 0;
  uint32_t produced = 0;

  // A sequence of its own, a row and an output for these logits.
  void add(std::vector<float> values, const pumice::SamplingParams& parameters,
           std::vector<uint32_t> history = {}, uint32_t position = 0) {
    const uint32_t n = static_cast<uint32_t>(rows.size());
    logits.push_back(std::move(values));
    params.push_back(parameters);
    histories.push_back(std::move(history));
    rows.push_back({0, position, n, 0});
    output_rows.push_back(n);
    capacity = std::max(capacity, n + 1);
  }
};

// A batch on the device and the two launches that sample from it.
struct Sampler {
  Sampler(const pumice::DeviceProfile& profile, const Batch& batch) : capacity(batch.capacity) {
    TestGpu& gpu = TestGpu::get();
    const uint32_t vocabulary = static_cast<uint32_t>(batch.logits[0].size());
    stride = (vocabulary + 31) / 32 * 32;
    // What lies behind the last column must not be looked at, whatever it is.
    std::vector<float> padded(batch.logits.size() * stride, 1e9f);
    for (size_t j = 0; j < batch.logits.size(); ++j) {
      std::copy(batch.logits[j].begin(), batch.logits[j].end(),
                padded.begin() + static_cast<ptrdiff_t>(j * stride));
    }
    const uint32_t sequences = static_cast<uint32_t>(batch.params.size());
    std::vector<pumice::SamplingSlot> slots(sequences);
    pumice::SamplingState view(std::as_writable_bytes(std::span(slots)));
    for (uint32_t s = 0; s < sequences; ++s) {
      view.set_params(s, batch.params[s]);
      view.set_tokens(s, batch.histories[s]);
      if (s < batch.masks.size() && !batch.masks[s].empty())
        std::ranges::copy(batch.masks[s], view.set_mask(s).begin());
      if (s < batch.drafts.size()) view.set_drafts(s, batch.drafts[s]);
    }
    std::vector<uint32_t> tables(5, 77);
    for (uint32_t s = 0; s < batch.forms.size(); ++s) {
      const auto [table, place] = batch.forms[s];
      if (!table) continue;
      view.set_form(s, static_cast<uint32_t>(tables.size()), place);
      if (s < batch.draft_places.size()) view.set_draft_places(s, batch.draft_places[s]);
      const std::vector<uint32_t> words = pumice::form_words(*table);
      tables.insert(tables.end(), words.begin(), words.end());
    }
    for (uint32_t s = 0; s < batch.draft_masks.size(); ++s) {
      view.set_draft_masks(s, tables.size());
      for (const std::vector<uint32_t>& mask : batch.draft_masks[s])
        tables.insert(tables.end(), mask.begin(), mask.end());
    }
    std::vector<Quad> block(1 + 2 * capacity, Quad{77, 77, 77, 77});
    block[0] = {static_cast<uint32_t>(batch.rows.size()), static_cast<uint32_t>(batch.output_rows.size()),
                batch.produced, 5};
    std::copy(batch.rows.begin(), batch.rows.end(), block.begin() + 1);
    for (size_t j = 0; j < batch.output_rows.size(); ++j) {
      block[1 + capacity + j][0] = batch.output_rows[j];
      block[1 + capacity + j][1] = j < batch.drafts_before.size() ? batch.drafts_before[j] : 0;
    }

    pumice::SampleArgs args;
    args.logits = {gpu.upload(padded), static_cast<uint32_t>(batch.logits.size()), pumice::ROWS_OUTPUTS,
                   vocabulary, stride};
    args.state = state = gpu.upload(slots);
    if (!batch.forms.empty() || !batch.draft_masks.empty()) args.tables = gpu.upload(tables);
    args.step = step = gpu.upload(block);
    args.step_capacity = capacity;
    args.scratch = gpu.upload(
        std::vector<uint32_t>(pumice::sample_scratch_bytes(profile, args.logits) / 4, 0xdeadbeefu));
    logits = args.logits.buffer;
    dispatches = pumice::sample(profile, args);
  }

  void run(int times = 1) {
    std::vector<pumice::Dispatch> all;
    for (int i = 0; i < times; ++i) all.insert(all.end(), dispatches.begin(), dispatches.end());
    TestGpu::get().run(all);
  }
  std::vector<Quad> block() const { return TestGpu::get().read<Quad>(step); }
  std::vector<pumice::SamplingSlot> slots() const { return TestGpu::get().read<pumice::SamplingSlot>(state); }
  std::vector<uint32_t> tokens() const {
    const std::vector<Quad> quads = block();
    std::vector<uint32_t> result;
    for (uint32_t j = 0; j < quads[0][1]; ++j) result.push_back(quads[1 + j][0]);
    return result;
  }

  uint32_t capacity, stride;
  pumice::BufferRef logits, state, step;
  std::array<pumice::Dispatch, 2> dispatches;
};

inline std::vector<uint32_t> sample_once(const pumice::DeviceProfile& profile, const Batch& batch) {
  Sampler sampler(profile, batch);
  sampler.run();
  std::vector<uint32_t> tokens = sampler.tokens();
  TestGpu::get().clear();
  return tokens;
}

inline std::vector<float> random_logits(uint32_t vocabulary, uint32_t seed, float spread = 3.0f) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0f, spread);
  std::vector<float> values(vocabulary);
  for (float& value : values) value = normal(generator);
  return values;
}

inline pumice::SamplingParams drawing(uint64_t seed, float temperature = 1.0f) {
  pumice::SamplingParams params;
  params.temperature = temperature;
  params.seed = seed;
  return params;
}

// Logits that are awkward in one way each.
inline std::vector<std::vector<float>> awkward_logits(uint32_t vocabulary) {
  std::vector<std::vector<float>> all(10, random_logits(vocabulary, vocabulary));
  for (float& v : all[1]) v = std::round(v / 3.0f); // many ties
  for (float& v : all[2]) v = -std::abs(v) - 1.0f;
  for (uint32_t i = 0; i < vocabulary; i += 3) all[3][i] = i % 2 ? NAN : -NAN;
  for (uint32_t i = 1; i < vocabulary; i += 7) all[4][i] = INFINITY;
  for (uint32_t i = 0; i < vocabulary; i += 2) all[5][i] = -INFINITY;
  for (float& v : all[6]) v = -INFINITY;
  for (float& v : all[7]) v = NAN;
  for (uint32_t i = 0; i < vocabulary; ++i) all[8][i] = i % 2 ? 0.0f : -0.0f;
  for (uint32_t i = 0; i < vocabulary; ++i) all[9][i] = i + 1 == vocabulary ? -FLT_MAX : -INFINITY;
  return all;
}
