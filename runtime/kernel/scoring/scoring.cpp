#include "kernel/scoring/scoring.h"

#include "kernel/lowering.h"
#include "shaders/scoring/log_likelihood.params.h"

namespace pumice {

Dispatch log_likelihood(const DeviceProfile& profile, const LogLikelihoodArgs& args) {
  Dispatch dispatch;
  dispatch.kernel = "log_likelihood";
  dispatch.constants = {profile.workgroup};
  LogLikelihoodParams params = {};
  params.columns = args.logits.columns;
  params.stride = args.logits.stride;
  params.out_stride = args.result.stride;
  params.capacity = args.step_capacity;
  dispatch.set_params(params);
  dispatch.bind(LIKELIHOOD_STEP, args.step, Access::read);
  dispatch.bind(LIKELIHOOD_LOGITS, args.logits.buffer, Access::read);
  dispatch.bind(LIKELIHOOD_RESULT, args.result.buffer, Access::write);
  dispatch.groups = {args.logits.rows, 1, 1};
  dispatch.bytes = 8.0 * args.logits.rows * args.logits.columns;
  return dispatch;
}

Status LogLikelihood::lower(Lowering& lowering, const Node& node) const {
  LogLikelihoodArgs args;
  args.logits = lowering.tensor(node.inputs[0]);
  args.result = lowering.tensor(node.output);
  args.step = lowering.step();
  args.step_capacity = lowering.step_capacity();
  lowering.emit(log_likelihood(lowering.profile(), args));
  return {};
}

TensorId log_likelihood(Graph& graph, std::string name, TensorId logits) {
  return graph.add(LogLikelihood{}, {logits}, {}, {std::move(name), RowKind::outputs, 1});
}

} // namespace pumice
