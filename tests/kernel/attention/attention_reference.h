#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "kernel/attention/attention.h"
#include "kernel/attention/cache_reference.h"
#include "shaders/embedding/prompt_rows.params.h"

// Attention in plain double precision.
namespace attention_reference {

using cache_reference::Place;
using cache_reference::Side;

// Keys and values of one layer as the host sees them; where nothing was written they are not a number.
struct Cache {
  pumice::CacheLayout layout;
  uint32_t positions = 0;          // of a sequence; a ring has lost some of them
  std::vector<float> keys, values; // [sequence][kv_head][position][head_dim]

  Cache(const pumice::CacheLayout& cache_layout, uint32_t all_positions)
      : layout(cache_layout), positions(all_positions) {
    const size_t size = size_t{layout.sequences} * layout.kv_heads * positions * layout.head_dim;
    keys.assign(size, std::numeric_limits<float>::quiet_NaN());
    values = keys;
  }
  size_t at(uint32_t sequence, uint32_t head, uint32_t position) const {
    return ((size_t{sequence} * layout.kv_heads + head) * positions + position) * layout.head_dim;
  }
  std::vector<float> key(uint32_t sequence, uint32_t head, uint32_t position) const {
    return cache_reference::kept(layout, Side::keys,
                                 std::span(keys).subspan(at(sequence, head, position), layout.head_dim));
  }
  std::vector<float> value(uint32_t sequence, uint32_t head, uint32_t position) const {
    return cache_reference::kept(layout, Side::values,
                                 std::span(values).subspan(at(sequence, head, position), layout.head_dim));
  }

