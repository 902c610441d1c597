// Operations with states against a plain reference, in whatever steps a text is cut into, beside another
// text, and after going back to a checkpoint. Where a kernel goes position by position, all of these give the
// same bits; kernels that go chunk by chunk do wherever steps begin with a chunk.
#include "kernel/recurrence/recurrence.h"

#include <functional>

#include <doctest/doctest.h>

#include "kernel/recurrence_reference.h"
#include "kernel/test_lowering.h"
#include "shaders/recurrence/chunks.params.h"
#include "support/in_turn.h"

using namespace pumice;

namespace {

constexpr uint32_t positions = 2 * StateLayout::interval + 3; // of each of two texts
constexpr uint32_t texts = 2;

// A weight of plain floats.
struct Vector {
  std::vector<float> values;
  TensorView view;

  Vector(std::vector<uint64_t> shape, uint32_t seed) {
    uint64_t count = 1;
    for (uint64_t size : shape) count *= size;
    values = random_values(count, seed);
    view = {"vector", TensorType::f32, std::move(shape), std::as_bytes(std::span(values))};
  }
  WeightId add(Graph& graph) const { return graph.weight(WeightView::flat(view), "attention"); }
};

// The inputs of an operation, [texts * positions, columns] each, one text after the other.
struct Input {
  uint32_t columns = 0;
  std::vector<float> values;

  Input(uint32_t count, uint32_t seed)
      : columns(count), values(random_values(size_t{texts} * positions * count, seed, 2)) {}
  std::span<const float> text(uint32_t index) const {
    return std::span(values).subspan(size_t{index} * positions * columns, size_t{positions} * columns);
  }
};

// A range of positions of a text.
struct Run {
  uint32_t text = 0, first = 0, end = 0;
};

// Runs steps of one operation over parts of texts, which share its states.
class Steps {
public:
  using AddNode = std::function<TensorId(Graph& graph, const std::vector<TensorId>& inputs)>;

  Steps(const DeviceProfile& profile, std::vector<const Input*> inputs, uint32_t floats, AddNode add,
        uint32_t drafts = 0)
      : profile_(profile), inputs_(std::move(inputs)), add_(std::move(add)) {
    state_.layout = {floats, texts, 2, drafts};
    state_.buffer = TestGpu::get().upload(std::vector<float>(state_.layout.bytes() / 4, not_a_number));
  }

  // The results of the runs' rows.
  std::vector<float> run(const std::vector<Run>& runs) {
    std::vector<StepRow> rows;
    for (const Run& each : runs) {
      for (uint32_t at = each.first; at < each.end; ++at) rows.push_back({0, at, each.text, 0});
    }
    const auto capacity = static_cast<uint32_t>(rows.size()) + 1;
    Graph graph;
    std::vector<TensorId> ids;
    for (const Input* input : inputs_)
      ids.push_back(graph.add_tensor({"in", RowKind::tokens, input->columns}));
    const TensorId out = add_(graph, ids);
    TestLowering lowering(profile_, graph, TestGpu::get().step(rows, {}, capacity));
    lowering.set_step_layout({capacity, runs.size() == 1 ? 1 : texts, 0});
    lowering.place_state(0, state_);
    for (size_t i = 0; i < ids.size(); ++i) lowering.place(ids[i], rows_of(*inputs_[i], rows));
    const ActivationRef result = blank_rows(capacity, graph.tensor(out).columns, 32);
    lowering.place(out, result);
    for (size_t node = 0; node < graph.nodes().size(); ++node) {
      const TensorId made = graph.nodes()[node].output;
      if (made != out) lowering.place(made, blank_rows(capacity, graph.tensor(made).columns, 32));
      const Status status = lowering.lower(node);
      if (!status.ok()) FAIL(status.error().text());
    }
    lowering.run();
    return values_of(result, rows.size());
  }

private:
  static ActivationRef rows_of(const Input& input, const std::vector<StepRow>& rows) {
    std::vector<float> values;
    for (const StepRow& row : rows) {
      const auto from = input.text(row.sequence).subspan(size_t{row.position} * input.columns, input.columns);
      values.insert(values.end(), from.begin(), from.end());
    }
    values.resize(values.size() + input.columns, not_a_number); // a row that the step has not
    return upload_rows(values, input.columns, 32, true);
  }

