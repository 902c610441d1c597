#include "tuning/attention_case.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "kernel/attention/attention.h"
#include "kernel/matmul/linear.h"
#include "kernel/position/position.h"
#include "kernel/weight_packing.h"
#include "plan/fusion.h"
#include "tuning/random_weight.h"

namespace pumice {

namespace {

// Columns of what a product makes queries, keys and values of: whole blocks.
uint32_t hidden_of(TensorType type) {
  return std::max(96u, info(type).block_size);
}

// Queries, keys and values lie in one row, each at a multiple of merged_columns.
struct Sections {
  uint32_t query_columns = 0, key_columns = 0;
  uint32_t key_at = 0, value_at = 0, columns = 0;

  explicit Sections(const AttentionCase& c)
      : query_columns(c.heads * c.head_dim), key_columns(c.kv_heads * c.head_dim),
        key_at(align(query_columns, merged_columns)), value_at(key_at + align(key_columns, merged_columns)),
        columns(value_at + align(key_columns, merged_columns)) {}
  static uint32_t align(uint32_t number, uint32_t multiple) {
    return (number + multiple - 1) / multiple * multiple;
  }
};

RotaryConfig rotation_of(const AttentionCase& c) {
  RotaryConfig rotary;
  rotary.pairs = RotaryPairs::half_split;
  rotary.dim = c.head_dim / 2 * 2;
  return rotary;
}

// The attention in 64 bits.
class Reference {
public:
  explicit Reference(const AttentionCase& c)
      : c_(c), sections_(c), frequencies_(rotary_frequencies(rotation_of(c))) {}

  // Stores a row's keys and values.
  void store(std::span<const float> row, uint32_t position) {
    std::vector<double> key(row.begin() + sections_.key_at,
                            row.begin() + sections_.key_at + sections_.key_columns);
    std::vector<double> value(row.begin() + sections_.value_at,
                              row.begin() + sections_.value_at + sections_.key_columns);
    rotate(key, position);
    keep(key, key_type(c_.cache));
    keep(value, value_type(c_.cache));
    keys_.push_back(std::move(key));
    values_.push_back(std::move(value));
  }
  // Adds the result of a row, which sees all that are stored.
  void attend(std::span<const float> row, uint32_t position, std::vector<float>& results) const {
    std::vector<double> query(row.begin(), row.begin() + sections_.query_columns);
    rotate(query, position);
    for (uint32_t head = 0; head < c_.heads; ++head) append_head(query, head, results);
  }

private:
  void rotate(std::vector<double>& all, uint32_t position) const {
    if (c_.both_ways) return;
    const size_t pairs = frequencies_.size();
    for (size_t head = 0; head < all.size(); head += c_.head_dim) {
      for (size_t i = 0; i < pairs; ++i) {
        const double angle = frequencies_[i] * position, cosine = std::cos(angle), sine = std::sin(angle);
        double &a = all[head + i], &b = all[head + i + pairs];
        const double rotated = a * cosine - b * sine;
        b = a * sine + b * cosine;
        a = rotated;
      }
    }
  }

  // Rounds to what a cache of this type keeps.
  void keep(std::vector<double>& all, CacheType type) const {
    for (double& value : all) {
      if (type == CacheType::f16) value = half_to_float(float_to_half(static_cast<float>(value)));
    }
    if (!is_scaled(type)) return;
    for (size_t head = 0; head < all.size(); head += c_.head_dim) {
      for (uint32_t first = 0; first < c_.head_dim; first += 32) {
        const auto block = std::span(all).subspan(head + first, std::min(32u, c_.head_dim - first));
        const double farthest = *std::ranges::max_element(block, {}, [](double a) { return std::abs(a); });
        const bool bytes = type == CacheType::q8_0;
        const double step = bytes ? std::abs(farthest) / 127 : farthest / -8;
        const double scale = half_to_float(float_to_half(static_cast<float>(step)));
        const double least = bytes ? -127 : -8, most = bytes ? 127 : 7;
        for (double& value : block)
          value = scale != 0 ? std::clamp(std::nearbyint(value / scale), least, most) * scale : 0;
      }
    }
  }

  void append_head(const std::vector<double>& query, uint32_t head, std::vector<float>& result) const {
    const uint32_t dim = c_.head_dim, kv_at = head / (c_.heads / c_.kv_heads) * dim;
    std::vector<double> scores;
    for (const std::vector<double>& key : keys_) {
      double score = 0;
      for (uint32_t d = 0; d < dim; ++d) score += query[head * dim + d] * key[kv_at + d];
      scores.push_back(score / std::sqrt(static_cast<double>(c_.head_dim)));
    }
    const double largest = *std::ranges::max_element(scores);
    double total = 0;
    for (double& score : scores) total += score = std::exp(score - largest);
    for (uint32_t d = 0; d < dim; ++d) {
      double sum = 0;
      for (size_t i = 0; i < scores.size(); ++i) sum += scores[i] / total * values_[i][kv_at + d];
      result.push_back(static_cast<float>(sum));
    }
  }

