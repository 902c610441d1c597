#include "kernel/experts/experts.h"

#include <memory>
#include <set>

#include <doctest/doctest.h>

#include "kernel/products/experts_reference.h"
#include "kernel/products/weights.h"
#include "kernel/test_lowering.h"
#include "shaders/common/step.h"
#include "support/in_turn.h"
#include "support/skip.h"

using namespace pumice;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

struct Case {
  TensorType gate = TensorType::f32, up = TensorType::f32, down = TensorType::f32;
  uint32_t experts = 8;
  uint32_t used = 2;
  uint32_t hidden = 64;
  uint32_t ff = 160;
  uint32_t bucket = 1;
  uint32_t count = 1; // rows of the step
  ExpertActivation activation;
  bool normalise = true;
  bool biased = false; // the routing
  bool scaled = false; // the same
  bool biases = false; // of the products
  bool scaled_inputs = false;
  bool ungated = false;
  bool residual = false;
  uint32_t rows_kind = ROWS_TOKENS;
  uint64_t range_limit = UINT64_MAX;

  ExpertRouting routing() const {
    ExpertRouting routing;
    routing.used = used;
    routing.normalise = normalise;
    routing.biased = biased;
    routing.scaled = scaled;
    return routing;
  }
};

// As a GGUF file has it: one tensor [experts * rows, columns] each.
struct Layer {
  const Case c;
  const TestWeight gate, up, down;
  const TestWeight routing_bias, routing_scales, gate_bias, up_bias, down_bias;
  std::vector<float> x, logits, residual;
  std::vector<ExpertReference> reference;

  explicit Layer(const Case& case_)
      : c(case_), gate(c.gate, c.experts * c.ff, c.hidden, 1), up(c.up, c.experts * c.ff, c.hidden, 2),
        down(c.down, c.experts * c.hidden, c.ff, 3), routing_bias(TensorType::f32, 1, c.experts, 7),
        routing_scales(TensorType::f32, 1, c.experts, 11), gate_bias(TensorType::f32, c.experts, c.ff, 8),
        up_bias(TensorType::f32, c.experts, c.ff, 9), down_bias(TensorType::f32, c.experts, c.hidden, 10),
        x(random_values(size_t{c.bucket} * c.hidden, 4)),
        logits(random_values(size_t{c.bucket} * c.experts, 5, 3)),
        residual(random_values(size_t{c.bucket} * c.hidden, 6)), reference(c.experts) {
    for (uint32_t e = 0; e < c.experts; ++e) {
      reference[e] = {decoded(gate, e * c.ff, c.ff),
                      decoded(up, e * c.ff, c.ff),
                      decoded(down, e * c.hidden, c.hidden),
                      {},
                      {},
                      {}};
      if (c.ungated) reference[e].gate = reference[e].up;
      if (!c.biases) continue;
      reference[e].gate_bias = gate_bias.decoded(e);
      reference[e].up_bias = up_bias.decoded(e);
      reference[e].down_bias = down_bias.decoded(e);
    }
  }

  static std::vector<float> decoded(const TestWeight& weight, uint32_t first, uint32_t rows) {
    std::vector<float> out;
    for (uint32_t row = first; row < first + rows; ++row) {
      const std::vector<float> one = weight.decoded(row);
      out.insert(out.end(), one.begin(), one.end());
    }
    return out;
  }

  std::vector<ExpertChoice> choices(uint32_t row) const {
    return route_reference(std::span(logits).subspan(size_t{row} * c.experts, c.experts), c.routing(),
                           routing_bias.decoded(0), routing_scales.decoded(0));
  }

  std::vector<double> expected_row(uint32_t row, const std::vector<ExpertChoice>& chosen) const {
    std::vector<double> out = experts_reference(std::span(x).subspan(size_t{row} * c.hidden, c.hidden),
                                                reference, chosen, c.activation, c.scaled_inputs);
    for (uint32_t i = 0; c.residual && i < c.hidden; ++i) out[i] += residual[row * c.hidden + i];
    return out;
  }

