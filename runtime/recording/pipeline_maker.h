#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gpu/pipelines.h"
#include "plan/plan.h"
#include "recording/failed_kernels.h"

namespace pumice {

// Compiles the pipelines of plans on its own threads, while the caller does something else.
class PipelineMaker {
public:
  // Starts at most `threads` threads, and no more than the host has cores. With 0, finish() does all the
  // work.
  PipelineMaker(std::shared_ptr<Pipelines> pipelines, const std::vector<Plan>& plans,
                size_t threads = SIZE_MAX);
  PipelineMaker(std::shared_ptr<Pipelines> pipelines, const std::vector<const Dispatch*>& kernels,
                size_t threads);
  // Waits for the pipelines that are being compiled; skips the others.
  ~PipelineMaker();
  PipelineMaker(const PipelineMaker&) = delete;
  PipelineMaker& operator=(const PipelineMaker&) = delete;

  // Helps until all pipelines are compiled. Returns the first error, if there was one. `go_on` is called
  // between two pipelines; if it returns false, the result is Code::cancelled.
  Status finish(const std::function<bool()>& go_on = {});
  // After finish(): those of which no pipeline was made, but for those that were cancelled.
  FailedKernels failed() const;
  size_t wanted() const { return wanted_.size(); }
  size_t made() const { return made_; }
  size_t threads() const { return threads_.size(); }

private:
  void make(const std::function<bool()>& go_on);
  void stop();

  std::shared_ptr<Pipelines> pipelines_;
  std::vector<std::pair<std::string, std::vector<uint32_t>>> wanted_; // kernels with their constants
  std::atomic<size_t> next_ = 0;
  std::atomic<size_t> made_ = 0;
  std::mutex mutex_;
  Status status_;                            // whether it was cancelled
  std::vector<std::optional<Error>> errors_; // of each that is wanted
  std::optional<size_t> first_error_;
  std::vector<std::thread> threads_;
};

} // namespace pumice