  // Checks what lies around them too.
  static std::vector<float> values_of(const ActivationRef& result, size_t rows) {
    const std::vector<float> all = TestGpu::get().read<float>(result.buffer);
    std::vector<float> values;
    size_t wrong = 0;
    for (size_t row = 0; row < result.rows; ++row) {
      const float* from = all.data() + row * result.stride;
      for (uint32_t i = 0; i < result.stride; ++i) {
        if (row < rows && i < result.columns) {
          values.push_back(from[i]);
        } else {
          wrong += from[i] != (row < rows && i < result.padded_columns() ? 0.0f : sentinel);
        }
      }
    }
    CHECK(wrong == 0);
    return values;
  }

  DeviceProfile profile_;
  std::vector<const Input*> inputs_;
  AddNode add_;
  StateRef state_;
};

void append(std::vector<float>& to, const std::vector<float>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

// Each way in which the test device can run the operations: as a CPU driver, and as a GPU in every variant.
std::vector<DeviceProfile> every_profile() {
  std::vector<DeviceProfile> profiles;
  for (const DeviceProfile& profile : profiles_to_test()) {
    if (profile.cpu) profiles.push_back(profile);
  }
  for (const char* variant : {"portable", "chunked"}) {
    profiles.push_back(forced_profile(variant));
    profiles.back().cpu = TestGpu::get().profile.cpu; // its limits hold
  }
  return profiles;
}

// Chunks' kernels are one for each size of a state, and take a driver without GPU seconds to compile: a short
// run has them of one size, for the delta rule one that is not a multiple of four.
bool takes_long(const DeviceProfile& profile, uint32_t size, uint32_t quick_size) {
  return !every_case() && profile.forced == "chunked" && size != quick_size;
}

// Steps of a row and three guesses, of which none, some or all hold, beside another text and across
// checkpoints.
void check_guesses(Steps& steps, std::span<const float> whole) {
  const size_t columns = whole.size() / positions;
  steps.run({{1, 0, 9}});
  for (uint32_t at = 9, hold = 0; at + 4 <= positions; at += 1 + hold, hold = (hold + 1) % 4) {
    CAPTURE(at);
    const std::vector<float> both = steps.run({{0, at % 3, at % 3 + 2}, {1, at, at + 4}});
    const auto held = (1 + hold) * columns;
    CHECK(std::ranges::equal(std::span(both).subspan(2 * columns, held), whole.subspan(at * columns, held)));
  }
}

void check(const DeviceProfile& profile, const std::vector<const Input*>& inputs, uint32_t floats,
           const Steps::AddNode& add, const std::vector<double>& expected) {
  CAPTURE(profile.workgroup);
  CAPTURE(profile.forced);
  const bool in_chunks = profile.forced == "chunked";
  const std::vector<float> rounded(expected.begin(), expected.end());
  std::vector<float> whole;
  {
    Steps steps(profile, inputs, floats, add);
    whole = steps.run({{1, 0, positions}});
  }
  CHECK(relative_rms(whole, rounded) <= 2e-6);
  for (uint32_t chunk : {1u, 7u, CHUNK_ROWS, CHUNK_ROWS + 1, 64u}) {
    CAPTURE(chunk);
    Steps steps(profile, inputs, floats, add);
    std::vector<float> joined;
    for (uint32_t at = 0; at < positions; at += chunk) {
      const uint32_t end = std::min(at + chunk, positions);
      const std::vector<float> both = steps.run({{0, at, end}, {1, at, end}});
      joined.insert(joined.end(), both.begin() + static_cast<ptrdiff_t>(both.size() / 2), both.end());
    }
    if (in_chunks) {
      CHECK(relative_rms(joined, rounded) <= 2e-6);
    }
    if (!in_chunks || chunk % CHUNK_ROWS == 0) CHECK(joined == whole); // to the bit
  }
  // Going back to the last checkpoint of each.
  Steps steps(profile, inputs, floats, add);
  std::vector<float> joined = steps.run({{1, 0, StateLayout::interval}});
  steps.run({{1, StateLayout::interval, StateLayout::interval + 9}});
  append(joined, steps.run({{1, StateLayout::interval, 2 * StateLayout::interval + 1}}));
  steps.run({{1, 2 * StateLayout::interval + 1, positions}});
  joined.resize(joined.size() / (StateLayout::interval * 2 + 1) * 2 * StateLayout::interval);
  append(joined, steps.run({{1, 2 * StateLayout::interval, positions}}));
  CHECK(joined == whole);
  if (!in_chunks) {
    Steps guessing(profile, inputs, floats, add, 3);
    check_guesses(guessing, whole);
  }
  TestGpu::get().clear();
}

} // namespace

TEST_CASE("causal convolution") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (uint32_t columns : {1u, 33u, 160u}) {
      for (uint32_t taps : {2u, 3u, 4u, CausalConvolution::most_taps}) {
        CAPTURE(columns);
        CAPTURE(taps);
        const Input x(columns, columns + taps);
        const Vector weights({columns, taps}, 1), bias({columns}, 2);
        const auto add = [&](Graph& graph, const std::vector<TensorId>& in) {
          CausalConvolution operation;
          operation.taps = taps;
          operation.activation = Activation::silu;
          return causal_convolution(graph, "out", in[0], weights.add(graph), bias.add(graph), operation);
        };
        check(profile, {&x}, CausalConvolution::state_floats(columns, taps), add,
              causal_convolution_reference(x.text(1), columns, weights.values, bias.values, taps));
      }
    }
  }
}