  std::vector<uint8_t> packed_keys() const { return packed(keys, Side::keys); }
  std::vector<uint8_t> packed_values() const { return packed(values, Side::values); }

private:
  std::vector<uint8_t> packed(const std::vector<float>& elements, Side side) const {
    std::vector<uint8_t> bytes = cache_reference::unwritten(layout, side);
    for (uint32_t sequence = 0; sequence < layout.sequences; ++sequence) {
      for (uint32_t head = 0; head < layout.kv_heads; ++head) {
        for (uint32_t position = 0; position < positions; ++position) {
          const auto from = std::span(elements).subspan(at(sequence, head, position), layout.head_dim);
          if (std::isnan(from[0])) continue;
          cache_reference::store(layout, side, {sequence, head, position}, from, bytes);
        }
      }
    }
    return bytes;
  }
};

struct Row {
  uint32_t token = 0, position = 0, sequence = 0, first = 0;
  uint32_t end = 0;    // of its input
  uint32_t window = 0; // of a patch: StepToken::token
};

struct Options {
  uint32_t heads = 1;
  double scale = 1;
  uint32_t window = 0;
  double soft_cap = 0;
  pumice::AttentionMask mask = pumice::AttentionMask::causal;
  std::vector<std::pair<uint32_t, uint32_t>> memories; // of each sequence, [first, end)
  std::vector<uint32_t> cache_indirection;             // [sequences, indirection_positions]
  uint32_t indirection_positions = 0;
  bool chunked = false;
  bool patch_windows = false;  // rows see their windows of patches
  uint32_t run = 0;            // rows see their runs of so many
  uint32_t joined = 1;         // so many rows of an input became one
  bool whole_pictures = false; // rows whose token has PROMPT_ROW see up to their end
  std::vector<float> sinks;    // none, or one for each head
  bool (*chosen)(const Row& row, uint32_t position) = nullptr; // null: a row sees all
  pumice::RelativeBias bias;
  std::vector<float> bias_table; // [buckets, heads]
  // Of a bias by content: [rows, 2 * heads * buckets], and the positions of those rows.
  std::vector<float> bias_scores;
  std::vector<uint32_t> score_positions;
  // What a score weighs, to a common factor.
  double (*weight)(double score, double largest) = [](double score, double largest) {
    return std::exp(score - largest);
  };
  double (*sink_weight)(double score, double largest) = weight; // the same of a sink
};

// What a row sees, [first, end), and the position that its weights' columns count from.
struct Seen {
  uint32_t first = 0, end = 0, base = 0;
};

inline Seen seen(const Options& options, const Row& row) {
  Seen seen = {row.first, row.position + 1, 0};
  if (options.whole_pictures && (row.token & pumice::PROMPT_ROW) != 0) seen.end = std::max(seen.end, row.end);
  if (options.mask == pumice::AttentionMask::bidirectional) seen = {row.first, row.end, row.first};
  if (options.patch_windows) {
    seen.first = row.window >> pumice::STEP_WINDOW_BITS;
    seen.end = seen.first + row.window % (1u << pumice::STEP_WINDOW_BITS);
  }
  seen.end = seen.first + (seen.end - seen.first) / options.joined;
  if (options.run > 0) {
    seen.first = row.position - (row.position - row.first) % options.run;
    seen.end = std::min(seen.end, seen.first + options.run);
  }
  if (options.mask == pumice::AttentionMask::causal_input) seen.base = row.first;
  if (options.mask == pumice::AttentionMask::cross) {
    const auto& [first, end] = options.memories[row.sequence];
    seen = {first, end, first};
  }
  if (options.chunked) {
    seen.first = std::max(seen.first,
                          row.position - (row.position - std::min(row.first, row.position)) % options.window);
  } else if (options.window > 0 && row.position + 1 > options.window) {
    seen.first = std::max(seen.first, row.position + 1 - options.window);
  }
  if (options.window > 0 && options.mask == pumice::AttentionMask::bidirectional) {
    seen.end = std::min(seen.end, row.position + options.window);
  }
  return seen;
}

// The sequence of the cache in which a position that the row sees lies.
inline uint32_t cache_sequence(const Options& options, const Row& row, uint32_t position) {
  if (options.mask != pumice::AttentionMask::causal) return 0;
  if (options.indirection_positions == 0) return row.sequence;
  return options.cache_indirection[row.sequence * options.indirection_positions + position];
}

inline double content_bias(const Options& options, const Row& row, uint32_t position, uint32_t head) {
  const uint32_t buckets = options.bias.buckets;
  const auto score = [&](uint32_t of, uint32_t column) {
    const auto at = std::ranges::find(options.score_positions, of) - options.score_positions.begin();
    return double{options.bias_scores[static_cast<size_t>(at) * 2 * options.heads * buckets + column]};
  };
  const uint32_t bucket = options.bias.bucket(int64_t{position} - row.position);
  return score(row.position, head * buckets + bucket) +
         score(position, (options.heads + head) * buckets + bucket);
}

// The bias of a table.
inline double table_bias(const Options& options, const Row& row, uint32_t position, uint32_t head) {
  const uint32_t bucket = options.bias.by_place()
                              ? options.bias.place_bucket(row.position - row.first, position - row.first)
                              : options.bias.bucket(int64_t{position} - row.position);
  return options.bias_table[bucket * options.heads + head];
}

struct Attended {
  std::vector<float> result;  // [heads * head_dim]
  std::vector<float> weights; // [heads * positions]
};

// One row. q: its queries.
inline Attended attend(const Cache& cache, const Options& options, const Row& row, const float* q) {
  const uint32_t dim = cache.layout.head_dim;
  Attended attended;
  attended.result.assign(size_t{options.heads} * dim, 0.0f);
  attended.weights.assign(size_t{options.heads} * cache.positions, 0.0f);
  const auto [first, end, base] = seen(options, row);
  for (uint32_t head = 0; head < options.heads && first < end; ++head) {
    const uint32_t kv_head = head / (options.heads / cache.layout.kv_heads);
    std::vector<double> scores;
    for (uint32_t position = first; position < end; ++position) {
      const std::vector<float> key = cache.key(cache_sequence(options, row, position), kv_head, position);
      double dot = 0;
      for (uint32_t d = 0; d < dim; ++d) dot += double{q[head * dim + d]} * key[d];
      double score = dot * options.scale;
      if (!options.bias_scores.empty()) {
        score += content_bias(options, row, position, head);
      } else if (options.bias.buckets > 0) {
        score += table_bias(options, row, position, head);
      }
      if (options.chosen && !options.chosen(row, position)) score = -INFINITY;
      if (options.soft_cap > 0) score = options.soft_cap * std::tanh(score / options.soft_cap);
      scores.push_back(score);
    }
    double largest = *std::max_element(scores.begin(), scores.end());
    if (!options.sinks.empty()) largest = std::max(largest, double{options.sinks[head]});
    double total = options.sinks.empty() ? 0 : options.sink_weight(options.sinks[head], largest);
    for (double& score : scores) total += score = options.weight(score, largest);
    std::vector<double> sum(dim, 0.0);
    for (uint32_t position = first; position < end; ++position) {
      const double weight = scores[position - first] / total;
      const std::vector<float> value = cache.value(cache_sequence(options, row, position), kv_head, position);
      for (uint32_t d = 0; d < dim; ++d) sum[d] += weight * value[d];
      attended.weights[size_t{head} * cache.positions + position - base] = static_cast<float>(weight);
    }
    for (uint32_t d = 0; d < dim; ++d) attended.result[head * dim + d] = static_cast<float>(sum[d]);
  }
  return attended;
}

} // namespace attention_reference