  std::vector<double> expected() const {
    std::vector<double> out;
    for (uint32_t row = 0; row < c.count; ++row) {
      const std::vector<double> one = expected_row(row, choices(row));
      out.insert(out.end(), one.begin(), one.end());
    }
    return out;
  }

  // Adds the layer to a graph; the tensors are its inputs.
  TensorId build(Graph& graph, TensorId x_id, TensorId logits_id, std::optional<TensorId> residual_id) const {
    Experts operation;
    operation.count = c.experts;
    operation.routing = c.routing();
    operation.activation = c.activation;
    operation.scaled_inputs = c.scaled_inputs;
    ExpertWeights weights;
    for (uint32_t e = 0; e < c.experts; ++e) {
      if (!c.ungated) weights.gate.push_back(graph.weight(gate.weight.slice(e * c.ff, c.ff), "feed-forward"));
      weights.up.push_back(graph.weight(up.weight.slice(e * c.ff, c.ff), "feed-forward"));
      weights.down.push_back(graph.weight(down.weight.slice(e * c.hidden, c.hidden), "feed-forward"));
    }
    if (c.biased) weights.routing_bias = graph.weight(routing_bias.weight, "feed-forward");
    if (c.scaled) weights.routing_scales = graph.weight(routing_scales.weight, "feed-forward");
    for (const TestWeight* bias : {&gate_bias, &up_bias, &down_bias})
      if (c.biases) weights.biases.push_back(graph.weight(bias->weight, "feed-forward"));
    return experts(graph, "mixture", x_id, logits_id, weights, operation, residual_id);
  }

  // Of rows first .. first + bucket - 1; the result is left for the caller to look at.
  ActivationRef run(const DeviceProfile& profile, uint32_t first, uint32_t bucket, uint32_t count,
                    size_t* launches = nullptr) const {
    TestGpu& gpu = TestGpu::get();
    const auto part = [&](const std::vector<float>& values, uint32_t columns) {
      const auto begin = values.begin() + static_cast<ptrdiff_t>(first) * columns;
      return upload_rows({begin, begin + static_cast<ptrdiff_t>(bucket) * columns}, columns, 32, false,
                         c.rows_kind);
    };
    Graph graph;
    const RowKind kind = c.rows_kind == ROWS_TOKENS ? RowKind::tokens : RowKind::outputs;
    const TensorId x_id = graph.add_tensor({"x", kind, c.hidden, {}, false});
    const TensorId logits_id = graph.add_tensor({"logits", kind, c.experts, {}, false});
    std::optional<TensorId> residual_id;
    if (c.residual) residual_id = graph.add_tensor({"residual", kind, c.hidden, {}, false});
    const TensorId out = build(graph, x_id, logits_id, residual_id);
    CHECK(graph.tensor(out).columns == c.hidden);
    CHECK(graph.tensor(out).rows == kind);
    TestLowering lowering(profile, graph,
                          c.rows_kind == ROWS_TOKENS ? gpu.step(count) : gpu.step(bucket, count),
                          c.range_limit);
    lowering.place(x_id, part(x, c.hidden));
    lowering.place(logits_id, part(logits, c.experts));
    if (residual_id) lowering.place(*residual_id, part(residual, c.hidden));
    const ActivationRef result = blank_rows(bucket, c.hidden, 32, c.rows_kind);
    lowering.place(out, result);
    const Status status = lowering.lower(0);
    if (!status.ok()) FAIL(status.error().text());
    if (launches) *launches = lowering.dispatches().size();
    lowering.run();
    return result;
  }

  void check(const DeviceProfile& profile) const {
    CAPTURE(profile.cpu8);
    CAPTURE(profile.uniform_loads);
    CAPTURE(profile.texel_loads);
    CAPTURE(info(c.gate).name);
    CAPTURE(info(c.up).name);
    CAPTURE(info(c.down).name);
    CAPTURE(c.experts);
    CAPTURE(c.used);
    CAPTURE(c.hidden);
    CAPTURE(c.ff);
    CAPTURE(c.bucket);
    CAPTURE(c.count);
    check_rows(run(profile, 0, c.bucket, c.count), expected(), 3e-6);
    TestGpu::get().clear();
  }
};

void run(const DeviceProfile& profile, const Case& c) {
  Layer(c).check(profile);
}

