#include "kernel/attention/attention_case.h"
#include "kernel/products/weights.h"
#include "kernel/test_lowering.h"

// Attention as a graph has it: what it gets from the plan beside its arguments.

using namespace attention_case;

namespace {

// What lowering an attention over a cache of 2 heads of 12 dimensions says.
std::string complaint(const Attention& operation, const TestWeight* table = nullptr, uint32_t window = 0) {
  Graph graph;
  const TensorId q = graph.add_tensor({"q", RowKind::tokens, 48});
  std::optional<WeightId> weight;
  if (table) weight = graph.weight(table->weight, "attention");
  const TensorId result = attention(graph, "result", q, operation, weight);
  TestLowering lowering(DeviceProfile{}, graph, {});
  lowering.place_cache(0, {{CacheType::f16, 1, 64, 2, 12, window}, {}, {}});
  lowering.place(q, {{}, 1, 0, 48, 64});
  lowering.place(result, {{}, 1, 0, 48, 64});
  const Status status = lowering.lower(0);
  return status.ok() ? "" : status.error().message;
}

} // namespace

TEST_CASE("attention lowered: a bias's table, of an attention and of its weights") {
  TestGpu& gpu = TestGpu::get();
  const uint32_t length = 40;
  std::vector<Row> rows;
  for (uint32_t i = 0; i < length; ++i) rows.push_back({0, i, 0, 0, length});
  Case c = make_case(CacheType::f16, 3, 3, 24, rows);
  c.options.mask = AttentionMask::bidirectional;
  c.options.bias = {8, 20, true};
  const TestWeight table(TensorType::f16, 8, 3, 1);
  for (uint32_t bucket = 0; bucket < 8; ++bucket) {
    for (float value : table.decoded(bucket)) c.options.bias_table.push_back(value);
  }
  const Cache cache = make_cache(c);
  const std::vector<float> q = make_queries(c);
  std::vector<double> expected, expected_weights;
  for (size_t row = 0; row < rows.size(); ++row) {
    const Attended one = attend(cache, c.options, rows[row], q.data() + row * c.columns());
    expected.insert(expected.end(), one.result.begin(), one.result.end());
    expected_weights.insert(expected_weights.end(), one.weights.begin(), one.weights.end());
  }

  Graph graph;
  const TensorId q_id = graph.add_tensor({"q", RowKind::tokens, c.columns()});
  Attention operation;
  operation.layer = 3;
  operation.heads = 3;
  operation.scale = static_cast<float>(c.options.scale);
  operation.mask = AttentionMask::bidirectional;
  operation.bias = c.options.bias;
  const TensorId result_id =
      attention(graph, "result", q_id, operation, graph.weight(table.weight, "attention"));
  const TensorId weights_id = attention_weights(graph, "weights", result_id, length);
  for (const DeviceProfile& profile : profiles_to_test()) {
    TestLowering lowering(profile, graph, gpu.upload(step_block(c)));
    lowering.set_step_layout(step_layout(c));
    lowering.place_cache(3, {c.layout, gpu.upload(cache.packed_keys()), gpu.upload(cache.packed_values())});
    const ActivationRef result = blank_rows(length, c.columns()), weights = blank_rows(length, 3 * length);
    lowering.place(q_id, upload_rows(q, c.columns()));
    lowering.place(result_id, result);
    lowering.place(weights_id, weights);
    lowering.place(graph.nodes()[0].more_outputs[0], blank_rows(length, 6));
    REQUIRE(lowering.lower(0));
    REQUIRE(lowering.lower(1));
    lowering.run();
    check_rows(result, expected, 2e-6);
    check_rows(weights, expected_weights, 2e-6);
    gpu.clear();
  }
}

TEST_CASE("attention lowered: a linear bias") {
  TestGpu& gpu = TestGpu::get();
  const uint32_t length = 40;
  std::vector<Row> rows;
  for (uint32_t i = 0; i < length; ++i) rows.push_back({0, i, 0, 0, length});
  Case c = make_case(CacheType::f32, 3, 3, 24, rows); // three heads: no power of two
  // The reference's buckets are one for each distance below 64.
  c.options.bias = {128, 200, false};
  const float slopes[] = {0.0625f, 0.00390625f, 0.25f};
  for (uint32_t bucket = 0; bucket < 128; ++bucket) {
    for (float slope : slopes) c.options.bias_table.push_back(-slope * static_cast<float>(bucket));
  }
  const Cache cache = make_cache(c);
  const std::vector<float> q = make_queries(c);
  std::vector<double> expected;
  for (size_t row = 0; row < rows.size(); ++row) {
    const Attended one = attend(cache, c.options, rows[row], q.data() + row * c.columns());
    expected.insert(expected.end(), one.result.begin(), one.result.end());
  }
  Graph graph;
  const TensorId q_id = graph.add_tensor({"q", RowKind::tokens, c.columns()});
  Attention operation;
  operation.layer = 3;
  operation.heads = 3;
  operation.scale = static_cast<float>(c.options.scale);
  operation.bias.linear = true;
  operation.bias.max_distance = 63;
  const TensorId result_id = attention(graph, "result", q_id, operation);
  for (const DeviceProfile& profile : profiles_to_test()) {
    TestLowering lowering(profile, graph, gpu.upload(step_block(c)));
    lowering.set_step_layout(step_layout(c));
    lowering.place_cache(3, {c.layout, gpu.upload(cache.packed_keys()), gpu.upload(cache.packed_values())});
    const ActivationRef result = blank_rows(length, c.columns());
    lowering.place(q_id, upload_rows(q, c.columns()));
    lowering.place(result_id, result);
    REQUIRE(lowering.lower(0));
    lowering.run();
    check_rows(result, expected, 2e-6);
    gpu.clear();
  }
}

TEST_CASE("attention lowered: what no kernel can do is refused") {
  Attention operation;
  operation.heads = 4;
  CHECK(complaint(operation) == "");
  CHECK(complaint(operation, nullptr, 9) ==
        "layer 0: attention over all positions, and the cache keeps 9 of them");

  operation.window = 9;
  CHECK(complaint(operation, nullptr, 9) == "");
  operation.mask = AttentionMask::bidirectional;
  CHECK(complaint(operation) == "");
  operation.chunked = true;
  CHECK(complaint(operation) == "layer 0: a chunk of 9 positions of another text");
  operation.chunked = false;
  operation.mask = AttentionMask::cross;
  CHECK(complaint(operation) == "layer 0: a window of 9 positions of another text");
  operation.mask = AttentionMask::bidirectional;
  operation.window = 0;
  CHECK(complaint(operation) == "");

  const TestWeight table(TensorType::f32, 8, 4, 1), narrow(TensorType::f32, 8, 3, 1);
  operation.bias = {8, 20, true};
  CHECK(complaint(operation, &table) == "");
  CHECK(complaint(operation, &narrow).find("it has 8 buckets of 3 heads, and the settings say 8 of 4") !=
        std::string::npos);
  for (const RelativeBias& bias :
       {RelativeBias{3, 20, true}, {8, 2, true}, {8, 4, false}, {8, 1u << 30, true}}) {
    operation.bias = bias;
    CHECK(complaint(operation, &table).find("a relative bias of") != std::string::npos);
  }
  operation.bias = {8, 20, true};
  operation.mask = AttentionMask::cross;
  CHECK(complaint(operation, &table).find("a bias by distance between two texts") != std::string::npos);
}
