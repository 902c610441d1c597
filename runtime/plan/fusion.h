#pragma once

#include <optional>

#include "graph/graph.h"

namespace pumice {

// Rewrites a graph into one with fewer, larger operations that computes the same. Rules look at operations
// and shapes, never at models:
//   - products of one input by several weights of one type become one product
//   - activation(x * gate) * (x * up) becomes one gated product
//   - a root-mean-square norm between products becomes a part of them: its sums of squares and its weights of
//     the one before, its scale of those after
//   - what is computed of all rows and selected from later is computed of the selected rows, as far back as
//     each row is made of its own alone, if a product gets smaller by it
//   - a product takes the rows, its residual's too, that a selection would copy from where they are
//   - what puts a step's keys and values into the cache, and the attention to it, become one; and so does the
//     product that makes them
//   - an activation of a product's result, and a sum with it, move into the product
// A tensor that is kept for the host is never fused away. Types are those that weights have on the device:
// plain numbers become `weights` if that is given.
void fuse(Graph& graph, std::optional<TensorType> weights = {});

} // namespace pumice
