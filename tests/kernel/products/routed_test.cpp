// Routed products against plain ones by the same variant: a slot's result has the bits of its row times the
// whole of its expert's matrix.
#include <doctest/doctest.h>

#include "gpu/kernel_table.h"
#include "kernel/matmul/matmul.h"
#include "kernel/products/weights.h"
#include "kernel/test_lowering.h"
#include "shaders/matmul/matmul.params.h"
#include "support/in_turn.h"
#include "support/skip.h"

using namespace pumice;

namespace {

constexpr uint32_t experts = 5, used = 2;

// A variant, how its kernels are named, and the blocks that it takes.
struct Variant {
  const char* name;
  const char* kernels;
  std::vector<uint32_t> block_slots;
  uint32_t plain_rows = UINT32_MAX; // that it takes of a plain product
};

const Variant cpu8{"cpu8", "matmul.cpu8.", {1, 4, 8, 16, 64}};
const Variant subgroup{"subgroup", "matmul_subgroup.", {1, 4, 8}, 8};
const Variant tiled{"tiled", "matmul_tiled.", {16, 32, 64, 128}};
const Variant dot{"dot", "matmul.dot.", {1, 4, 8, 32}};
const Variant cm{"cm", "matmul.cm.", {16, 128, 32}};
const Variant cm2{"cm2", "matmul.cm.", {32, 128, 64}};
const Variant portable{"portable", "matmul_portable.", {1, 4, 8, 32}};

// How the slots are spread over the experts.
enum class Spread { uneven, all_to_one, one_slot };

struct Case {
  TensorType type = TensorType::f16;
  uint32_t n = 33;
  uint32_t block_slots = 1;
  Spread spread = Spread::uneven;
  bool gated = false;
  bool split = false;    // the weight, into three segments
  bool per_slot = false; // x has a row for each slot
  uint32_t k = 256;
};

DeviceProfile profile_of(const Variant& variant) {
  const DeviceProfile& chosen = TestGpu::get().profile;
  DeviceProfile profile = chosen;
  if (variant.name != std::string_view("cpu8")) {
    profile = forced_profile(variant.name);
    profile.matrix_shapes = chosen.matrix_shapes;
    profile.cm2 = chosen.cm2;
    profile.cm2_workgroup = chosen.cm2_workgroup;
  }
  profile.forced = variant.name;
  return profile;
}

struct Routed {
  const Variant& variant;
  const Case c;
  const DeviceProfile profile = profile_of(variant);
  // More than two blocks of the most slots for one expert, and a row that is not in the step.
  const uint32_t rows = c.block_slots + 9, bucket = rows + 1;
  std::vector<std::unique_ptr<TestWeight>> weights, ups;

  Routed(const Variant& variant_, const Case& case_) : variant(variant_), c(case_) {
    for (uint32_t e = 0; e < experts; ++e) {
      weights.push_back(std::make_unique<TestWeight>(c.type, c.n, c.k, e));
      ups.push_back(std::make_unique<TestWeight>(c.type, c.n, c.k, e + experts));
    }
  }

  uint32_t tiles() const { return (c.n + 7) / 8 * (c.gated ? 2 : 1); }

  MatmulArgs args(uint32_t result_rows, const std::vector<float>& x) const {
    MatmulArgs args;
    args.format = {c.type, c.k, profile.weight_lane_bytes(c.type)};
    args.x = upload_rows(x, c.k, 32);
    args.result = blank_rows(result_rows, c.n, 32);
    args.activation = c.gated ? Activation::relu : Activation::none;
    args.gated = c.gated;
    return args;
  }

  void add_tiles(uint32_t expert, uint32_t multiple, std::vector<TileSource>& sources) const {
    for (uint32_t t = 0; t < tiles(); ++t) {
      const TestWeight& from = c.gated && t % 2 ? *ups[expert] : *weights[expert];
      sources.push_back(from.tile(c.gated ? t / 2 : t));
    }
    while (sources.size() % multiple) sources.emplace_back();
  }

