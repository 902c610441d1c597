#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernel/activation.h"
#include "kernel/activation_ref.h"
#include "kernel/dispatch.h"
#include "kernel/packed_weight.h"
#include "kernel/variant.h"

namespace pumice {

// A routed product (mixture of experts). The weight holds the experts' matrices one after the other. Each row
// of the result is a slot: a row of x times the matrix of the expert that the slot has chosen.
// kernel/experts/experts.h makes the blocks.
struct MatmulRouting {
  BufferRef blocks;           // as in shaders/matmul/matmul.params.h
  uint32_t count = 0;         // of blocks, at most
  uint32_t block_slots = 1;   // from routed_block_slots()
  uint32_t slots_per_row = 1; // of x
  uint32_t rows_each = 1;     // rows of x to a row of the step
  uint32_t experts = 1;
  uint32_t expert_tiles = 0; // from one expert's first tile to the next one's
};

// The second half of a root-mean-square norm (see NextNorm): the result's rows are multiplied by
// 1 / sqrt(mean of squares + eps).
struct RowScale {
  uint32_t columns = 0; // of the mean
  float eps = 0;
  uint32_t sums_at = 0; // from x's row: where the sums of its squares are, in floats
};

// The first half of a root-mean-square norm after a product. Besides its result the product writes each row
// times the norm's weight, and the sums of the row's squares over each eight columns.
struct NextNorm {
  uint32_t weight_at = 0; // in `bias`, in floats: padded to the tiles
  float weight_offset = 0;
  uint32_t normed_at = 0; // from the result's row, in floats
  uint32_t sums_at = 0;   // likewise; zeros up to a multiple of 32
};

// Low-rank adapters (kernel/adapter/adapter.h), whose second half the product adds itself.
struct MatmulAdapter {
  ActivationRef h;  // of adapter_down(), for products; a row for each of x
  BufferRef matrix; // [places]: packed_adapter_tiles() of each of the product's matrices
  uint64_t place_bytes = 0;
  TensorType numbers = TensorType::f32;
  uint32_t rank = 0;
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
  std::optional<MatmulRouting> routing; // without bias, residual and norms
  // If set, the result has one row for each output of the step, computed from the row of x that the output
  // names. The value is where the outputs' details begin in the step block, in quads. Not with routing.
  std::optional<uint32_t> selected_by;
  std::optional<RowScale> row_scale;
  std::optional<NextNorm> next_norm; // not if gated
  // Only where the device's kernels do that: those of the tier cpu8. Not with routing.
  std::optional<MatmulAdapter> adapter;
};

// How many slots a block should have if each expert has `slots_per_expert` on average: a power of two, which
// a variant divides among workgroups.
uint32_t routed_block_slots(double slots_per_expert);

// The variants, in order of preference where nothing was measured.
std::span<const KernelVariant<MatmulArgs>* const> matmul_variants();
// The class of shapes that one measurement stands for.
std::string matmul_shape_class(const MatmulArgs& args);
std::string_view chosen_matmul(const DeviceProfile& profile, const MatmulArgs& args); // the variant's name
Status matmul(Lowering& lowering, const MatmulArgs& args);

} // namespace pumice