  const AttentionCase& c_;
  Sections sections_;
  std::vector<double> frequencies_; // radians of each pair for each position
  std::vector<std::vector<double>> keys_, values_;
};

// The row that holds queries, keys and values: the input, or a product of it.
struct Row {
  TensorId tensor = 0;
  std::vector<float> values; // of all rows
};

Row add_row(const AttentionCase& c, KernelCase& made) {
  const Sections sections(c);
  const uint32_t hidden = c.projected ? hidden_of(*c.projected) : 0;
  const uint32_t columns = c.projected ? hidden : sections.columns, rows = c.past + c.rows;
  std::mt19937 random(5);
  made.input.resize(size_t{rows} * columns);
  for (float& value : made.input) value = 2 * random_value(random);
  const TensorId x = made.graph.input("x", RowKind::tokens, columns);
  if (!c.projected) return {x, made.input};

  Linear operation;
  operation.matrices = 3;
  std::vector<WeightId> weights;
  Row row;
  row.values.resize(size_t{rows} * sections.columns);
  const uint32_t begins[] = {0, sections.key_at, sections.value_at};
  std::vector<float> matrix_row(hidden);
  for (uint32_t i = 0; i < 3; ++i) {
    const uint32_t results = i == 0 ? sections.query_columns : sections.key_columns;
    std::vector<std::byte> bytes = random_weight(*c.projected, results, hidden, 6 + i);
    for (uint32_t result = 0; result < results; ++result) {
      decode_row(*c.projected, bytes.data() + result * row_bytes(*c.projected, hidden), matrix_row);
      for (uint32_t at = 0; at < rows; ++at) {
        double sum = 0;
        for (uint32_t k = 0; k < hidden; ++k) sum += double{made.input[at * hidden + k]} * matrix_row[k];
        row.values[size_t{at} * sections.columns + begins[i] + result] = static_cast<float>(sum);
      }
    }
    weights.push_back(
        made.add_weight(fmt::format("weight {}", i), *c.projected, {results, hidden}, std::move(bytes)));
  }
  row.tensor = made.graph.add(operation, {x}, std::move(weights), {"row", RowKind::tokens, sections.columns});
  return row;
}

void add_attention(const AttentionCase& c, KernelCase& made, TensorId row) {
  const Sections sections(c);
  Graph& graph = made.graph;
  const auto section = [&](const char* name, uint32_t columns, uint32_t first) {
    return graph.add_tensor({name, RowKind::tokens, columns, View{row, first}});
  };
  const TensorId q = section("q", sections.query_columns, 0),
                 k = section("k", sections.key_columns, sections.key_at),
                 v = section("v", sections.key_columns, sections.value_at);
  Attention operation;
  operation.heads = c.heads;
  operation.scale = 1 / std::sqrt(static_cast<float>(c.head_dim));
  TensorId query = q;
  if (c.both_ways) {
    operation.mask = AttentionMask::bidirectional;
    cache_store(graph, "stored", k, v, 0);
  } else {
    RotaryStore store;
    store.heads = c.heads;
    store.kv_heads = c.kv_heads;
    store.head_dim = c.head_dim;
    store.rotary = rotation_of(c);
    query = rotary_store(graph, "rotated", q, k, v, store);
  }
  graph.make_readable(attention(graph, "result", query, operation), "result");
}

} // namespace

std::string AttentionCase::name() const {
  const std::string made_of = projected ? fmt::format(", projected by {}", info(*projected).name) : "";
  return fmt::format("{} cache, {} row{} {}, {}/{} heads of {}{}", to_string(cache), rows,
                     rows == 1 ? "" : "s", both_ways ? "both ways" : fmt::format("at {}", past), heads,
                     kv_heads, head_dim, made_of);
}

std::unique_ptr<KernelCase> AttentionCase::make() const {
  auto made = std::make_unique<KernelCase>();
  made->past = past;
  made->rows = rows;
  // A key that lies between two codes may be kept as either of them.
  const auto keeps = [&](CacheType type) { return key_type(cache) == type || value_type(cache) == type; };
  made->allowed = keeps(CacheType::q4_0)   ? 0.1
                  : keeps(CacheType::q8_0) ? 0.01
                  : keeps(CacheType::f16)  ? 5e-4
                                           : 5e-5;
  made->allowed_rounded = std::max(made->allowed, 0.03);
  CacheLayout layout;
  layout.type = cache;
  layout.capacity = Sections::align(past + rows, 32);
  layout.kv_heads = kv_heads;
  layout.head_dim = head_dim;
  made->caches = {layout};
  Row row = add_row(*this, *made);
  add_attention(*this, *made, row.tensor);
  fuse(made->graph);
  made->expected = [c = *this, values = std::move(row.values)] {
    Reference reference(c);
    const size_t columns = Sections(c).columns;
    std::vector<float> all;
    const auto row = [&](uint32_t at) { return std::span(values).subspan(at * columns, columns); };
    for (uint32_t at = 0; at < c.past + c.rows; ++at) {
      reference.store(row(at), at);
      if (at >= c.past && !c.both_ways) reference.attend(row(at), at, all);
    }
    for (uint32_t at = 0; c.both_ways && at < c.rows; ++at) reference.attend(row(at), at, all);
    return all;
  };
  return made;
}

} // namespace pumice