// What a layer of the types and sizes can have: blocks of quantised types are whole.
Case shaped(TensorType up, TensorType down, uint32_t hidden, uint32_t ff) {
  Case c;
  c.gate = c.up = up;
  c.down = down;
  const auto whole_blocks = [](uint32_t size, TensorType type) {
    const uint32_t block = info(type).block_size;
    return (size + block - 1) / block * block;
  };
  c.hidden = whole_blocks(hidden, up);
  c.ff = whole_blocks(ff, down);
  return c;
}

} // namespace

// Every row count with every expert count and every choice. Types and sizes, of which products are compiled,
// take turns: in a short run with the rows, in a long one with each.
TEST_CASE("mixtures of every shape") {
  constexpr TensorType types[][2] = {{TensorType::f32, TensorType::f32},
                                     {TensorType::q8_0, TensorType::q8_0},
                                     {TensorType::f16, TensorType::f16},
                                     {TensorType::q4_0, TensorType::q4_0},
                                     {TensorType::q8_0, TensorType::f16}};
  constexpr uint32_t hiddens[] = {32, 64, 100}, ffs[] = {33, 160};
  for (const DeviceProfile& profile : profiles_to_test()) {
    size_t turn = 0, row_turn = 0;
    for (uint32_t rows : {1u, 2u, 7u, 17u, 33u}) {
      for (uint32_t experts : {1u, 3u, 8u, 64u}) {
        for (uint32_t used : {1u, 2u, 8u}) {
          if (used > experts) continue;
          const auto& type = types[(every_case() ? turn : row_turn) % std::size(types)];
          Case c = shaped(type[0], type[1], hiddens[turn % 3], ffs[turn % 2]);
          ++turn;
          c.bucket = c.count = rows;
          c.experts = experts;
          c.used = used;
          run(profile, c);
        }
      }
      ++row_turn;
    }
  }
}

TEST_CASE("mixtures of types of each kind, from one row to many") {
  constexpr TensorType types[] = {TensorType::bf16, TensorType::q8_0, TensorType::q4_k, TensorType::q6_k};
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (const auto& [type, rows] : in_turn(types, std::array{1u, 33u, 9u})) {
      Case c = shaped(type, type, 96, 160);
      c.bucket = c.count = rows;
      c.experts = 5;
      run(profile, c);
    }
  }
}

TEST_CASE("mixtures whose products are shared out over subgroups") {
  const DeviceProfile profile = forced_profile("subgroup");
  if (profile.subgroup < 8) return skip("this device has no subgroups of 8");
  for (uint32_t rows : {1u, 17u}) { // a slot to a block, and several
    Case c = shaped(TensorType::q8_0, TensorType::q8_0, 96, 160);
    c.bucket = c.count = rows;
    c.experts = 5;
    c.residual = true;
    run(profile, c);
  }
}

TEST_CASE("mixtures whose products are by tiles in shared memory") {
  const DeviceProfile profile = forced_profile("tiled");
  for (const auto& [rows, used] : in_turn(std::array{40u, 81u, 129u}, std::array{2u, 1u})) {
    Case c = shaped(TensorType::q8_0, TensorType::q4_k, 96, 160);
    c.bucket = rows;
    c.count = rows - 1;
    c.experts = 5;
    c.used = used;
    c.biases = used == 1;
    c.residual = true;
    run(profile, c);
  }
}

TEST_CASE("a gate of another type than its up") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (uint32_t rows : {1u, 17u}) {
      run(profile, {.gate = TensorType::q8_0,
                    .up = TensorType::f16,
                    .down = TensorType::f32,
                    .ff = 33,
                    .bucket = rows,
                    .count = rows,
                    .activation = {Activation::gelu_tanh}});
    }
  }
}

