#pragma once

#include <vector>

#include "graph/graph.h"
#include "kernel/activation_ref.h"
#include "kernel/cache_layout.h"
#include "kernel/style.h"
#include "shaders/position/rotary_store.params.h"

namespace pumice {

// Which two dimensions of a head turn together.
enum class RotaryPairs : uint32_t {
  none = ROTARY_PAIRS_NONE,                 // no rotation
  neighbouring = ROTARY_PAIRS_NEIGHBOURING, // 2i with 2i + 1
  half_split = ROTARY_PAIRS_HALF_SPLIT,     // i with i + rotary_dim / 2
};

const char* to_string(RotaryPairs pairs);

enum class RotaryScaling : uint32_t { none, linear, llama3 };

// Which dimensions turn with which, and how fast.
struct RotaryConfig {
  RotaryPairs pairs = RotaryPairs::none;
  uint32_t dim = 0; // the first dimensions of a head are rotated, the others copied; even
  float base = 10000;
  RotaryScaling scaling = RotaryScaling::none;
  float factor = 1; // by which the context grew
  // llama3: wavelengths between original_context / high_freq_factor and original_context / low_freq_factor go
  // over from kept to stretched.
  float low_freq_factor = 1;
  float high_freq_factor = 4;
  uint32_t original_context = 8192;
  std::vector<float> factors; // GGUF's rope_freqs, by which the frequencies are divided: one a pair, or none
};

std::string describe(const RotaryConfig& config);

// Radians a position for each of the dim / 2 pairs. In 64 bits: an error in the eighth digit would be
// a hundredth of a radian at position 131072.
std::vector<double> rotary_frequencies(const RotaryConfig& config);

// What the kernel reads: each frequency in turns, a fraction of 64 bits whose dwords are in two floats' bits.
std::vector<float> rotary_table(std::span<const double> frequencies);

// Rotates q and k by their rows' positions; q goes to result, k and v to the rows' places in the cache.
struct RotaryStoreArgs {
  ActivationRef q; // [tokens, heads * head_dim]
  ActivationRef k; // [tokens, kv_heads * head_dim]
  ActivationRef v; // the same
  uint32_t heads = 0;
  uint32_t head_dim = 0; // a multiple of 4
  RotaryPairs pairs = RotaryPairs::none;
  uint32_t rotary_dim = 0; // the first dimensions of a head are rotated, the others copied
  BufferRef table;         // rotary_table(); not used where pairs is none
  CacheRef cache;
  ActivationRef result; // of q's shape
  BufferRef step;
};

Dispatch rotary_store(const KernelStyle& style, const RotaryStoreArgs& args);

// inputs: q, k, v, whose rows are tokens. output: the rotated q.
struct RotaryStore : Operation {
  uint32_t layer = 0;
  uint32_t heads = 0;
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;
  RotaryConfig rotary;

  std::string_view name() const override { return "rotary_store"; }
  std::string describe() const override;
  Status lower(Lowering& lowering, const Node& node) const override;
};

TensorId rotary_store(Graph& graph, std::string name, TensorId q, TensorId k, TensorId v,
                      RotaryStore operation);

} // namespace pumice
