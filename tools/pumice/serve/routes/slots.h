#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "serve/models/scheduler.h"

namespace pumice::serve {

// A request that is being answered: what /slots says of it, and never a text.
struct Slot {
  uint64_t id = 0;
  std::string model, route;
  std::shared_ptr<const Texts> texts; // null: of a model without a batch
  uint64_t prompt_tokens = 0;
  std::atomic<uint64_t> tokens = 0; // that were written
  std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now();

  const char* state() const {
    if (!texts) return "running";
    return tokens > 0 ? "writing" : texts->joined() ? "reading" : "waiting";
  }
};

class Slots {
public:
  // It is listed until nobody has it any more.
  std::shared_ptr<Slot> open(const std::string& model, const std::string& route,
                             std::shared_ptr<const Texts> texts = nullptr, uint64_t prompt_tokens = 0) {
    auto slot = std::make_shared<Slot>();
    slot->model = model;
    slot->route = route;
    slot->texts = std::move(texts);
    slot->prompt_tokens = prompt_tokens;
    const std::lock_guard lock(mutex_);
    slot->id = ++last_;
    std::erase_if(all_, [](const std::weak_ptr<Slot>& each) { return each.expired(); });
    all_.push_back(slot);
    return slot;
  }
  std::vector<std::shared_ptr<const Slot>> now() {
    std::vector<std::shared_ptr<const Slot>> found;
    const std::lock_guard lock(mutex_);
    for (const std::weak_ptr<Slot>& each : all_) {
      if (std::shared_ptr<const Slot> slot = each.lock()) found.push_back(std::move(slot));
    }
    return found;
  }

private:
  std::mutex mutex_;
  uint64_t last_ = 0;
  std::vector<std::weak_ptr<Slot>> all_;
};

} // namespace pumice::serve