TEST_CASE(
    "experts with biases, a clamped gate, scaled inputs, a biased choice and scales, alone and together") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (uint32_t rows : {1u, 17u}) {
      for (uint32_t what = 1; what < 32; ++what) {
        CAPTURE(what);
        Case c = shaped(TensorType::q8_0, TensorType::q8_0, 96, 160);
        c.bucket = c.count = rows;
        c.experts = 5;
        c.biases = what & 1;
        if (what & 2) c.activation.limit = 0.5f;
        c.scaled_inputs = what & 4;
        c.biased = what & 8;
        c.scaled = what & 16;
        c.residual = rows > 1;
        run(profile, c);
      }
    }
    Case odd = shaped(TensorType::f32, TensorType::f32, 33, 35);
    odd.biases = true;
    odd.bucket = odd.count = 3;
    run(profile, odd);
  }
}

TEST_CASE("experts without gates, of the square of ReLU") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (uint32_t rows : {1u, 17u}) {
      for (bool scaled : {false, true}) {
        Case c = shaped(TensorType::q8_0, TensorType::f16, 96, 33);
        c.bucket = c.count = rows;
        c.ungated = true;
        c.activation.kind = Activation::relu;
        c.biased = c.residual = rows > 1;
        c.scaled_inputs = scaled;
        run(profile, c);
      }
    }
  }
}

TEST_CASE("a mixture of a step smaller than its bucket, of outputs, with a residual, with shares of all") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (uint32_t count : {0u, 1u, 3u, 8u, 17u}) {
      Case c = shaped(TensorType::q8_0, TensorType::q8_0, 64, 160);
      c.bucket = 17;
      c.count = count;
      c.residual = true;
      run(profile, c);
      c.rows_kind = ROWS_OUTPUTS;
      c.normalise = false;
      run(profile, c);
    }
    Case none = shaped(TensorType::q8_0, TensorType::q8_0, 64, 160);
    none.count = 0;
    run(profile, none);
  }
}

TEST_CASE("experts that all rows choose, and experts that none does") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (uint32_t rows : {1u, 4u, 33u}) {
      for (uint32_t used : {1u, 2u}) {
        for (uint32_t chosen : {0u, 3u, 7u}) {
          Case c = shaped(TensorType::q8_0, TensorType::q8_0, 64, 160);
          c.bucket = c.count = rows;
          c.used = used;
          Layer layer(c);
          for (uint32_t row = 0; row < rows; ++row) {
            for (uint32_t e = 0; e < c.experts; ++e) layer.logits[row * c.experts + e] = 0;
            layer.logits[row * c.experts + chosen] = 1;
          }
          layer.check(profile);
        }
      }
    }
  }
}

TEST_CASE("a mixture whose weights are in several parts") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (TensorType type : {TensorType::f32, TensorType::q8_0}) {
      for (uint32_t rows : {1u, 17u}) {
        size_t whole = 0, parts = 0;
        Case c = shaped(type, type, 64, 160);
        c.bucket = c.count = rows;
        Layer(c).run(profile, 0, rows, rows, &whole);
        // Parts of less than an expert, of more, and of neither's multiple.
        const uint64_t tile = PackedFormat{type, c.ff, profile.weight_lane_bytes(type)}.tile_payload_bytes();
        for (uint32_t tiles : {8u, 24u, 88u}) {
          c.range_limit = tiles * tile;
          const Layer layer(c);
          layer.run(profile, 0, rows, rows, &parts);
          CHECK(parts > whole);
          layer.check(profile);
        }
      }
    }
  }
}

TEST_CASE("the test of mixtures sees a wrong routing") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    Case c = shaped(TensorType::f32, TensorType::f32, 64, 33);
    c.bucket = c.count = 9;
    const Layer layer(c);
    const ActivationRef result = layer.run(profile, 0, 9, 9);
    const std::vector<float> got = TestGpu::get().read<float>(result.buffer);
    for (uint32_t row = 0; row < 9; ++row) {
      const auto error = [&](const std::vector<ExpertChoice>& choices) {
        const std::vector<double> wanted = layer.expected_row(row, choices);
        return relative_rms(std::span(got).subspan(size_t{row} * result.stride, c.hidden),
                            std::vector<float>(wanted.begin(), wanted.end()));
      };
      const std::vector<ExpertChoice> right = layer.choices(row);
      std::vector<ExpertChoice> swapped = right, other = right, unweighted = right;
      std::swap(swapped[0].share, swapped[1].share);
      while (other[1].expert == right[0].expert || other[1].expert == right[1].expert)
        other[1].expert = (other[1].expert + 1) % c.experts;
      for (ExpertChoice& choice : unweighted) choice.share = 1;
      CHECK(error(right) < 3e-6);
      CHECK(error(swapped) > 1e-3);
      CHECK(error(other) > 1e-3);
      CHECK(error(unweighted) > 1e-3);
    }
    TestGpu::get().clear();
  }
}

