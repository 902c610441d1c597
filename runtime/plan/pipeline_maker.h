#pragma once

#include <atomic>
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
  PipelineMaker(std::shared_ptr<Pipelines> pipelines, const std::vector<Plan>& plans);
  // Leaves out what has not been begun.
  ~PipelineMaker();
  PipelineMaker(const PipelineMaker&) = delete;
  PipelineMaker& operator=(const PipelineMaker&) = delete;

  // Waits until all are there. The first error, if any could not be made.
  Status finish();

private:
  void make();

  std::shared_ptr<Pipelines> pipelines_;
  std::vector<std::pair<std::string, std::vector<uint32_t>>> wanted_; // kernels with their constants
  std::atomic<size_t> next_ = 0;
  std::mutex mutex_;
  Status status_;
  std::vector<std::thread> threads_;
};

} // namespace pumice