TEST_CASE("selective scan") {
  struct Shape {
    uint32_t heads, head_dim, groups, size;
    bool wide = false;
  };
  for (const DeviceProfile& profile : every_profile()) {
    for (const Shape& shape : {Shape{1, 1, 1, 1},
                               {6, 5, 2, 7},
                               {4, 16, 1, 16},
                               {2, 40, 1, 128},
                               {1, 3, 1, 260},
                               {35, 1, 1, 16, true},
                               {6, 1, 2, 7, true}}) {
      if (shape.wide ? profile.forced == "chunked" : takes_long(profile, shape.size, 128)) continue;
      SelectiveScan operation;
      operation.heads = shape.heads;
      operation.head_dim = shape.head_dim;
      operation.groups = shape.groups;
      operation.size = shape.size;
      operation.wide = shape.wide;
      const uint32_t shared = shape.groups * shape.size;
      const Input x(operation.columns(), 1), b(shared, 2), c(shared, 3), steps(shape.heads, 4);
      const Vector bias({shape.heads}, 5), a({shape.heads * (shape.wide ? shape.size : 1)}, 6),
          skip({shape.heads}, 7);
      const auto add = [&](Graph& graph, const std::vector<TensorId>& in) {
        return selective_scan(graph, "out",
                              {in[0], in[1], in[2], in[3], bias.add(graph), a.add(graph), skip.add(graph)},
                              operation);
      };
      check(profile, {&x, &b, &c, &steps}, operation.state_floats(), add,
            selective_scan_reference(operation, {x.text(1), b.text(1), c.text(1), steps.text(1), bias.values,
                                                 a.values, skip.values}));
    }
  }
}

TEST_CASE("gated delta rule") {
  struct Shape {
    uint32_t key_heads, key_dim, value_heads, value_dim;
  };
  for (const DeviceProfile& profile : every_profile()) {
    for (const Shape& shape :
         {Shape{1, 1, 1, 1}, {2, 7, 6, 5}, {2, 16, 4, 16}, {1, 128, 2, 40}, {1, 260, 1, 3}}) {
      if (takes_long(profile, shape.key_dim, 7)) continue;
      DeltaRule operation;
      operation.key_heads = shape.key_heads;
      operation.key_dim = shape.key_dim;
      operation.value_heads = shape.value_heads;
      operation.value_dim = shape.value_dim;
      const uint32_t keys = shape.key_heads * shape.key_dim;
      const Input query(keys, 1), key(keys, 2), value(operation.columns(), 3), decays(shape.value_heads, 4),
          rates(shape.value_heads, 5);
      const Vector bias({shape.value_heads}, 6), a({shape.value_heads}, 7);
      const auto add = [&](Graph& graph, const std::vector<TensorId>& in) {
        return delta_rule(graph, "out", {in[0], in[1], in[2], in[3], in[4], bias.add(graph), a.add(graph)},
                          operation);
      };
      check(profile, {&query, &key, &value, &decays, &rates}, operation.state_floats(), add,
            delta_rule_reference(operation, {query.text(1), key.text(1), value.text(1), decays.text(1),
                                             rates.text(1), bias.values, a.values}));
    }
  }
}

