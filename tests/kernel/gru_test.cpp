// Gated recurrent units against a plain reference: whole inputs both ways, and a decoder that attends to an
// input, cut into steps and with beams that share their past.
#include "kernel/recurrence/gru.h"

#include <cmath>
#include <numeric>

#include <doctest/doctest.h>

#include "kernel/inputs_step.h"
#include "kernel/run_graph.h"

using namespace pumice;

namespace {

// A weight of plain floats.
struct Matrix {
  std::vector<float> values;
  TensorView view;

  Matrix(std::vector<uint64_t> shape, uint32_t seed) {
    const uint64_t count = std::accumulate(shape.begin(), shape.end(), uint64_t{1}, std::multiplies<>());
    values = random_values(count, seed);
    // Sums of a row stay near 1.
    const float scale = shape.size() > 1 ? 1 / std::sqrt(static_cast<float>(shape[1])) : 1;
    for (float& each : values) each *= scale;
    view = {"matrix", TensorType::f32, std::move(shape), std::as_bytes(std::span(values))};
  }
  WeightId add(Graph& graph) const { return graph.weight(WeightView::flat(view), "recurrence"); }
  double product(size_t row, std::span<const double> x) const {
    double sum = 0;
    for (size_t i = 0; i < x.size(); ++i) sum += double{values[row * x.size() + i]} * x[i];
    return sum;
  }
};

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

// One position: `x` holds the gates' inputs, [3 * hidden].
void cell(std::span<const double> x, const Matrix& matrix, const Matrix& bias, std::vector<double>& state) {
  const size_t hidden = state.size();
  std::vector<double> next(hidden);
  for (size_t i = 0; i < hidden; ++i) {
    const auto own = [&](size_t gate) {
      return matrix.product(gate * hidden + i, state) + bias.values[gate * hidden + i];
    };
    const double r = sigmoid(x[i] + own(0)), z = sigmoid(x[hidden + i] + own(1));
    next[i] = (1 - z) * std::tanh(x[2 * hidden + i] + r * own(2)) + z * state[i];
  }
  state = next;
}

void check_gru(const DeviceProfile& profile, uint32_t hidden, const std::vector<StepInput>& inputs,
               bool both) {
  CAPTURE(profile.workgroup);
  CAPTURE(hidden);
  const uint32_t rows = rows_of(inputs), bucket = rows + 2, directions = both ? 2 : 1;
  std::vector<std::vector<float>> gates;
  std::vector<Matrix> matrices, biases;
  for (uint32_t d = 0; d < directions; ++d) {
    gates.push_back(random_values(size_t{bucket} * 3 * hidden, 7 + d));
    matrices.emplace_back(std::vector<uint64_t>{uint64_t{3} * hidden, hidden}, 11 + d);
    biases.emplace_back(std::vector<uint64_t>{uint64_t{3} * hidden}, 13 + d);
  }
  std::vector<double> expected(size_t{rows} * directions * hidden);
  for (uint32_t d = 0; d < directions; ++d) {
    uint32_t row = 0;
    for (const StepInput& input : inputs) {
      std::vector<double> state(hidden);
      for (uint32_t n = 0; n < input.rows; ++n) {
        const size_t at = row + (d ? input.rows - 1 - n : n);
        const auto from = gates[d].begin() + static_cast<ptrdiff_t>(at * 3 * hidden);
        cell(std::vector<double>(from, from + 3 * static_cast<ptrdiff_t>(hidden)), matrices[d], biases[d],
             state);
        std::ranges::copy(state, expected.begin() + static_cast<ptrdiff_t>((at * directions + d) * hidden));
      }
      row += input.rows;
    }
  }
  Graph graph;
  std::vector<TensorId> ids;
  std::vector<GruWeights> weights;
  std::vector<std::pair<TensorId, ActivationRef>> places;
  for (uint32_t d = 0; d < directions; ++d) {
    ids.push_back(graph.add_tensor({"gates", RowKind::tokens, 3 * hidden}));
    weights.push_back({matrices[d].add(graph), biases[d].add(graph)});
    places.emplace_back(ids.back(), upload_rows(gates[d], 3 * hidden, 32, d == 0));
  }
  const TensorId out = gru(graph, "states", ids, weights, hidden);
  const ActivationRef result = blank_rows(bucket, directions * hidden, 32);
  places.emplace_back(out, result);
  run_graph(profile, graph, inputs_step(inputs, bucket), bucket, places);
  check_rows(result, expected, 2e-5);
  TestGpu::get().clear();
}

constexpr uint32_t memory_positions = 96, capacity = 64;

// Positions of the input that a decoder reads.
struct Range {
  uint32_t first = 0, end = 0;
};

// A decoder, its weights and the input that it reads.
struct Decoder {
  uint32_t hidden;
  Matrix bridge, bridge_bias, query, score, input, input_bias, state, state_bias;
  std::vector<float> keys, values; // [memory_positions, hidden]
  Range range;

