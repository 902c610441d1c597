#pragma once

#include <array>
#include <vector>

#include "shaders/common/step.h"
#include "support/vulkan/gpu.h"

// An input of an encoder's step.
struct StepInput {
  uint32_t rows = 0;
  uint32_t first = 0;   // the position where it begins
  uint32_t token = 0;   // of all its rows
  uint32_t samples = 0; // of a sound
};

// A step block whose rows are those of the inputs, one after the other, and whose outputs are the inputs.
inline pumice::BufferRef inputs_step(const std::vector<StepInput>& inputs, uint32_t capacity) {
  using namespace pumice;
  uint32_t rows = 0, outputs = 0;
  std::vector<std::array<uint32_t, 4>> block(STEP_HEADER_QUADS + 2 * size_t{capacity});
  const auto details = block.begin() + STEP_HEADER_QUADS + static_cast<ptrdiff_t>(capacity);
  for (const StepInput& input : inputs) {
    // One without rows names a row that there is not.
    details[outputs][1] = input.samples;
    details[outputs++][0] = input.rows > 0 ? rows : UINT32_MAX;
    for (uint32_t i = 0; i < input.rows; ++i, ++rows) {
      block[STEP_HEADER_QUADS + rows] = {input.token, input.first + i, 0, input.first};
      details[rows][3] = input.first + input.rows;
    }
  }
  block[0] = {rows, outputs, 0, 0};
  return TestGpu::get().upload(block);
}

// Rows of all inputs.
inline uint32_t rows_of(const std::vector<StepInput>& inputs) {
  uint32_t rows = 0;
  for (const StepInput& input : inputs) rows += input.rows;
  return rows;
}
