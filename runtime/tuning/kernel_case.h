#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "io/tensor_view.h"
#include "kernel/cache_layout.h"
#include "kernel/state_layout.h"

namespace pumice {

// An operation with weights, inputs and the results that the processor computes, for checking the kernels of
// one family.
struct KernelCase {
  Graph graph; // with one input and one readable tensor
  std::vector<CacheLayout> caches;
  std::vector<StateLayout> states;
  uint32_t past = 0; // rows of a step before, which fills the caches and changes the states
  uint32_t rows = 1;
  std::vector<float> input;                     // of the past rows, then of the others
  std::function<std::vector<float>()> expected; // computes the others' results, in 64 bits
  double allowed = 0;                           // relative error of kernels that compute in 32 bits
  double allowed_rounded = 0;                   // of those that round what they multiply

  // What the graph's weights point to.
  std::deque<std::vector<std::byte>> data;
  std::deque<TensorView> tensors;
  WeightId add_weight(const std::string& name, TensorType type, std::vector<uint64_t> shape,
                      std::vector<std::byte> bytes);
  // A random vector of floats, which `values` becomes.
  WeightId add_vector(const std::string& name, uint32_t columns, uint32_t seed, std::vector<float>& values);
};

// One that is not made yet.
struct KernelCaseName {
  std::string family; // whose variants it checks
  std::string name;   // "q4_0, 3 rows, 100 x 416"
  std::function<std::unique_ptr<KernelCase>()> make;
};

template <class Case>
KernelCaseName named_case(const char* family, const Case& c) {
  return {family, c.name(), [c] { return c.make(); }};
}

enum class CaseSet {
  quick, // each type of weights and caches in few shapes
  all,   // each with every number of rows from 1 to 16
};
std::vector<KernelCaseName> kernel_cases(CaseSet set);

// A product whose weights take more than so many bytes, so that most of them lie beyond.
KernelCaseName large_product(uint64_t bytes);

} // namespace pumice