  std::vector<float> x() const { return random_values(size_t{bucket} * (c.per_slot ? used : 1) * c.k, 3); }

  // The bits of all rows of x times an expert's matrix.
  std::vector<uint32_t> plain(uint32_t expert) const {
    TestGpu& gpu = TestGpu::get();
    const std::vector<float> all = x();
    std::vector<TileSource> sources;
    add_tiles(expert, 8, sources);
    std::vector<uint32_t> bits;
    const size_t count = all.size() / c.k, most = std::min<size_t>(variant.plain_rows, count);
    for (size_t first = 0; first < count; first += most) {
      const size_t some = std::min(most, count - first);
      const auto begin = all.begin() + static_cast<ptrdiff_t>(first * c.k);
      MatmulArgs product =
          args(static_cast<uint32_t>(some), {begin, begin + static_cast<ptrdiff_t>(some * c.k)});
      product.weight = upload_tiles(product.format, sources);
      product.weight.tiles = product.result.padded_columns() / 8 * (c.gated ? 2 : 1);
      product.step = gpu.step(static_cast<uint32_t>(some));
      const std::vector<uint32_t> got = run({product});
      for (size_t row = 0; row < some; ++row) {
        const auto from = got.begin() + static_cast<ptrdiff_t>(row * product.result.stride);
        bits.insert(bits.end(), from, from + product.result.padded_columns());
      }
      gpu.clear();
    }
    return bits;
  }

  std::vector<uint32_t> run(const std::vector<MatmulArgs>& segments) const {
    const Graph no_graph;
    TestLowering lowering(profile, no_graph, {});
    for (const MatmulArgs& segment : segments) REQUIRE(matmul(lowering, segment).ok());
    CHECK(lowering.dispatches().back().kernel.starts_with(variant.kernels));
    lowering.run();
    return TestGpu::get().read<uint32_t>(segments[0].result.buffer);
  }

  // The slots of each expert. An expert without slots is between others.
  std::vector<std::vector<uint32_t>> chosen() const {
    std::vector<std::vector<uint32_t>> slots(experts);
    for (uint32_t slot = 0; slot < rows * used; ++slot) {
      if (c.spread == Spread::one_slot && slot != 7) continue;
      const uint32_t few = slot == 2 ? 1 : slot % 5 == 3 ? 4 : 3;
      slots[c.spread == Spread::all_to_one ? 2 : few].push_back(slot);
    }
    return slots;
  }

