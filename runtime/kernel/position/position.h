#pragma once

#include <optional>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "kernel/activation_ref.h"
#include "kernel/cache_layout.h"
#include "kernel/device_profile.h"
#include "kernel/step_layout.h"
#include "shaders/position/rotary_store.params.h"

namespace pumice {

// Which two dimensions of a head are rotated as a pair.
enum class RotaryPairs : uint32_t {
  none = ROTARY_PAIRS_NONE,                 // no rotation
  neighbouring = ROTARY_PAIRS_NEIGHBOURING, // 2i with 2i + 1
  half_split = ROTARY_PAIRS_HALF_SPLIT,     // i with i + rotary_dim / 2
  // In each half of the rotated dimensions i with i + rotary_dim / 4. The second half has the first pairs.
  quarters = ROTARY_PAIRS_QUARTERS,
};

const char* to_string(RotaryPairs pairs);

// What pairs of dimensions turn with, beside a row's position.
enum class PlaceKind : uint32_t {
  none = ROTARY_PLACES_NONE,
  // The decoder's text has pictures: a row has a place in the text, and if it is of a picture, one down and
  // one across in it (M-RoPE, Wang et al., Qwen2-VL, 2024).
  text = ROTARY_PLACES_TEXT,
  patches = ROTARY_PLACES_PATCHES,         // a row is a patch of a picture, with a place down and one across
  interleaved = ROTARY_PLACES_INTERLEAVED, // as `text`, but the three take turns (Qwen 3 VL)
};

enum class RotaryScaling : uint32_t {
  none,
  linear,
  llama3,
  yarn,     // Peng et al., YaRN, 2023
  longrope, // Ding et al., LongRoPE, 2024, as Phi-3 has it
};

// The pairs of dimensions, and the frequencies of their rotation.
struct RotaryConfig {
  RotaryPairs pairs = RotaryPairs::none;
  uint32_t dim = 0; // the first dimensions of a head are rotated, the others copied; even
  float base = 10000;
  RotaryScaling scaling = RotaryScaling::none;
  float factor = 1;                 // how many times the context was extended
  uint32_t original_context = 8192; // llama3, yarn, longrope: before it was extended
  // llama3: shorter wavelengths than original_context / high_freq_factor are kept, longer ones than
  // original_context / low_freq_factor are stretched by `factor`; between the two it interpolates.
  float low_freq_factor = 1;
  float high_freq_factor = 4;
  // yarn: pairs with more than beta_fast revolutions in the original context are kept, pairs with less than
  // beta_slow are stretched; between the two it interpolates.
  float beta_fast = 32;
  float beta_slow = 1;
  bool truncate = true; // the first and last pair of the interpolation are rounded to whole numbers
  float mscale = 0;     // if this and mscale_all_dim are set, the magnitude follows from their quotient
  float mscale_all_dim = 0;
  // Queries are multiplied by 1 + query_growth * log(1 + floor((position + growth_start) /
  // original_context)).
  float query_growth = 0;
  uint32_t growth_start = 0;
  // yarn, longrope: the magnitude; empty: it follows from `factor`.
  std::optional<float> attention_factor;
  // Divisors of the frequencies, one for each pair, or none. GGUF's rope_freqs, or longrope's short table.
  std::vector<float> factors;
  std::vector<float>
      long_factors; // longrope: used instead of `factors` if the context is longer than the original
  // The first pairs turn with the place in the text, the next ones with that and the place down, the others
  // with that and the place across. Interleaved, every third pair is each's while it has some left, and the
  // others are the text's. Pairs of patches are halves with the same frequencies, for down and across.
  PlaceKind places = PlaceKind::none;
  uint32_t text_pairs = 0;
  uint32_t down_pairs = 0;
};

std::string describe(const RotaryConfig& config);

// The radians per position of each of the dim / 2 pairs, in a session with this context. 64 bits are needed:
// an error in the eighth digit would be a hundredth of a radian at position 131072.
std::vector<double> rotary_frequencies(const RotaryConfig& config, uint32_t context = 0);

// The factor of all cosines and sines.
double rotary_magnitude(const RotaryConfig& config);

// The table that the kernel reads: each frequency in revolutions per position, as a 64-bit fraction whose two
// dwords are stored in the bits of two floats.
std::vector<float> rotary_table(std::span<const double> frequencies);

// Rotates q and k by their rows' positions, with a norm over each head before it or after it if that is set.
// The rotated q is written to result; k and v are stored in the cache. Without heads there is no q and no
// result. Without kv_heads in the cache's layout there are no k and v, and nothing is stored.
struct RotaryStoreArgs {
  ActivationRef q; // [tokens, heads * head_dim]
  ActivationRef k; // [tokens, kv_heads * head_dim]
  ActivationRef v; // the same
  uint32_t heads = 0;
  uint32_t head_dim = 0;
  RotaryPairs pairs = RotaryPairs::none;
  uint32_t rotary_dim = 0; // the first dimensions of a head are rotated, the others copied
  float magnitude = 1;
  float query_growth = 0; // as in RotaryConfig
  uint32_t growth_length = 0;
  uint32_t growth_start = 0;
  PlaceKind places = PlaceKind::none; // as in RotaryConfig, with the sections of the step block
  uint32_t text_pairs = 0, down_pairs = 0;
  StepLayout step_layout = {};
  bool query_norm = false; // by root mean square
  bool key_norm = false;
  bool value_norm = false; // it has no weights
  bool norm_after = false; // the rotation, whose magnitude is 1 then
  float norm_eps = 0;
  float norm_offset = 0; // added to the norms' weights
  // rotary_table() if anything is rotated, then the weights of the norms of queries and keys that are set,
  // head_dim each.
  BufferRef table;
  CacheRef cache;
  ActivationRef result; // of q's shape
  BufferRef step;
};

// `args.cache` is one part of a cache, or all of it.
Dispatch rotary_store(const DeviceProfile& profile, const RotaryStoreArgs& args);
// Emits a launch for each part of the cache.
void emit_rotary_store(Lowering& lowering, RotaryStoreArgs args);

// Specialisation constants of every kernel that rotates.
struct RotaryConstants {
  uint32_t pairs = ROTARY_PAIRS_NONE;
  uint32_t dim = 0;
  uint32_t norms = 0;  // ROTARY_NORM_*
  uint32_t growth = 0; // of queries, its bits
  uint32_t growth_length = 0;
  uint32_t growth_start = 0;
  uint32_t places = ROTARY_PLACES_NONE;
  uint32_t text_pairs = 0;
  uint32_t down_pairs = 0;

