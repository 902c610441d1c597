#include "recording/prepared_plan.h"

namespace pumice {

namespace {

void record_copies(Commands& commands, const std::vector<BufferCopy>& copies) {
  for (const BufferCopy& copy : copies) commands.copy(copy.from, copy.to, std::span(&copy.region, 1));
}

} // namespace

Result<PreparedPlan> PreparedPlan::create(const DeviceContext& context, const Plan& plan,
                                          const BufferLookup& lookup, PlanCopies copies) {
  PreparedPlan prepared(context);
  prepared.copies_ = std::move(copies);
  for (const PlannedDispatch& planned : plan.dispatches) {
    if (context.interrupted()) return Error{Code::cancelled, "compiling kernels was cancelled"};
    PUMICE_TRY(Launch launch, prepared.launcher_.prepare(planned.dispatch, lookup));
    prepared.launches_.push_back(std::move(launch));
    prepared.barriers_.push_back(planned.barrier);
  }
  return prepared;
}

void PreparedPlan::record(Commands& commands, size_t dispatch) const {
  if (dispatch == 0 && !copies_.before.empty()) {
    record_copies(commands, copies_.before);
    commands.barrier();
  }
  if (barriers_[dispatch]) {
    dispatch == 0 ? commands.barrier() : commands.kernel_barrier();
  }
  launcher_.record(commands, launches_[dispatch]);
  if (dispatch + 1 == launches_.size() && !copies_.after.empty()) {
    commands.barrier();
    record_copies(commands, copies_.after);
  }
}

} // namespace pumice