  void check() const {
    CAPTURE(variant.name);
    CAPTURE(info(c.type).name);
    CAPTURE(c.n);
    CAPTURE(c.block_slots);
    CAPTURE(static_cast<int>(c.spread));
    CAPTURE(c.gated);
    CAPTURE(c.split);
    CAPTURE(c.per_slot);
    TestGpu& gpu = TestGpu::get();
    const std::vector<std::vector<uint32_t>> slots = chosen();
    std::vector<uint32_t> blocks = {0};
    const auto add_block = [&](uint32_t expert, std::span<const uint32_t> some) {
      ++blocks[0];
      blocks.push_back(expert);
      blocks.insert(blocks.end(), some.begin(), some.end());
      blocks.resize(1 + size_t{blocks[0]} * (1 + c.block_slots), MATMUL_NOTHING);
    };
    for (uint32_t e = 0; e < experts; ++e) {
      std::span<const uint32_t> left = slots[e];
      if (left.empty()) add_block(MATMUL_NOTHING, {});
      for (; !left.empty(); left = left.subspan(std::min<size_t>(left.size(), c.block_slots)))
        add_block(e, left.first(std::min<size_t>(left.size(), c.block_slots)));
    }
    const uint32_t count = blocks[0] + 1; // one that is not in use
    blocks.resize(1 + size_t{count} * (1 + c.block_slots));

    std::vector<TileSource> sources;
    for (uint32_t e = 0; e < experts; ++e) add_tiles(e, 8, sources);
    MatmulArgs product = args(bucket * used, x());
    product.step = gpu.step(rows);
    product.routing = MatmulRouting{gpu.upload(blocks),
                                    count,
                                    c.block_slots,
                                    c.per_slot ? 1 : used,
                                    c.per_slot ? used : 1,
                                    experts,
                                    static_cast<uint32_t>(sources.size() / experts)};
    const size_t part = c.split ? sources.size() / 3 / 8 * 8 : sources.size();
    std::vector<MatmulArgs> segments;
    for (size_t tile = 0; tile < sources.size(); tile += part) {
      const auto begin = sources.begin() + static_cast<ptrdiff_t>(tile);
      product.weight = upload_tiles(
          product.format, {begin, begin + static_cast<ptrdiff_t>(std::min(part, sources.size() - tile))},
          static_cast<uint32_t>(tile));
      segments.push_back(product);
    }
    const std::vector<uint32_t> got = run(segments);
    gpu.clear();

    // Slots that no expert has, and what lies beside the rows, are not touched.
    std::vector<uint32_t> wanted(got.size(), std::bit_cast<uint32_t>(sentinel));
    const uint32_t columns = product.result.padded_columns();
    for (uint32_t e = 0; e < experts; ++e) {
      if (slots[e].empty()) continue;
      const std::vector<uint32_t> all = plain(e);
      for (uint32_t slot : slots[e]) {
        const size_t row = slot / (c.per_slot ? 1 : used);
        std::copy_n(all.begin() + static_cast<ptrdiff_t>(row * columns), columns,
                    wanted.begin() + static_cast<ptrdiff_t>(size_t{slot} * product.result.stride));
      }
    }
    size_t wrong = 0;
    for (size_t i = 0; i < got.size(); ++i) wrong += got[i] != wanted[i];
    CHECK(wrong == 0);
  }
};

bool can_run(const Variant& variant, TensorType type) {
  const DeviceProfile profile = profile_of(variant);
  const std::string_view name = variant.name;
  if (name == "cpu8") return profile.cpu8;
  if (name == "tiled" || name == "portable") return true;
  if (profile.subgroup < 8 || (name == "dot" && !profile.dot)) return false;
  if ((name == "cm" && profile.matrix_shapes.empty()) || (name == "cm2" && !profile.cm2)) return false;
  return find_kernel(variant.kernels + kernel_variant(type));
}

void check_uses(const Variant& variant) {
  const uint32_t slots = variant.block_slots.back();
  Routed(variant, {TensorType::q8_0, 100, slots, Spread::uneven, true, true}).check();
  Routed(variant, {TensorType::q8_0, 100, slots, Spread::uneven, false, true, true}).check();
}

void check_variant(const Variant& variant) {
  if (!can_run(variant, TensorType::q8_0))
    return skip(std::string("this device or this build has no ") + variant.name);
  constexpr TensorType types[] = {TensorType::q4_k, TensorType::f16, TensorType::q8_0};
  constexpr Spread spreads[] = {Spread::uneven, Spread::all_to_one, Spread::one_slot};
  // Columns of which neither the last tile nor the last workgroup is full.
  for (const auto& [block_slots, type, n, spread] :
       in_turn(variant.block_slots, types, std::array{100u, 33u, 7u}, spreads)) {
    if (can_run(variant, type)) Routed(variant, {type, n, block_slots, spread}).check();
  }
  check_uses(variant);
}

} // namespace

TEST_CASE("routed products have the bits of plain ones") {
  for (const Variant* variant : {&cpu8, &subgroup, &tiled, &dot, &portable}) check_variant(*variant);
}

TEST_CASE("cooperative matrices: routed products have the bits of plain ones") {
  check_variant(cm);
}

// Its kernels are cm's, and take CPU drivers long to compile.
TEST_CASE("cooperative matrices of free sizes: a routed product has the bits of plain ones") {
  if (every_case()) return check_variant(cm2);
  if (!can_run(cm2, TensorType::q8_0)) return skip("this device or this build has no cm2");
  Routed(cm2, {TensorType::q8_0, 100, 32, Spread::uneven, false, true, true}).check();
}
