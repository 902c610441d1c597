#pragma once

#include <string>

#include "graph/graph.h"
#include "kernel/activation_ref.h"
#include "kernel/device_profile.h"
#include "kernel/dispatch.h"

namespace pumice {

// result[i] = log-softmax(logits[i])[target], the target being what output row i of the step block names. A
// row with a NaN or plus infinity in it gives NaN.
struct LogLikelihoodArgs {
  ActivationRef logits; // [outputs, vocabulary]
  ActivationRef result; // [outputs, 1]
  BufferRef step;
  uint32_t step_capacity = 0;
};

Dispatch log_likelihood(const DeviceProfile& profile, const LogLikelihoodArgs& args);

// inputs: the logits.
struct LogLikelihood : Operation {
  std::string_view name() const override { return "log_likelihood"; }
  Status lower(Lowering& lowering, const Node& node) const override;
};

TensorId log_likelihood(Graph& graph, std::string name, TensorId logits);

} // namespace pumice
