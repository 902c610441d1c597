#pragma once

#include <optional>
#include <span>

#include "graph/graph.h"
#include "plan/adapters.h"

namespace pumice {

// Rewrites a graph into one with fewer, larger operations that computes the same. Rules look at operations
// and shapes, never at models:
//   - products of one input by several weights of one type become one product
//   - activation(x * gate) * (x * up) becomes one gated product
//   - a root-mean-square norm between products moves into them: the product before it applies the norm's
//   weights and sums the squares, the products after it apply the scale
//   - where only some rows of a result are selected, only these rows are computed, if that makes a product
//   smaller; this goes back to the first operation whose rows depend on other rows
//   - a product (and its residual) reads selected rows where they are, so that no selection has to copy them
//   - storing a step's keys and values in the cache, the attention that reads it, and the product that makes
//   the keys and values become one operation
//   - an activation of a product's result, or a sum with it, moves into the product
// A readable tensor (Tensor::readable) is never fused away. `weights` is the type that 16- and 32-bit weights
// are quantised to while they are loaded, if any: products are merged only if their weights have the same
// type on the device. Products on different sides of the nodes that write `cuts`, in their order, stay apart,
// and no selection passes one: stages that are cut there, each of a graph of its own, fuse alike.
// `adapters`: what is added to products for them, with `in_products` by these themselves; the products'
// matrices are the same as without.
void fuse(Graph& graph, std::optional<TensorType> weights = {}, std::span<const TensorId> cuts = {},
          const AdapterRoom* adapters = nullptr, bool in_products = false);

} // namespace pumice
