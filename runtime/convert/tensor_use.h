#pragma once

#include <string>
#include <unordered_map>

#include "model/architecture.h"

namespace pumice {

// How a model's graphs use a tensor of its file.
struct TensorUse {
  bool matrix = false; // of a product, or a table of tokens' embeddings: kernels read it in any type
  bool head = false;   // the matrix gives the logits
  bool other = false;  // in another way: a position table, a recurrent matrix, the bias of a distance
};

// Of the tensors that the graphs of all towers have, by name. Those that are missing are read in other ways,
// such as convolutions whose weights are laid out again, or not at all.
Result<std::unordered_map<std::string, TensorUse>> tensor_uses(const ModelFile& file,
                                                               const ModelDefinition& definition);

} // namespace pumice
