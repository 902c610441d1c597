#include "worker.h"

namespace godot {

void Worker::post(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    ++open_;
  }
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  changed_.notify_one();
}

void Worker::deliver(std::function<void()> event) {
  const std::lock_guard lock(mutex_);
  events_.push_back(std::move(event));
  ++open_;
}

void Worker::take() {
  for (;;) {
    std::function<void()> event;
    {
      const std::lock_guard lock(mutex_);
      if (events_.empty()) return;
      event = std::move(events_.front());
      events_.pop_front();
    }
    event();
    --open_;
  }
}

void Worker::stop() {
  stopping_ = true;
  {
    const std::lock_guard lock(mutex_); // so that the thread is not between its look and its wait
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
  tasks_.clear();
  events_.clear();
  open_ = 0;
  stopping_ = false;
}

void Worker::run() {
  for (;;) {
    std::function<void()> task;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
      if (stopping_) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
    --open_;
  }
}

} // namespace godot