  bool reads_table() const {
    return pairs != ROTARY_PAIRS_NONE || (norms & (ROTARY_NORM_QUERIES | ROTARY_NORM_KEYS)) != 0;
  }
};
RotaryConstants rotary_constants(const RotaryStoreArgs& args);

// inputs: q, k, v, whose rows are tokens. weights: [head_dim] of the query norm and of the key norm, if
// they are set and have weights. output: the rotated q.
struct RotaryStore : Operation {
  uint32_t layer = 0;
  uint32_t heads = 0;
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;
  RotaryConfig rotary;
  bool query_norm = false; // a root-mean-square norm of each head before it is rotated
  bool key_norm = false;
  bool value_norm = false; // the same of each value's head, which is not rotated; it has no weights
  bool norm_after = false; // the norms come after the rotation
  bool unit_norms = false; // the norms' weights are 1
  float norm_eps = 0;
  float norm_offset = 0; // added to the norms' weights

  size_t norm_weights() const { return unit_norms ? 0 : size_t{query_norm} + key_norm; }
  std::string_view name() const override { return "rotary_store"; }
  std::string describe() const override;
  Status lower(Lowering& lowering, const Node& node) const override;
  // The arguments without `result`. inputs: q, k, v. norms: the node's weights.
  Result<RotaryStoreArgs> args(Lowering& lowering, std::span<const TensorId> inputs,
                               std::span<const WeightId> norms) const;
};

// Rotates queries that attend to keys and values of an earlier layer. inputs: q. weights: [head_dim] of the
// query norm, if it is set. output: the rotated q.
struct RotateQueries : Operation {
  RotaryStore rotary; // `layer`: whose cache the queries attend to; nothing is stored

  std::string_view name() const override { return "rotate_queries"; }
  std::string describe() const override { return rotary.describe(); }
  Status lower(Lowering& lowering, const Node& node) const override;
};

// Stores keys and values in the cache without rotation: for models without rotary positions, and for an
// encoder's output that a decoder attends to. inputs: k, v, whose rows are tokens. The output tensor has no
// contents.
struct CacheStore : Operation {
  uint32_t layer = 0;

  std::string_view name() const override { return "cache_store"; }
  std::string describe() const override;
  Status lower(Lowering& lowering, const Node& node) const override;
  Result<RotaryStoreArgs> args(Lowering& lowering, std::span<const TensorId> inputs) const; // inputs: k, v
};

// k, v: [tokens, kv_heads * head_dim] of the layer's cache.
TensorId cache_store(Graph& graph, std::string name, TensorId k, TensorId v, uint32_t layer);

TensorId rotary_store(Graph& graph, std::string name, TensorId q, TensorId k, TensorId v,
                      RotaryStore operation, std::vector<WeightId> norm_weights = {});

TensorId rotate_queries(Graph& graph, std::string name, TensorId q, RotaryStore operation,
                        std::vector<WeightId> norm_weights = {});

} // namespace pumice
