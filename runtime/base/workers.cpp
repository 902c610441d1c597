#include "base/workers.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/guarded.h"
#include "base/low_priority.h"

namespace pumice {

Workers::Workers(size_t most) {
  const size_t wanted = std::min<size_t>(most, std::max(1u, std::thread::hardware_concurrency()));
  try {
    threads_.reserve(wanted); // a thread that there is no place for would end the program
    while (threads_.size() + 1 < wanted) threads_.push_back(start_thread([this] { work(); }));
  } catch (const std::exception&) { // no thread to be had, or no memory for one
    // Those that there are do it all.
  }
}

Workers::~Workers() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  begun_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

Status Workers::run(size_t count, const std::function<void(size_t)>& task) {
  if (count == 0) return {};
  std::unique_lock lock(mutex_);
  task_ = &task;
  next_ = 0;
  count_ = left_ = count;
  begun_.notify_all();
  take_all(lock);
  done_.wait(lock, [&] { return left_ == 0; });
  return std::exchange(status_, {});
}

void Workers::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    begun_.wait(lock, [&] { return ending_ || next_ < count_; });
    if (ending_) return;
    take_all(lock);
  }
}

void Workers::take_all(std::unique_lock<std::mutex>& lock) {
  while (next_ < count_) {
    const size_t index = next_++;
    lock.unlock();
    Status status = guarded([&] { (*task_)(index); });
    lock.lock();
    if (!status.ok()) { // those that have not begun are left out
      if (status_.ok()) status_ = std::move(status);
      left_ -= count_ - next_;
      next_ = count_;
    }
    if (--left_ == 0) done_.notify_one();
  }
}

} // namespace pumice
