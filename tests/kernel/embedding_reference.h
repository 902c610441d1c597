#pragma once

#include <vector>

#include "kernel/products/weights.h"

// One row of an embedding, in 64 bits.
inline std::vector<double> embedding_reference(const TestWeight& table, uint32_t entry, double scale) {
  std::vector<double> out;
  for (float value : table.decoded(entry)) out.push_back(value * scale);
  return out;
}