TEST_CASE("a row's mixture has the same bits whatever rows are beside it") {
  TestGpu& gpu = TestGpu::get();
  for (DeviceProfile profile : profiles_to_test()) {
    if (!profile.cpu) profile.forced = "portable"; // GPUs have other kernels for many rows
    for (TensorType type : {TensorType::f32, TensorType::f16, TensorType::q8_0, TensorType::q4_0}) {
      CAPTURE(profile.cpu8);
      CAPTURE(profile.uniform_loads);
      CAPTURE(profile.texel_loads);
      CAPTURE(info(type).name);
      Case c = shaped(type, type, 256, 160);
      c.bucket = 33;
      c.experts = 3;
      c.residual = true;
      const Layer layer(c);
      const auto bits = [&](uint32_t first, uint32_t bucket, uint32_t count) {
        const ActivationRef result = layer.run(profile, first, bucket, count);
        std::vector<uint32_t> all = gpu.read<uint32_t>(result.buffer);
        gpu.clear();
        return all;
      };
      const std::vector<uint32_t> together = bits(0, 33, 33);
      const size_t stride = together.size() / 33;
      for (const auto& [first, bucket, count] : {std::array{0u, 1u, 1u},
                                                 {16u, 1u, 1u},
                                                 {32u, 1u, 1u},
                                                 {5u, 4u, 4u},
                                                 {8u, 17u, 17u},
                                                 {3u, 30u, 11u}}) {
        const std::vector<uint32_t> some = bits(first, bucket, count);
        CHECK(std::equal(some.begin(), some.begin() + static_cast<ptrdiff_t>(count * stride),
                         together.begin() + static_cast<ptrdiff_t>(first * stride)));
      }
    }
  }
}

namespace {

// Routes rows of logits, on the device and by the reference.
struct Routed {
  std::vector<uint32_t> blocks;
  std::vector<float> shares;
};

Routed route(const DeviceProfile& profile, const std::vector<float>& logits, uint32_t experts,
             const ExpertRouting& routing, const std::vector<float>& bias, uint32_t block_slots,
             const std::vector<float>& scales = {}) {
  TestGpu& gpu = TestGpu::get();
  const uint32_t used = routing.used;
  const uint32_t rows = static_cast<uint32_t>(logits.size() / experts), slots = rows * used;
  ExpertRouteArgs args;
  args.logits = upload_rows(logits, experts, 32);
  args.routing = routing;
  if (routing.biased) args.bias = gpu.upload(bias);
  if (routing.scaled) args.scales = gpu.upload(scales);
  args.blocks = ExpertBlocks::of(1, slots, experts);
  args.blocks.buffer = gpu.upload(std::vector<uint32_t>(args.blocks.bytes() / 4, 0xeeeeeeee));
  args.shares = gpu.upload(std::vector<float>(slots, not_a_number));
  args.step = gpu.step(rows);
  std::vector<Dispatch> dispatches = {expert_route(profile, args)};
  ExpertBlocks grouped = args.blocks;
  if (block_slots > 1) {
    grouped = ExpertBlocks::of(block_slots, slots, experts);
    grouped.buffer = gpu.upload(std::vector<uint32_t>(grouped.bytes() / 4, 0xeeeeeeee));
    dispatches.push_back(expert_group(profile, experts, args.blocks, grouped));
  }
  gpu.run(dispatches);
  Routed result = {gpu.read<uint32_t>(grouped.buffer), gpu.read<float>(args.shares)};
  gpu.clear();
  return result;
}

void check_routing(const DeviceProfile& profile, const std::vector<float>& logits, uint32_t experts,
                   const ExpertRouting& routing, const std::vector<float>& bias = {},
                   const std::vector<float>& scales = {}) {
  const uint32_t used = routing.used;
  CAPTURE(profile.cpu8);
  CAPTURE(experts);
  CAPTURE(used);
  CAPTURE(routing.describe());
  const Routed got = route(profile, logits, experts, routing, bias, 1, scales);
  const uint32_t rows = static_cast<uint32_t>(logits.size() / experts);
  CHECK(got.blocks[0] == rows * used);
  size_t wrong = 0;
  for (uint32_t row = 0; row < rows; ++row) {
    const auto choices =
        route_reference(std::span(logits).subspan(size_t{row} * experts, experts), routing, bias, scales);
    for (uint32_t j = 0; j < used; ++j) {
      const uint32_t slot = row * used + j;
      wrong += got.blocks[1 + 2 * slot] != choices[j].expert || got.blocks[2 + 2 * slot] != slot;
      wrong += !(std::abs(got.shares[slot] - choices[j].share) <= 1e-5 * std::abs(choices[j].share) + 1e-30);
    }
  }
  CHECK(wrong == 0);
}

} // namespace

