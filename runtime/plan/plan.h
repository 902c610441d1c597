#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "gpu/capabilities.h"
#include "graph/graph.h"
#include "kernel/activation_ref.h"
#include "kernel/cache_layout.h"
#include "kernel/dispatch.h"
#include "kernel/step_layout.h"
#include "kernel/style.h"
#include "plan/weight_store.h"

namespace pumice {

// How many rows a plan is made for. A step may have fewer, never more. An encoder's outputs are its inputs.
struct Bucket {
  uint32_t tokens = 1;
  uint32_t outputs = 1;
};

// What every plan of one session has in common.
struct PlanContext {
  KernelStyle style;
  Capabilities device;
  WeightStore* weights = nullptr;
  std::vector<CacheRef> caches; // by layer
  uint32_t context = 0;         // positions of one sequence
  StepLayout step_layout;       // its capacity: the largest bucket's tokens
  BufferRef step;
  BufferRef sampling;
};

// One launch of a plan.
struct PlannedDispatch {
  Dispatch dispatch;
  bool barrier = false; // it reads or overwrites what a launch since the last barrier wrote
  uint32_t node = 0;    // of the graph
};

// A tensor that the host can read after the step, or writes before it.
struct KeptTensor {
  std::string name;
  ActivationRef where; // in Space::outputs, or Space::inputs
};

// A graph made concrete for one device and one bucket: kernels, memory offsets and the barriers that hazards
// need. Knows no model names, allocates nothing.
struct Plan {
  Bucket bucket;
  std::vector<PlannedDispatch> dispatches;
  std::vector<KeptTensor> kept;
  std::optional<KeptTensor> input; // in Space::inputs
  uint64_t scratch_bytes = 0;
  uint64_t output_bytes = 0;

  double flops() const;
  double bytes() const;     // that must move to and from memory
  std::string text() const; // a line for each dispatch, for `pumice inspect --plan`
};

Result<Plan> make_plan(const Graph& graph, const PlanContext& context, Bucket bucket);

} // namespace pumice
