#pragma once

#include <optional>
#include <vector>

#include "kernel/activation.h"
#include "kernel/activation_ref.h"
#include "kernel/dispatch.h"
#include "kernel/packed_weight.h"
#include "kernel/style.h"

namespace pumice {

// What makes a product a routed one: the weight holds the experts' matrices one after the other, and each row
// of the result, a slot, is a row of x times the matrix of the expert that the slot has chosen.
// kernel/experts.h makes the blocks.
struct MatmulRouting {
  BufferRef blocks;           // as in shaders/matmul/matmul.params.h
  uint32_t count = 0;         // of blocks, at most
  uint32_t block_slots = 1;   // from routed_block_slots()
  uint32_t slots_per_row = 1; // of x
  uint32_t experts = 1;
  uint32_t expert_tiles = 0; // from one expert's first tile to the next one's
};

// result[m, n] = epilogue(sum over k of x[m, k] * weight[n, k] + bias[n]) + residual[m, n].
// x: [rows, columns of the weight], result: [rows, 8 * tiles], or half of that when gated.
struct MatmulArgs {
  ActivationRef x;
  PackedFormat format;
  WeightSegment weight;
  std::optional<BufferRef> bias;
  std::optional<ActivationRef> residual;
  Activation activation = Activation::none;
  bool gated = false; // the weight's tiles alternate between gate and up: activation(gate) * up
  ActivationRef result;
  BufferRef step;
  std::optional<MatmulRouting> routing; // without bias and residual
};

// How many slots of one expert a workgroup should take where each expert has so many on average.
uint32_t routed_block_slots(const KernelStyle& style, double slots_per_expert);

Dispatch matmul(const KernelStyle& style, const MatmulArgs& args);

} // namespace pumice