TEST_CASE("recurrences of as many sequences as rows go row by row, those of more rows in chunks") {
  struct Step {
    uint32_t rows, sequences;
    bool in_chunks;
    uint32_t drafts = 0;
  };
  for (const Step& step : {Step{15, 1, false},
                           {16, 1, true},
                           {16, 16, false},
                           {17, 16, true},
                           {16, 3, false, 3},
                           {17, 3, true, 3}}) {
    CAPTURE(step.rows);
    CAPTURE(step.sequences);
    Graph graph;
    DeltaRule operation;
    operation.key_heads = operation.value_heads = 2;
    operation.key_dim = operation.value_dim = 8;
    const auto input = [&](uint32_t columns) { return graph.add_tensor({"in", RowKind::tokens, columns}); };
    const std::vector<TensorId> in = {input(16), input(16), input(16), input(4)};
    const TensorId out = graph.add(operation, in, {}, {"out", RowKind::tokens, 16});
    DeviceProfile profile = forced_profile("");
    profile.cpu = profile.cpu8 = false;
    TestLowering lowering(profile, graph, {});
    lowering.set_step_layout({step.rows, step.sequences, 0});
    lowering.place_state(0, {{operation.state_floats(), step.sequences, 1, step.drafts}, {}});
    for (const TensorId id : in) lowering.place(id, {{}, step.rows, 0, graph.tensor(id).columns, 64});
    lowering.place(out, {{}, step.rows, 0, 16, 64});
    const Status status = lowering.lower(0);
    if (!status.ok()) FAIL(status.error().text());
    CHECK(lowering.dispatches().back().kernel ==
          (step.in_chunks ? "chunk_states.delta" : "delta_rule_portable"));
    TestGpu::get().clear();
  }
}

TEST_CASE("gated delta rule that keeps nothing of a state, or all of it") {
  DeltaRule operation;
  operation.key_heads = operation.value_heads = 2;
  operation.key_dim = operation.value_dim = 8;
  const Input query(16, 1), key(16, 2), value(16, 3), rates(2, 5);
  Input decays(2, 4);
  for (float& decay : decays.values) decay *= 200; // keeps from 0 to 1
  const Vector bias({2}, 6), a({2}, 7);
  const auto add = [&](Graph& graph, const std::vector<TensorId>& in) {
    return delta_rule(graph, "out", {in[0], in[1], in[2], in[3], in[4], bias.add(graph), a.add(graph)},
                      operation);
  };
  const std::vector<double> expected =
      delta_rule_reference(operation, {query.text(1), key.text(1), value.text(1), decays.text(1),
                                       rates.text(1), bias.values, a.values});
  for (const DeviceProfile& profile : every_profile())
    check(profile, {&query, &key, &value, &decays, &rates}, operation.state_floats(), add, expected);
}

TEST_CASE("norm of each head") {
  TestGpu& gpu = TestGpu::get();
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (uint32_t head_dim : {1u, 5u, 16u, 100u}) {
      const uint32_t columns = 3 * head_dim, rows = 4;
      const std::vector<float> x = random_values(size_t{rows} * columns, head_dim);
      const Vector weight({head_dim}, 1);
      std::vector<double> expected;
      for (size_t first = 0; first < x.size(); first += head_dim) {
        double squares = 0;
        for (uint32_t i = 0; i < head_dim; ++i) squares += double{x[first + i]} * x[first + i];
        const double scale = 1 / std::sqrt(squares / head_dim + 1e-5);
        for (uint32_t i = 0; i < head_dim; ++i) expected.push_back(x[first + i] * scale * weight.values[i]);
      }
      Graph graph;
      const TensorId in = graph.add_tensor({"x", RowKind::tokens, columns});
      const TensorId out = head_norm(graph, "out", in, weight.add(graph), head_dim, 1e-5f);
      TestLowering lowering(profile, graph, gpu.step(rows));
      const ActivationRef result = blank_rows(rows, columns, 32);
      lowering.place(in, upload_rows(x, columns, 32, true));
      lowering.place(out, result);
      const Status status = lowering.lower(0);
      if (!status.ok()) FAIL(status.error().text());
      lowering.run();
      check_rows(result, expected, 2e-6);
      gpu.clear();
    }
  }
}
