#pragma once

#include <cstdint>
#include <optional>
#include <set>
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
#include "kernel/class_costs.h"
#include "kernel/device_profile.h"
#include "kernel/dispatch.h"
#include "kernel/state_layout.h"
#include "kernel/step_layout.h"
#include "plan/weight_store.h"

namespace pumice {

// The most rows of a step that a plan can run. An encoder has one output for each of its inputs.
struct Bucket {
  uint32_t tokens = 1;
  uint32_t outputs = 1;
};

// What all plans of one session share.
struct PlanContext {
  DeviceProfile profile;
  Capabilities device;
  ClassCosts costs; // as measured on the device
  WeightStore* weights = nullptr;
  std::vector<CacheRef> caches; // by layer
  std::vector<StateRef> states; // as in ModelShape
  uint32_t context = 0;         // positions of one sequence
  StepLayout step_layout;       // its capacity: the largest bucket's tokens
  BufferRef step;
  BufferRef sampling;
};

// One launch of a plan: of an operation, or one of the parts of a long launch (plan/division.h).
struct PlannedDispatch {
  Dispatch dispatch;
  bool barrier = false; // a barrier comes before it: it has a hazard with a launch since the last barrier
  uint32_t node = 0;    // of the graph
  std::optional<uint32_t> choice; // index in Plan::choices, if a choice made this launch
  double seconds = 0; // predicted: as measured of its class, or by the device's speed, whichever is more
};

// A tensor that the host reads after the step, or writes before it.
struct HostTensor {
  std::string name;
  ActivationRef where; // in Space::outputs, or Space::inputs
};

// A graph made concrete for one device and one bucket: kernels, memory offsets and the barriers that hazards
// need. Knows no model names, allocates nothing.
struct Plan {
  Bucket bucket;
  std::vector<PlannedDispatch> dispatches;
  std::vector<HostTensor> readable;    // in Space::outputs
  std::optional<HostTensor> input;     // in Space::inputs
  std::vector<HostTensor> received;    // in Space::inputs: what the stage before has computed
  std::vector<HostTensor> sent;        // to the next stage, in Space::outputs or Space::inputs
  std::set<uint32_t> caches;           // those that the plan uses, as PlanContext counts them
  std::set<uint32_t> states;           // the same
  std::vector<VariantChoice> choices;  // one for each time that a kernel family chose a variant
  std::vector<std::string> operations; // by node, for a person: "linear gated silu"
  size_t fused_operations = 0;         // operations of the model that were fused into others
  uint64_t tensor_bytes = 0;           // of the tensors in scratch; the same whichever variants are chosen
  uint64_t scratch_bytes = 0;
  uint64_t input_bytes = 0;
  uint64_t output_bytes = 0;

  double flops() const;
  double bytes() const; // that must be read from or written to memory
};

// The least seconds that each dispatch can take on a device with these ceilings.
std::vector<double> estimate_seconds(const Plan& plan, const Ceilings& ceilings);

// A line for each dispatch, for `pumice inspect --plan`: its kernel, its work and its time. `seconds` has the
// time of each dispatch, measured or estimated.
std::string plan_text(const Plan& plan, std::span<const double> seconds, bool measured);

Result<Plan> make_plan(const Graph& graph, const PlanContext& context, Bucket bucket);

} // namespace pumice
