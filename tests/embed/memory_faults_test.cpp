// The host's memory running out on threads that Pumice started: it comes back as a status, nothing
// hangs, and the program goes on.
#include <algorithm>
#include <thread>

#include <doctest/doctest.h>

#include "support/embedding.h"
#include "support/vulkan/failing_memory.h"

namespace {

// Without validation, and with nothing compiled yet.
DeviceHandle bare_device() {
  pumice_device* device = nullptr;
  pumice_error error;
  require_ok(pumice_device_create(nullptr, &device, &error), error);
  return DeviceHandle(device);
}

// As a program loads in the background, with as many threads as the machine has.
pumice_status load_in_background(pumice_device* device, ModelHandle& model, pumice_error* error) {
  pumice_source source = {sizeof source};
  source.path = stories.c_str();
  pumice_load_options options = {sizeof options};
  options.threads = 8;
  options.tune_seconds = -1;
  pumice_load* load = nullptr;
  require_ok(pumice_load_start(device, &source, &options, &load, error), *error);
  const LoadHandle handle(load);
  pumice_model* made = nullptr;
  const pumice_status status = pumice_load_finish(load, &made, error);
  model.reset(made);
  return status;
}

struct Count {
  int failed = 0;
  int tolerated = 0; // a thread fewer, for one
};

// One allocation of a thread of a load, or all from that one on. False: the thread has fewer.
bool load_fails_well(size_t thread, size_t allocation, bool lasting, Count& count) {
  CAPTURE(thread);
  CAPTURE(allocation);
  CAPTURE(lasting);
  const DeviceHandle device = bare_device();
  ModelHandle model;
  pumice_error error = {};
  pumice_status status = PUMICE_OK;
  bool failed = false;
  {
    const FailingMemory memory(thread, allocation, lasting);
    status = load_in_background(device.get(), model, &error);
    failed = memory.failed();
  }
  CAPTURE(error.message);
  CHECK((status == PUMICE_OK) == (model != nullptr));
  if (status != PUMICE_OK) {
    CHECK(failed);
    CHECK(status == PUMICE_OUT_OF_MEMORY);
    CHECK(std::string(error.message).find("memory") != std::string::npos);
    CHECK(allocated(device.get()) == 0);
    if (allocation == 0) require_ok(load_in_background(device.get(), model, &error), error);
  }
  if (failed) ++(status == PUMICE_OK ? count.tolerated : count.failed);
  return failed;
}

// Of a thread's allocations, each so many times as late as the one before.
void check_each_thread(size_t factor) {
  size_t threads = 0;
  for (bool found = true; found; ++threads) {
    Count count;
    for (const bool lasting : {false, true}) {
      // JSON's destructors, with which the loading thread gives up, need memory themselves.
      if (lasting && threads == 0) continue;
      size_t allocation = 0;
      while (load_fails_well(threads, allocation, lasting, count)) allocation = factor * allocation + 1;
      found = allocation > 0;
    }
    if (!found) break;
    MESSAGE("thread " << threads << ": " << count.failed << " loads failed, " << count.tolerated
                      << " did not");
    CHECK(count.failed > 0);
  }
  // The one that loads, one that compiles and, on a machine of several cores, one that packs.
  CHECK(threads >= std::min(3u, 1 + std::thread::hardware_concurrency()));
}

} // namespace

TEST_CASE("a load ends with a status whichever of its threads gets no memory, and can be begun again") {
  check_each_thread(6);
}

TEST_CASE("many a load ends with a status where a thread gets no memory" * doctest::test_suite("long")) {
  check_each_thread(2);
}
