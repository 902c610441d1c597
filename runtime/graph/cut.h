#pragma once

#include <optional>

#include "base/result.h"
#include "graph/graph.h"

namespace pumice {

// Leaves one stage of a fused graph: the nodes after the one that writes `from` (none: from the first one),
// up to the one that writes `to` (none: to the last one). What earlier nodes wrote for these or later ones is
// received, and what later ones read is sent, in the order of their ids, which is the same in both stages.
// A tensor that the host wants to read goes through all later stages. What the host writes is written only
// where it is read.
Status cut(Graph& graph, std::optional<TensorId> from, std::optional<TensorId> to);

// Leaves out the nodes that give rows of a step's outputs, and nothing else, which no node and no host reads.
void drop_unread_outputs(Graph& graph);

} // namespace pumice
