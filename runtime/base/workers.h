#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "base/result.h"

namespace pumice {

// Threads that share work out among themselves, for as long as this lives.
class Workers {
public:
  // As many threads as the host can run at a time, but no more than `most`, the caller's among them. Fewer
  // where the system has no more to give.
  explicit Workers(size_t most);
  ~Workers();
  size_t threads() const { return threads_.size() + 1; } // the caller's among them
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Calls task(0) to task(count - 1), in about that order and several at a time. Returns when all have
  // returned. Called by one thread at a time. An exception of a task comes back as an Error (base/guarded.h);
  // tasks that have not begun by then are left out.
  Status run(size_t count, const std::function<void(size_t)>& task);

private:
  void work();
  void take_all(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable begun_, done_;
  const std::function<void(size_t)>* task_ = nullptr;
  size_t next_ = 0, count_ = 0;
  size_t left_ = 0; // that have not returned
  Status status_;   // the first error
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

} // namespace pumice
