#include "base/align.h"
#include "kernel/adapter/adapter.h"
#include "kernel/adapter/adapter_packing.h"
#include "kernel/loads.h"
#include "kernel/lowering.h"
#include "kernel/matmul/matmul_variants.h"
#include "shaders/matmul/matmul.params.h"

namespace pumice {

namespace {

// How much of the product one workgroup takes.
struct Shape {
  uint32_t rows;
  uint32_t tiles;
};

// Whether a load gives a vector of whole numbers, of which no others have to be kept.
bool loads_numbers(const PackedFormat& format) {
  return format.type == TensorType::f32 ? format.lane_bytes == 4 : format.lane_bytes == 2;
}

// Loads by lane, also of texels, are much code: a driver takes a second for that of four rows by four tiles,
// where this is computed in milliseconds. A quarter of the code is compiled in a quarter of the time, and
// takes half as long again.
bool is_soon_done(const MatmulArgs& args, const MatmulExtent& all) {
  constexpr uint64_t few = 20'000'000; // multiplications
  return !args.routing && uint64_t{all.rows} * all.tiles * 8 * args.x.padded_columns() <= few;
}

Shape workgroup_shape(const DeviceProfile& profile, const MatmulArgs& args) {
  const uint32_t pair = args.gated ? 2 : 1;
  const MatmulExtent all = matmul_extent(args);
  if (all.rows == 1) {
    // A single row needs several tiles to keep the adders busy, and more tiles where weights have scales.
    uint32_t tiles = args.format.scaled() && all.tiles % 8 == 0 ? 8 : 4;
    while (tiles > pair && all.blocks * (all.tiles / tiles) < profile.busy_groups) tiles /= 2;
    return {1, tiles};
  }
  if (profile.uniform_loads && all.rows == 2) return {2, 4};
  if (!profile.uniform_loads && is_soon_done(args, all)) return {2, 2};
  // Sixteen registers hold eight sums and what is multiplied, or twelve sums where nothing of a weight is
  // kept: two tiles share each number of x then. Where they hold more, a converted weight serves more rows.
  if (profile.uniform_loads && profile.vector_registers < 32) {
    if (all.rows <= 4) return {4, 2};
    if (args.routing || !loads_numbers(args.format)) return {8, pair};
    // Six rows are a sixteenth faster than four, unless more of them are past the last one.
    return {align(all.rows, 6u) * 16 <= align(all.rows, 4u) * 17 ? 6u : 4u, 2};
  }
  // Sixteen sums fill the registers. Where each lane loads its own x, broadcasting it costs: fewer rows and
  // more tiles are faster there.
  if (!profile.uniform_loads || all.rows <= 4) return {4, 4};
  if (args.routing) return all.rows < 8 ? Shape{4, 4} : Shape{8, pair};
  // With more rows, each conversion of a weight serves more of them. Plain weights need no second sum for a
  // part of a row.
  const uint32_t most = args.format.scaled() || all.rows < 32 ? 16 : 32;
  const uint32_t rows = all.even_share(most);
  return {rows, rows < 8 ? 2 : pair};
}

// The distance between a workgroup's rows, in blocks of 32, where it can be a constant; otherwise 0. With a
// constant, rows past the step's last are read too: the memory must have them.
uint32_t row_blocks(const DeviceProfile& profile, const MatmulArgs& args, const Shape& shape) {
  const uint32_t fewest = profile.vector_registers < 32 ? 4 : 16;
  if (!profile.uniform_loads || shape.rows < fewest || matmul_rows_from(args) != MATMUL_ROWS_OWN) return 0;
  const ActivationRef& x = args.x;
  const uint64_t read = ((align(x.rows, shape.rows) - 1) * x.stride + x.padded_columns()) * 4;
  return read <= x.buffer.bytes ? x.stride / 32 : 0;
}

// CPU drivers blend every sum by a mask of lanes each time round a loop: a fifth of the time where a block
// has little else to do.
uint32_t pass_blocks(const MatmulParams& params, const MatmulArgs& args, const Shape& shape) {
  return loads_numbers(args.format) && shape.rows * shape.tiles <= 8 && params.blocks % 2 == 0 ? 2 : 1;
}

void set_adapter(Dispatch& dispatch, const MatmulAdapter& adapter) {
  const uint64_t tile_bytes = adapter_tile_bytes(adapter.numbers, adapter.rank);
  dispatch.set_constant(MATMUL_ADAPTER_TILE_ID, static_cast<uint32_t>(tile_bytes / 4));
  dispatch.set_constant(MATMUL_ADAPTER_NUMBERS_ID, adapter_numbers(adapter.numbers));
  dispatch.set_constant(MATMUL_ADAPTER_PLACE_ID, static_cast<uint32_t>(adapter.place_bytes / 4));
  dispatch.set_constant(MATMUL_ADAPTER_STRIDE_ID, adapter.h.stride);
}

bool runs(const DeviceProfile& profile, const MatmulArgs&) {
  return profile.cpu8;
}

Status lower(Lowering& lowering, const MatmulArgs& args) {
  const DeviceProfile& profile = lowering.profile();
  const Shape shape = workgroup_shape(profile, args);
  Dispatch dispatch;
  dispatch.kernel = "matmul.cpu8." + cpu8_kernel_variant(args.format);
  dispatch.constants = {8,
                        shape.rows,
                        shape.tiles,
                        fastest_load(profile),
                        matmul_epilogue(args),
                        static_cast<uint32_t>(args.activation),
                        matmul_rows_from(args)};
  dispatch.set_constant(MATMUL_ROW_BLOCKS_ID, row_blocks(profile, args, shape));
  const MatmulParams params = matmul_params(args);
  dispatch.set_constant(MATMUL_PASS_BLOCKS_ID, pass_blocks(params, args, shape));
  if (args.adapter) set_adapter(dispatch, *args.adapter);
  dispatch.set_params(params);
  bind_matmul(dispatch, args);
  if (profile.uniform_loads) {
    dispatch.pass_address(offsetof(MatmulParams, weights), args.weight.payload);
    dispatch.pass_address(offsetof(MatmulParams, x), args.x.buffer);
    if (args.format.scaled()) dispatch.pass_address(offsetof(MatmulParams, scales), args.weight.scales);
    if (args.adapter) {
      dispatch.pass_address(offsetof(MatmulParams, adapter_h), args.adapter->h.buffer);
      dispatch.pass_address(offsetof(MatmulParams, adapter_up), args.adapter->matrix);
    }
  } else if (fastest_load(profile) == LOAD_TEXEL) {
    dispatch.read_texels(MATMUL_WEIGHT_TEXELS, MATMUL_WEIGHTS);
    dispatch.read_texels(MATMUL_WEIGHT_DWORD_TEXELS, MATMUL_WEIGHTS);
    dispatch.read_texels(MATMUL_X_TEXELS, MATMUL_X);
    if (args.format.scaled()) dispatch.read_texels(MATMUL_SCALE_TEXELS, MATMUL_SCALES);
  }
  const MatmulExtent all = matmul_extent(args);
  dispatch.groups = {all.groups(shape.rows), all.tiles / shape.tiles, 1};
  estimate_matmul(dispatch, args);
  lowering.emit(std::move(dispatch));
  return {};
}

} // namespace

const KernelVariant<MatmulArgs> matmul_cpu8 = {
    .name = "cpu8",
    .summary = "For CPU drivers: a vector lane for each of eight weight rows, sums in registers",
    .runs = runs,
    .lower = lower,
    .for_cpus = true};

} // namespace pumice
