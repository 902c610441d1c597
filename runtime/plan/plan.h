#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "gpu/capabilities.h"
#include "graph/graph.h"
#include "kernel/activation_ref.h"
#include "kernel/cache_layout.h"
#include "kernel/ceilings.h"
#include "kernel/choices.h"
#include "kernel/device_profile.h"
#include "kernel/dispatch.h"
#include "kernel/step_layout.h"
#include "plan/weight_store.h"

namespace pumice {

// How many rows a plan is made for. A step may have fewer, never more. An encoder's outputs are its inputs.
struct Bucket {
  uint32_t tokens = 1;
  uint32_t outputs = 1;
};

// What every plan of one session has in common.
struct PlanContext {
  DeviceProfile profile;
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
  bool barrier = false;           // it reads or overwrites what a launch since the last barrier wrote
  uint32_t node = 0;              // of the graph
  std::optional<uint32_t> choice; // of the plan's, which it is a part of
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
  std::optional<KeptTensor> input;     // in Space::inputs
  std::vector<VariantChoice> choices;  // one for each time that a family had to choose
  std::vector<std::string> operations; // by node, for a person: "linear gated silu"
  size_t fused_operations = 0;         // operations of the model that became part of others
  uint64_t tensor_bytes = 0;           // of scratch: those of tensors, which lie alike whatever was chosen
  uint64_t scratch_bytes = 0;
  uint64_t output_bytes = 0;

  double flops() const;
  double bytes() const; // that must move to and from memory
};

// What each dispatch takes on a device that reaches so much, at best.
std::vector<double> estimate_seconds(const Plan& plan, const Ceilings& ceilings);

// A line for each dispatch, for `pumice inspect --plan`: what it is, what it costs, and in `seconds` what it
// took or is estimated to take.
std::string plan_text(const Plan& plan, std::span<const double> seconds, bool measured);

Result<Plan> make_plan(const Graph& graph, const PlanContext& context, Bucket bucket);

} // namespace pumice
