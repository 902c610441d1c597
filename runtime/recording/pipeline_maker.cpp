#include "recording/pipeline_maker.h"

#include <algorithm>
#include <exception>
#include <set>

#include "base/guarded.h"
#include "base/low_priority.h"

namespace pumice {

namespace {

// Drivers' compilers take much memory, and there are few pipelines.
constexpr size_t most_threads = 8;

std::vector<const Dispatch*> dispatches_of(const std::vector<Plan>& plans) {
  std::vector<const Dispatch*> dispatches;
  for (const Plan& plan : plans) {
    for (const PlannedDispatch& planned : plan.dispatches) dispatches.push_back(&planned.dispatch);
  }
  return dispatches;
}

} // namespace

PipelineMaker::PipelineMaker(std::shared_ptr<Pipelines> pipelines, const std::vector<Plan>& plans,
                             size_t threads)
    : PipelineMaker(std::move(pipelines), dispatches_of(plans), threads) {}

PipelineMaker::PipelineMaker(std::shared_ptr<Pipelines> pipelines,
                             const std::vector<const Dispatch*>& kernels, size_t threads)
    : pipelines_(std::move(pipelines)) {
  std::set<std::pair<std::string, std::vector<uint32_t>>> seen;
  for (const Dispatch* kernel : kernels) {
    const auto key = std::make_pair(kernel->kernel, kernel->constants);
    if (seen.insert(key).second) wanted_.push_back(key);
  }
  errors_.resize(wanted_.size());
  const size_t cores = std::max(1u, std::thread::hardware_concurrency());
  const size_t most = std::min({cores, most_threads, wanted_.size(), threads});
  try {
    threads_.reserve(most); // a thread that there is no place for would end the program
    while (threads_.size() < most) threads_.push_back(start_thread([this] { make({}); }));
  } catch (const std::exception&) { // no thread or no memory for one
    // finish() then compiles the rest.
  }
}

PipelineMaker::~PipelineMaker() {
  stop();
}

void PipelineMaker::make(const std::function<bool()>& go_on) {
  for (size_t i = next_++; i < wanted_.size(); i = next_++) {
    if (go_on && !go_on()) {
      std::lock_guard lock(mutex_);
      if (!first_error_) status_ = Error{Code::cancelled, "compiling kernels was cancelled"};
      return;
    }
    Result<VkPipeline> pipeline =
        guarded([&] { return pipelines_->get(wanted_[i].first, wanted_[i].second); });
    ++made_;
    std::lock_guard lock(mutex_);
    if (pipeline.ok()) continue;
    errors_[i] = std::move(pipeline).error(); // allocates nothing: there may be no memory
    if (status_.ok() && !first_error_) first_error_ = i;
  }
}

void PipelineMaker::stop() {
  next_ = wanted_.size();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

Status PipelineMaker::finish(const std::function<bool()>& go_on) {
  make(go_on);
  stop();
  return first_error_ ? *errors_[*first_error_] : status_;
}

FailedKernels PipelineMaker::failed() const {
  FailedKernels failed;
  for (size_t i = 0; i < wanted_.size(); ++i) {
    if (errors_[i]) failed.emplace(wanted_[i].first, *errors_[i]);
  }
  return failed;
}

} // namespace pumice
