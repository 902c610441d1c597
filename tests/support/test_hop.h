#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "stage/hop.h"

// A hop for tests. It has several places for messages. Each is complete after a random delay, and so in
// another order than they were sent. After so many messages it fails.
class TestHop : public pumice::Hop {
public:
  static constexpr uint32_t most_delay = 2000; // microseconds

  explicit TestHop(uint32_t seed, uint64_t messages = UINT64_MAX, size_t places = 4)
      : random_(seed + 1), left_(messages), places_(places) {
    transport_ = std::thread([this] { complete(); });
  }
  ~TestHop() override {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    transport_.join();
  }

  pumice::Status reserve(size_t) override { return {}; }

  pumice::Result<std::span<std::byte>> begin(size_t bytes) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return closed_ || find(State::free); });
    if (closed_) return *closed_;
    filled_ = find(State::free);
    filled_->bytes.resize(bytes);
    return std::span(filled_->bytes);
  }

  pumice::Status send() override {
    {
      const std::lock_guard lock(mutex_);
      if (closed_) return *closed_;
      filled_->number = sent_++;
      filled_->state = State::under_way;
    }
    changed_.notify_all();
    return {};
  }

  pumice::Result<std::span<const std::byte>> receive() override {
    std::unique_lock lock(mutex_);
    if (read_) read_->state = State::free;
    read_ = nullptr;
    changed_.notify_all();
    if (left_-- == 0) closed_ = pumice::Error{pumice::Code::io, "the link to the test is cut"};
    changed_.wait(lock, [&] { return closed_ || next(); });
    read_ = next();
    if (!read_) return *closed_;
    ++received_;
    return std::span<const std::byte>(read_->bytes);
  }

  void close(pumice::Error error) override {
    {
      const std::lock_guard lock(mutex_);
      if (!closed_) closed_ = std::move(error);
    }
    changed_.notify_all();
  }

  // Messages that were complete before one that was sent earlier.
  uint64_t overtaken() const {
    const std::lock_guard lock(mutex_);
    return overtaken_;
  }

private:
  enum class State : uint32_t { free, under_way, complete };
  struct Place {
    State state = State::free;
    uint64_t number = 0;
    std::vector<std::byte> bytes;
  };

  Place* find(State state) {
    for (Place& place : places_) {
      if (place.state == state) return &place;
    }
    return nullptr;
  }
  Place* next() {
    for (Place& place : places_) {
      if (place.state == State::complete && place.number == received_) return &place;
    }
    return nullptr;
  }

  // One message after the other, any of those under way.
  void complete() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return ending_ || find(State::under_way); });
      if (ending_) return;
      const auto delay = std::chrono::microseconds(random_() % most_delay);
      changed_.wait_for(lock, delay, [&] { return ending_; });
      std::vector<Place*> under_way;
      for (Place& place : places_) {
        if (place.state == State::under_way) under_way.push_back(&place);
      }
      Place& chosen = *under_way[random_() % under_way.size()];
      for (const Place* other : under_way) overtaken_ += other->number < chosen.number;
      chosen.state = State::complete;
      changed_.notify_all();
    }
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::minstd_rand random_;
  uint64_t left_;
  std::vector<Place> places_;
  Place *filled_ = nullptr, *read_ = nullptr;
  uint64_t sent_ = 0, received_ = 0, overtaken_ = 0; // messages
  bool ending_ = false;
  std::optional<pumice::Error> closed_;
  std::thread transport_;
};