TEST_CASE(
    "routing takes the largest logits, of equal ones the lower expert, and no NaN or infinity upsets it") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (bool normalise : {true, false}) {
      for (uint32_t experts : {1u, 2u, 7u, 8u, 9u, 63u, 64u, 65u, 128u, 256u, 300u}) {
        for (uint32_t used : {1u, 2u, 8u, experts}) {
          if (used > experts) continue;
          const ExpertRouting routing = {.used = used, .normalise = normalise};
          check_routing(profile, random_values(size_t{13} * experts, experts + used, 4), experts, routing);
          std::vector<float> few = random_values(size_t{5} * experts, experts, 2); // many equal ones
          for (float& v : few) v = std::round(v);
          check_routing(profile, few, experts, routing);
        }
      }
      const float nan = not_a_number, inf = infinity;
      check_routing(profile, {nan, nan,  nan,  nan,   1,    nan,   2,     nan,    inf,   nan, -inf,
                              inf, -inf, -inf, -inf,  -inf, inf,   inf,   inf,    inf,   nan, 3,
                              inf, 1,    0,    -0.0f, 0,    -0.0f, 1e38f, -1e38f, 3e38f, -nan},
                    4, {.used = 3, .normalise = normalise});
    }
  }
}

TEST_CASE("routing by sigmoid, with a bias, scales and groups") {
  constexpr uint32_t groupings[][3] = {{1, 1, 1}, {4, 1, 2}, {4, 2, 1}, {8, 4, 2}, {8, 8, 2}};
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (uint32_t experts : {8u, 160u}) {
      uint32_t turn = 0;
      const std::vector<float> bias = random_values(experts, experts, 0.25f);
      const std::vector<float> scales = random_values(experts, experts + 2, 2);
      const std::vector<float> logits = random_values(size_t{11} * experts, experts + 1, 4);
      for (const auto& [groups, used_groups, group_best] : groupings) {
        ++turn;
        for (uint32_t options = 0; options < 16; ++options) {
          // Each is a kernel of its own; a short run has two with each grouping.
          if (!every_case() && (options ^ options >> 3 ^ 3 * turn) % 8 != 0) continue;
          ExpertRouting routing;
          routing.score = options & 1 ? ExpertScore::sigmoid : ExpertScore::softmax;
          routing.normalise = options & 2;
          routing.biased = options & 4;
          routing.scaled = options & 8;
          routing.scale = options & 1 ? 2.5f : 1;
          routing.groups = groups;
          routing.used_groups = used_groups;
          routing.group_best = group_best;
          for (uint32_t used : {1u, std::min(8u, experts / groups * used_groups)}) {
            routing.used = used;
            check_routing(profile, logits, experts, routing, bias, scales);
          }
        }
      }
    }
  }
}

TEST_CASE("routing by SparseMixer shares among the logits near the choice") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (uint32_t experts : {2u, 6u, 16u, 130u}) {
      for (float jitter : {0.01f, 0.3f}) {
        const ExpertRouting routing = {
            .used = 2, .score = ExpertScore::sparse_mixer, .normalise = false, .jitter = jitter};
        check_routing(profile, random_values(size_t{13} * experts, experts, 4), experts, routing);
        std::vector<float> few = random_values(size_t{5} * experts, experts, 2); // many equal ones
        for (float& v : few) v = std::round(v);
        check_routing(profile, few, experts, routing);
      }
    }
  }
}

