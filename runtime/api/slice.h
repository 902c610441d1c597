#pragma once

#include <functional>
#include <vector>

#include "api/call.h"
#include "generate/session.h"

namespace pumice::api {

inline double seconds(float microseconds) {
  return double{microseconds} * 1e-6;
}

// Converts the caller's arrays of semaphores for a submission.
class Sync {
public:
  static Result<Sync> read(const pumice_sync* given) {
    PUMICE_TRY(const pumice_sync sync, api::read(given, "sync"));
    Sync own;
    PUMICE_TRY(own.wait_, pairs(sync.wait, sync.wait_values, sync.wait_count, "sync.wait"));
    PUMICE_TRY(own.signal_, pairs(sync.signal, sync.signal_values, sync.signal_count, "sync.signal"));
    return own;
  }
  SubmitSync spans() const { return {wait_, signal_}; }

private:
  static Result<std::vector<SemaphoreValue>> pairs(const VkSemaphore* semaphores, const uint64_t* values,
                                                   uint32_t count, const char* name) {
    std::vector<SemaphoreValue> all;
    PUMICE_CHECK(check_array(semaphores, count, sizeof *semaphores, name));
    PUMICE_CHECK(check_array(values, count, sizeof *values, name + std::string("_values")));
    for (uint32_t i = 0; i < count; ++i) all.push_back({semaphores[i], values[i]});
    return all;
  }

  std::vector<SemaphoreValue> wait_, signal_;
};

inline Status write_slice(const SliceResult& from, pumice_slice* to) {
  pumice_slice own = {sizeof own};
  own.active = from.active;
  own.dispatches = from.report.dispatches;
  own.expected_us = static_cast<float>(from.report.expected * 1e6);
  own.largest_us = static_cast<float>(from.largest * 1e6);
  own.finished = from.report.finished;
  own.measured_us = static_cast<float>(from.report.measured * 1e6);
  own.predicted_us = static_cast<float>(from.report.predicted * 1e6);
  return write(own, to, "slice");
}

inline Result<double> read_budget(float budget_us) {
  if (budget_us > 0) return seconds(budget_us); // false for a NaN
  return Error{Code::invalid_argument,
               "budget_us is " + std::to_string(budget_us) + ": expected more than 0"};
}

// Runs a slice of `work` as the caller's arguments say, and describes it. `after` takes the result, good or
// bad, and returns the one to describe.
template <class Work, class After = std::identity>
Status advance_slice(Work& work, float budget_us, const pumice_sync* sync, pumice_slice* slice,
                     const After& after = {}) {
  PUMICE_TRY(const double budget, read_budget(budget_us));
  PUMICE_TRY(const Sync semaphores, Sync::read(sync));
  PUMICE_TRY(const SliceResult result, after(work.advance(budget, semaphores.spans())));
  return write_slice(result, slice);
}

// The same into the caller's command buffer.
template <class Work, class After = std::identity>
Status record_slice(Work& work, VkCommandBuffer command_buffer, float budget_us, pumice_slice* slice,
                    const After& after = {}) {
  PUMICE_REQUIRE(command_buffer);
  PUMICE_TRY(const double budget, read_budget(budget_us));
  PUMICE_TRY(const SliceResult result, after(work.record(command_buffer, budget)));
  return write_slice(result, slice);
}

inline ExternalBuffer external_buffer(const pumice_buffer& buffer) {
  return {buffer.buffer, buffer.offset, buffer.bytes};
}

// Checks that a range of the caller's buffer has at least so many bytes.
inline Status check_buffer(const pumice_buffer& buffer, uint64_t bytes, const char* name) {
  if (!buffer.buffer) return {};
  if (buffer.offset % 4 != 0) {
    return Error{Code::invalid_argument, std::string(name) + ".offset is " + std::to_string(buffer.offset) +
                                             ": expected a multiple of 4"};
  }
  if (buffer.bytes >= bytes) return {};
  return Error{Code::invalid_argument, std::string(name) + ".bytes is " + std::to_string(buffer.bytes) +
                                           ": expected at least " + std::to_string(bytes)};
}

} // namespace pumice::api
