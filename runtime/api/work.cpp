#include "api/work.h"

#include <vector>

using namespace pumice;
using namespace pumice::api;

namespace {

// Converts the caller's arrays of semaphores for a submission.
class Sync {
public:
  static Result<Sync> read(const pumice_sync* caller_sync) {
    PUMICE_TRY(const pumice_sync sync, api::read(caller_sync, "sync"));
    Sync result;
    PUMICE_TRY(result.wait_, pairs(sync.wait, sync.wait_values, sync.wait_count, "sync.wait"));
    PUMICE_TRY(result.signal_, pairs(sync.signal, sync.signal_values, sync.signal_count, "sync.signal"));
    return result;
  }
  SubmitSync spans() const { return {wait_, signal_}; }

private:
  static Result<std::vector<SemaphoreValue>> pairs(const VkSemaphore* semaphores, const uint64_t* values,
                                                   uint32_t count, const char* name) {
    std::vector<SemaphoreValue> all;
    PUMICE_CHECK(check_array(semaphores, count, sizeof *semaphores, name));
    PUMICE_CHECK(check_array(values, count, sizeof *values, name + std::string("_values")));
    for (uint32_t i = 0; i < count; ++i) {
      if (!semaphores[i])
        return Error{Code::invalid_argument, name + ("[" + std::to_string(i) + "] is VK_NULL_HANDLE")};
      all.push_back({semaphores[i], values[i]});
    }
    return all;
  }

  std::vector<SemaphoreValue> wait_, signal_;
};

Status write_slice(const SliceResult& from, pumice_slice* to) {
  pumice_slice slice = {sizeof slice};
  slice.active = from.active;
  slice.dispatches = from.report.dispatches;
  slice.expected_us = static_cast<float>(from.report.expected * 1e6);
  slice.largest_us = static_cast<float>(from.largest * 1e6);
  slice.finished = from.report.finished;
  slice.measured_us = static_cast<float>(from.report.measured * 1e6);
  slice.predicted_us = static_cast<float>(from.report.predicted * 1e6);
  return write(slice, to, "slice");
}

Result<double> read_budget(float budget_us) {
  if (budget_us > 0) return double{budget_us} * 1e-6; // false for a NaN
  return Error{Code::invalid_argument,
               "budget_us is " + std::to_string(budget_us) + ": expected more than 0"};
}

} // namespace

Error pumice::api::running_error(const pumice_work& work) {
  const std::string after = work.function_name ? std::string("after ") + work.function_name + ", or " : "";
  return {Code::not_ready, std::string("the ") + work.handle_name +
                               " is in a function that has not returned: call this " + after +
                               "from one thread at a time"};
}

extern "C" {

pumice_status pumice_work_advance(pumice_work* work, float budget_us, const pumice_sync* sync,
                                  pumice_slice* slice, pumice_error* error) {
  return call_exclusive(work, error, [&]() -> Status {
    PUMICE_TRY(const double budget, read_budget(budget_us));
    PUMICE_TRY(const Sync semaphores, Sync::read(sync));
    PUMICE_TRY(const SliceResult result, work->slice({budget, semaphores.spans()}));
    return write_slice(result, slice);
  });
}

pumice_status pumice_work_record(pumice_work* work, VkCommandBuffer command_buffer, float budget_us,
                                 pumice_slice* slice, pumice_error* error) {
  return call_exclusive(work, error, [&]() -> Status {
    PUMICE_REQUIRE(command_buffer);
    PUMICE_TRY(const double budget, read_budget(budget_us));
    PUMICE_TRY(const SliceResult result, work->slice({budget, {}, command_buffer}));
    return write_slice(result, slice);
  });
}

pumice_status pumice_work_discard(pumice_work* work, pumice_error* error) {
  return call_exclusive(work, error, [&] { return work->discard(); });
}

void pumice_work_cancel(pumice_work* work) {
  if (is_live(work)) work->cancel();
}

} // extern "C"