TEST_CASE("every slot is in one block of its expert") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (uint32_t block_slots : {4u, 8u}) {
      for (const auto& sizes : {std::array{1u, 1u, 1u},
                                {3u, 8u, 2u},
                                {33u, 8u, 2u},
                                {64u, 3u, 3u},
                                {65u, 64u, 8u},
                                {300u, 256u, 8u}}) {
        const uint32_t rows = sizes[0], experts = sizes[1], used = sizes[2];
        CAPTURE(block_slots);
        CAPTURE(rows);
        CAPTURE(experts);
        const std::vector<float> logits = random_values(size_t{rows} * experts, rows);
        const ExpertRouting routing = {.used = used};
        const Routed choices = route(profile, logits, experts, routing, {}, 1);
        const std::vector<uint32_t> blocks = route(profile, logits, experts, routing, {}, block_slots).blocks;
        const uint32_t count = ExpertBlocks::of(block_slots, rows * used, experts).count;
        REQUIRE(blocks[0] <= count);
        std::set<uint32_t> slots;
        size_t wrong = 0;
        for (uint32_t b = 0; b < blocks[0]; ++b) {
          const uint32_t* block = blocks.data() + 1 + b * (1 + block_slots);
          for (uint32_t i = 1; i <= block_slots; ++i) {
            if (block[i] == 0xffffffff) continue;
            REQUIRE(block[i] < rows * used);
            slots.insert(block[i]);
            // The first places of a block are those that are taken.
            wrong += block[i - 1] == 0xffffffff || choices.blocks[1 + 2 * block[i]] != block[0];
          }
          wrong += block[0] != 0xffffffff && block[1] == 0xffffffff;
        }
        CHECK(slots.size() == rows * used);
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("a mixture that cannot be is refused with its reason") {
  const auto refusal = [](const Case& c, uint32_t used, TensorType odd, uint32_t groups = 1) {
    const Layer layer(c);
    Graph graph;
    const TensorId x = graph.add_tensor({"x", RowKind::tokens, c.hidden, {}, false});
    const TensorId logits = graph.add_tensor({"logits", RowKind::tokens, c.experts, {}, false});
    const TestWeight other(odd, c.ff, c.hidden, 1);
    ExpertWeights weights;
    for (uint32_t e = 0; e < c.experts; ++e) {
      weights.gate.push_back(graph.weight(layer.gate.weight.slice(e * c.ff, c.ff), "feed-forward"));
      weights.down.push_back(graph.weight(layer.down.weight.slice(e * c.hidden, c.hidden), "feed-forward"));
    }
    weights.up = weights.gate;
    weights.up[1] = graph.weight(other.weight, "feed-forward");
    Experts operation;
    operation.count = c.experts;
    operation.routing.used = used;
    operation.routing.groups = groups;
    const TensorId out = experts(graph, "mixture", x, logits, weights, operation);
    TestLowering lowering(TestGpu::get().profile, graph, TestGpu::get().step(1));
    lowering.place(x, blank_rows(1, c.hidden));
    lowering.place(logits, blank_rows(1, c.experts));
    lowering.place(out, blank_rows(1, c.hidden));
    const Status status = lowering.lower(0);
    TestGpu::get().clear();
    return status.ok() ? std::string() : status.error().text();
  };
  CHECK(refusal({}, 2, TensorType::f32) == "");
  CHECK(refusal({}, 9, TensorType::f32).find("9 of 8 experts") != std::string::npos);
  CHECK(refusal({}, 0, TensorType::f32).find("0 of 8 experts") != std::string::npos);
  CHECK(refusal({}, 2, TensorType::f16).find("F16 [160, 64]") != std::string::npos);
  CHECK(refusal({}, 2, TensorType::f32, 3).find("3 groups of 8 experts") != std::string::npos);
  CHECK(refusal({}, 2, TensorType::f32, 8).find("1 of 8 groups") != std::string::npos);
}
