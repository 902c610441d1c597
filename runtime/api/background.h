#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <system_error>
#include <thread>

#include "api/call.h"
#include "base/low_priority.h"
#include "base/progress.h"

namespace pumice::api {

// Makes something on a thread of its own, behind the threads of the program, and hands it out once.
template <class Made>
class Background {
public:
  // Makes it; asks `progress` from time to time whether to go on.
  using Work = std::function<Result<std::unique_ptr<Made>>(const Progress& progress)>;

  ~Background() {
    cancel();
    if (thread_.joinable()) thread_.join();
  }

  // `what` is the thing, for messages: "the model".
  Status start(Work work, const char* what) {
    what_ = what;
    try {
      thread_ = std::thread([this, job = std::move(work)] { run(job); });
    } catch (const std::system_error& refused) {
      return Error{Code::out_of_memory,
                   std::string("the system started no thread to make ") + what + " with: " + refused.what()};
    }
    return {};
  }

  // Whether it has ended, and how far it is. The pointers may be null. From any thread.
  bool poll(uint64_t* done, uint64_t* total) const {
    if (done) *done = done_;
    if (total) *total = total_;
    return ended_;
  }
  void cancel() { cancelled_ = true; }

  // Waits for the end.
  Result<std::unique_ptr<Made>> finish() {
    if (thread_.joinable()) thread_.join();
    if (error_.status != PUMICE_OK) return Error{to_code(error_.status), error_.message};
    if (!made_) {
      return Error{Code::invalid_argument, std::string(what_) + " has been handed out already"};
    }
    return std::move(made_);
  }

private:
  void run(const Work& work) {
    lower_priority();
    call(&error_, [&]() -> Status {
      PUMICE_TRY(made_, work([this](uint64_t done, uint64_t total) {
                   total_ = total; // before what poll() reads first, so that it never sees more than all
                   done_ = done;
                   return !cancelled_.load();
                 }));
      return {};
    });
    ended_ = true;
  }

  const char* what_ = "";
  std::thread thread_;
  std::atomic<bool> cancelled_ = false;
  std::atomic<bool> ended_ = false;
  std::atomic<uint64_t> done_ = 0;
  std::atomic<uint64_t> total_ = 0;
  // Of the thread, until it has been joined.
  std::unique_ptr<Made> made_;
  pumice_error error_ = {};
};

// What an application's callback for progress says, and then another one.
inline Progress both(bool (*function)(void*, uint64_t, uint64_t), void* user, Progress other = {}) {
  return [=](uint64_t done, uint64_t total) {
    const bool wanted = !function || function(user, done, total);
    return (!other || other(done, total)) && wanted;
  };
}

} // namespace pumice::api
