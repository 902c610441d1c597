#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gpu/pipelines.h"
#include "plan/plan.h"

namespace pumice {

// Makes the pipelines of plans on threads of its own, while the caller does something else.
class PipelineMaker {
public:
  // At most `threads` of them, and no more than the host can run. With none, finish() does all the work.
  PipelineMaker(std::shared_ptr<Pipelines> pipelines, const std::vector<Plan>& plans,
                size_t threads = SIZE_MAX);
  // Leaves out what has not been begun.
  ~PipelineMaker();
  PipelineMaker(const PipelineMaker&) = delete;
  PipelineMaker& operator=(const PipelineMaker&) = delete;

  // Helps until all are there. The first error, if any could not be made. Asked between two pipelines,
  // `go_on` may end it with Code::cancelled.
  Status finish(const std::function<bool()>& go_on = {});
  size_t threads() const { return threads_.size(); }

private:
  void make(const std::function<bool()>& go_on);
  void stop();

  std::shared_ptr<Pipelines> pipelines_;
  std::vector<std::pair<std::string, std::vector<uint32_t>>> wanted_; // kernels with their constants
  std::atomic<size_t> next_ = 0;
  std::mutex mutex_;
  Status status_;
  std::vector<std::thread> threads_;
};

} // namespace pumice