  Decoder(uint32_t width, Range input_range)
      : hidden(width), bridge({width, width}, 1), bridge_bias({width}, 2), query({width, width}, 3),
        score({1, width}, 4), input({3 * width, 2 * width}, 5), input_bias({3 * width}, 6),
        state({3 * width, width}, 7), state_bias({3 * width}, 8),
        keys(random_values(size_t{memory_positions} * width, 9)),
        values(random_values(size_t{memory_positions} * width, 10)), range(input_range) {}

  std::span<const float> row(const std::vector<float>& all, uint32_t position) const {
    return std::span(all).subspan(size_t{position} * hidden, hidden);
  }

  std::vector<double> first_state() const {
    std::vector<double> ends(hidden), first(hidden);
    for (uint32_t i = 0; i < hidden && range.first < range.end; ++i) {
      ends[i] = row(values, i < hidden / 2 ? range.end - 1 : range.first)[i];
    }
    for (uint32_t i = 0; i < hidden; ++i)
      first[i] = std::tanh(bridge.product(i, ends) + bridge_bias.values[i]);
    return first;
  }

  // Appends a row of the result, and one of `columns` weights.
  void step(std::span<const float> x, std::vector<double>& h, std::vector<double>& result,
            std::vector<double>& shares, uint32_t columns) const {
    std::vector<double> found(columns), read(x.begin(), x.end());
    double total = 0;
    for (uint32_t at = range.first; at < range.end; ++at) {
      double sum = 0;
      for (uint32_t i = 0; i < hidden; ++i) {
        sum += score.values[i] * std::tanh(query.product(i, h) + row(keys, at)[i]);
      }
      total += found[at - range.first] = std::exp(sum);
    }
    for (double& each : found) each = total > 0 ? each / total : 0;
    for (uint32_t i = 0; i < hidden; ++i) {
      double sum = 0;
      for (uint32_t at = range.first; at < range.end; ++at)
        sum += found[at - range.first] * row(values, at)[i];
      read.push_back(sum);
    }
    std::vector<double> gates;
    for (uint32_t i = 0; i < 3 * hidden; ++i) gates.push_back(input.product(i, read) + input_bias.values[i]);
    cell(gates, state, state_bias, h);
    result.insert(result.end(), h.begin(), h.end());
    result.insert(result.end(), read.begin() + hidden, read.end());
    result.insert(result.end(), x.begin(), x.end());
    shares.insert(shares.end(), found.begin(), found.end());
  }
};

// A cache of one head, in f32, with these rows as keys and as values.
CacheRef make_cache(uint32_t hidden, uint32_t sequences, uint32_t positions, std::span<const float> keys,
                    std::span<const float> values) {
  CacheRef cache;
  cache.layout = {CacheType::f32, sequences, positions, 1, hidden, 0, false};
  const size_t padded = cache.layout.head_dim_padded();
  std::vector<float> k(cache.layout.key_bytes() / 4), v(k.size());
  for (size_t at = 0; at < keys.size(); ++at) {
    const size_t position = at / hidden, d = at % hidden;
    k[position / 8 * 8 * padded + (d / 4 * 8 + position % 8) * 4 + d % 4] = keys[at];
    v[position * padded + d] = values[at];
  }
  cache.keys = TestGpu::get().upload(k);
  cache.values = TestGpu::get().upload(v);
  return cache;
}

// The step block of rows in `sequences` sequences that read one input. `from`: with a cache indirection, the
// sequence that holds each position of each sequence.
BufferRef decoder_step(const std::vector<StepRow>& rows, const StepLayout& layout, const Range& range,
                       const std::vector<uint32_t>& from) {
  std::vector<uint32_t> block(layout.bytes() / 4);
  block[0] = static_cast<uint32_t>(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const StepRow& row = rows[i];
    const uint32_t quad[] = {row.token, row.position, row.sequence, row.first_visible};
    std::ranges::copy(quad, block.begin() + static_cast<ptrdiff_t>((STEP_HEADER_QUADS + i) * 4));
  }
  for (uint32_t sequence = 0; sequence < layout.sequences; ++sequence) {
    block[(layout.sequence_quads() + sequence) * 4] = range.first;
    block[(layout.sequence_quads() + sequence) * 4 + 1] = range.end;
  }
  std::ranges::copy(from, block.begin() + layout.cache_indirection() * 4);
  return TestGpu::get().upload(block);
}

struct DecoderRun {
  std::vector<float> result, shares;
};

// Runs the operation over rows, whose embeddings are those of `x` at their position.
DecoderRun run_decoder(const DeviceProfile& profile, const Decoder& decoder, const CacheRef& states,
                       const CacheRef& memory, const std::vector<float>& x, const std::vector<StepRow>& rows,
                       const std::vector<uint32_t>& from = {}) {
  const uint32_t hidden = decoder.hidden, bucket = static_cast<uint32_t>(rows.size()) + 1, columns = 40;
  Graph graph;
  const TensorId in = graph.add_tensor({"x", RowKind::tokens, hidden});
  AttentiveGruWeights weights = {decoder.bridge.add(graph), decoder.bridge_bias.add(graph),
                                 decoder.query.add(graph),  decoder.score.add(graph),
                                 decoder.input.add(graph),  decoder.input_bias.add(graph),
                                 decoder.state.add(graph),  decoder.state_bias.add(graph)};
  AttentiveGru operation;
  operation.hidden = hidden;
  operation.states = 0;
  operation.memory = 1;
  const TensorId out = attentive_gru(graph, "states", in, weights, operation);
  const TensorId kept = attentive_gru_weights(graph, "weights", out, columns);
  std::vector<float> embeddings;
  for (const StepRow& row : rows) {
    const auto own = decoder.row(x, row.position);
    embeddings.insert(embeddings.end(), own.begin(), own.end());
  }
  embeddings.resize(embeddings.size() + hidden, not_a_number);
  StepLayout layout;
  layout.capacity = bucket;
  layout.sequences = states.layout.sequences;
  layout.positions = from.empty() ? 0 : states.layout.capacity;
  TestLowering lowering(profile, graph, decoder_step(rows, layout, decoder.range, from));
  lowering.set_step_layout(layout);
  lowering.place_cache(0, states);
  lowering.place_cache(1, memory);
  lowering.place(in, upload_rows(embeddings, hidden, 32, true));
  const ActivationRef result = blank_rows(bucket, 3 * hidden, 32), shares = blank_rows(bucket, columns, 32);
  lowering.place(out, result);
  lowering.place(kept, shares);
  if (const Status status = lowering.lower(0); !status.ok()) FAIL(status.error().text());
  lowering.run();
  const auto values = [&](const ActivationRef& where) {
    const std::vector<float> all = TestGpu::get().read<float>(where.buffer);
    std::vector<float> own;
    for (size_t row = 0; row < rows.size(); ++row) {
      const auto at = all.begin() + static_cast<ptrdiff_t>(row * where.stride);
      own.insert(own.end(), at, at + where.columns);
    }
    return own;
  };
  return {values(result), values(shares)};
}

void check_close(std::span<const float> got, std::span<const double> expected, double most) {
  REQUIRE(got.size() == expected.size());
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) worst = std::max(worst, std::abs(got[i] - expected[i]));
  CHECK(worst < most);
}

