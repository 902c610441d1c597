#pragma once

#include <optional>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "kernel/activation_ref.h"
#include "kernel/cache_layout.h"
#include "kernel/device_profile.h"
#include "shaders/position/rotary_store.params.h"

namespace pumice {

// Which two dimensions of a head turn together.
enum class RotaryPairs : uint32_t {
  none = ROTARY_PAIRS_NONE,                 // no rotation
  neighbouring = ROTARY_PAIRS_NEIGHBOURING, // 2i with 2i + 1
  half_split = ROTARY_PAIRS_HALF_SPLIT,     // i with i + rotary_dim / 2
};

const char* to_string(RotaryPairs pairs);

enum class RotaryScaling : uint32_t {
  none,
  linear,
  llama3,
  yarn,     // Peng et al., YaRN, 2023
  longrope, // Ding et al., LongRoPE, 2024, as Phi-3 has it
};

// Which dimensions turn with which, and how fast.
struct RotaryConfig {
  RotaryPairs pairs = RotaryPairs::none;
  uint32_t dim = 0; // the first dimensions of a head are rotated, the others copied; even
  float base = 10000;
  RotaryScaling scaling = RotaryScaling::none;
  float factor = 1;                 // by which the context grew
  uint32_t original_context = 8192; // llama3, yarn, longrope: before it grew
  // llama3: wavelengths between original_context / high_freq_factor and original_context / low_freq_factor go
  // over from kept to stretched.
  float low_freq_factor = 1;
  float high_freq_factor = 4;
  // yarn: pairs that turn between beta_fast and beta_slow times in the original context do.
  float beta_fast = 32;
  float beta_slow = 1;
  bool truncate = true; // the pairs between which it goes over are whole numbers
  float mscale = 0;     // where both are set, their quotient makes the magnitude
  float mscale_all_dim = 0;
  // yarn, longrope: the magnitude, where it is not to follow from the factor.
  std::optional<float> attention_factor;
  // Frequencies are divided by these: one a pair, or none. GGUF's rope_freqs, or longrope's short table.
  std::vector<float> factors;
  std::vector<float> long_factors; // longrope: in place of `factors`, in a context longer than the original
};

std::string describe(const RotaryConfig& config);

// Radians a position for each of the dim / 2 pairs, in a session with this context. In 64 bits: an error in
// the eighth digit would be a hundredth of a radian at position 131072.
std::vector<double> rotary_frequencies(const RotaryConfig& config, uint32_t context = 0);

// What cosines and sines are multiplied by.
double rotary_magnitude(const RotaryConfig& config);

// What the kernel reads: each frequency in turns, a fraction of 64 bits whose dwords are in two floats' bits.
std::vector<float> rotary_table(std::span<const double> frequencies);

// Rotates q and k by their rows' positions, where asked after a norm over each head; q goes to result, k and
// v to the rows' places in the cache. Without heads there is no q and no result.
struct RotaryStoreArgs {
  ActivationRef q; // [tokens, heads * head_dim]
  ActivationRef k; // [tokens, kv_heads * head_dim]
  ActivationRef v; // the same
  uint32_t heads = 0;
  uint32_t head_dim = 0;
  RotaryPairs pairs = RotaryPairs::none;
  uint32_t rotary_dim = 0; // the first dimensions of a head are rotated, the others copied
  float magnitude = 1;
  bool query_norm = false; // by root mean square
  bool key_norm = false;
  float norm_eps = 0;
  float norm_offset = 0; // added to the norms' weights
  // rotary_table() where anything is rotated, then the weights of those norms, head_dim each.
  BufferRef table;
  CacheRef cache;
  ActivationRef result; // of q's shape
  BufferRef step;
};

Dispatch rotary_store(const DeviceProfile& profile, const RotaryStoreArgs& args);

// Specialisation constants of every kernel that rotates.
struct RotaryConstants {
  uint32_t pairs = ROTARY_PAIRS_NONE;
  uint32_t dim = 0;
  uint32_t norms = 0; // ROTARY_NORM_*

  bool reads_table() const { return pairs != ROTARY_PAIRS_NONE || norms != 0; }
};
RotaryConstants rotary_constants(const RotaryStoreArgs& args);

// inputs: q, k, v, whose rows are tokens. weights: [head_dim] of the query norm and of the key norm, as far
// as there are those. output: the rotated q.
struct RotaryStore : Operation {
  uint32_t layer = 0;
  uint32_t heads = 0;
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;
  RotaryConfig rotary;
  bool query_norm = false; // each head's root mean square is made one before it is rotated
  bool key_norm = false;
  float norm_eps = 0;
  float norm_offset = 0; // added to the norms' weights

  std::string_view name() const override { return "rotary_store"; }
  std::string describe() const override;
  Status lower(Lowering& lowering, const Node& node) const override;
  // All but where the rotated queries go. inputs: q, k, v. norms: the node's weights.
  Result<RotaryStoreArgs> args(Lowering& lowering, std::span<const TensorId> inputs,
                               std::span<const WeightId> norms) const;
};

// Puts keys and values into the cache as they are: of models without rotary positions, and of what an encoder
// leaves for a decoder. inputs: k, v, whose rows are tokens. The output tensor only stands for it and holds
// nothing.
struct CacheStore : Operation {
  uint32_t layer = 0;

  std::string_view name() const override { return "cache_store"; }
  std::string describe() const override;
  Status lower(Lowering& lowering, const Node& node) const override;
  Result<RotaryStoreArgs> args(Lowering& lowering, std::span<const TensorId> inputs) const; // inputs: k, v
};

// k, v: [tokens, kv_heads * head_dim] of the layer's cache.
void cache_store(Graph& graph, std::string name, TensorId k, TensorId v, uint32_t layer);

TensorId rotary_store(Graph& graph, std::string name, TensorId q, TensorId k, TensorId v,
                      RotaryStore operation, std::vector<WeightId> norm_weights = {});

} // namespace pumice
