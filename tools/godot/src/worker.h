// A thread that does what may take longer than a frame, one task after the other, and hands what comes of it
// back to the main thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace godot {

class Worker {
public:
  ~Worker() { stop(); }

  // The thread starts with the first task.
  void post(std::function<void()> task);
  // From the worker: something for the main thread.
  void deliver(std::function<void()> event);
  // On the main thread: does what was delivered.
  void take();
  // Whether there is a task that has not ended, or something to take.
  bool busy() const { return open_ > 0; }
  // Long tasks ask this.
  bool stopping() const { return stopping_; }
  // Waits for the task under way; the others are dropped, and what was delivered too.
  void stop();

private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_, events_;
  std::atomic<int> open_ = 0;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

} // namespace godot