std::vector<StepRow> rows_of_sequence(uint32_t sequence, uint32_t first, uint32_t end) {
  std::vector<StepRow> rows;
  for (uint32_t at = first; at < end; ++at) rows.push_back({0, at, sequence, 0});
  return rows;
}

void check_decoder(const DeviceProfile& profile, uint32_t hidden, Range range) {
  CAPTURE(profile.workgroup);
  CAPTURE(hidden);
  CAPTURE(range.end);
  constexpr uint32_t positions = 11;
  const Decoder decoder(hidden, range);
  const std::vector<float> x = random_values(size_t{positions} * hidden, 21);
  std::vector<double> state = decoder.first_state(), result, shares;
  for (uint32_t at = 0; at < positions; ++at) decoder.step(decoder.row(x, at), state, result, shares, 40);
  const CacheRef memory = make_cache(hidden, 1, memory_positions, decoder.keys, decoder.values);
  const CacheRef states = make_cache(hidden, 3, capacity, {}, {});

  const DecoderRun whole =
      run_decoder(profile, decoder, states, memory, x, rows_of_sequence(1, 0, positions));
  check_close(whole.result, result, 2e-5);
  check_close(whole.shares, shares, 2e-5);

  // Cut into steps, beside another sequence: the same bits.
  DecoderRun parts;
  for (const auto& [first, end] : {std::pair{0u, 1u}, {1u, 4u}, {4u, positions}}) {
    std::vector<StepRow> rows = rows_of_sequence(2, first, end);
    const std::vector<StepRow> other = rows_of_sequence(0, first, end);
    rows.insert(rows.end(), other.begin(), other.end());
    const DecoderRun part = run_decoder(profile, decoder, states, memory, x, rows);
    const size_t own = part.result.size() / 2, own_shares = part.shares.size() / 2;
    parts.result.insert(parts.result.end(), part.result.begin(),
                        part.result.begin() + static_cast<ptrdiff_t>(own));
    parts.shares.insert(parts.shares.end(), part.shares.begin(),
                        part.shares.begin() + static_cast<ptrdiff_t>(own_shares));
  }
  CHECK(parts.result == whole.result);
  CHECK(parts.shares == whole.shares);

  // A beam that shares its past with sequence 1 goes on as that did.
  const CacheRef shared = make_cache(hidden, 3, capacity, {}, {});
  run_decoder(profile, decoder, shared, memory, x, rows_of_sequence(1, 0, 4));
  std::vector<uint32_t> from(size_t{3} * capacity, 1);
  const DecoderRun beam = run_decoder(profile, decoder, shared, memory, x, rows_of_sequence(0, 4, 5), from);
  CHECK(std::ranges::equal(beam.result,
                           std::span(whole.result).subspan(size_t{4} * 3 * hidden, size_t{3} * hidden)));
  TestGpu::get().clear();
}

} // namespace

TEST_CASE("gated recurrent units read whole inputs, both ways") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (const uint32_t hidden : {1u, 5u, 32u, 33u, 150u}) {
      check_gru(profile, hidden, {{3, 0, 0}, {1, 8, 0}, {7, 9, 0}, {2, 40, 0}}, true);
      check_gru(profile, hidden, {{1, 24, 0}, {5, 25, 0}}, false);
    }
    check_gru(profile, 300, {{70, 0, 0}, {30, 72, 0}}, true); // more than one launch
    check_gru(profile, 300, {{40, 0, 0}}, true);              // of which the second has nothing to do
    check_gru(profile, 7, {}, true);
  }
}

TEST_CASE("a recurrent decoder attends to the input, the same in any steps and with a shared past") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (const uint32_t hidden : {6u, 130u}) check_decoder(profile, hidden, {8, 31}); // a kernel each
    check_decoder(profile, 6, {0, 1});
    check_decoder(profile, 6, {24, 24});
    check_decoder(profile, 6, {8, 8 + 40});
  }
}
