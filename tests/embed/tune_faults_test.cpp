// As faults_test.cpp, for measuring kernels.
#include <memory>
#include <thread>

#include "support/command/program.h"
#include "support/vulkan/fault_phase.h"

namespace {

// Measuring the program's model for a moment, on the thread alone or in slices.
struct Measuring {
  FaultyProgram& program;
  bool in_slices;
  uint64_t before = 0; // bytes on the device

  pumice_status run(pumice_error* error) const {
    pumice_tune_options options = {sizeof options};
    options.seconds = 0.2f;
    options.thorough = true;
    options.in_slices = in_slices;
    options.context = 64;
    options.chunk = 8;
    pumice_tune* made = nullptr;
    const pumice_status status = pumice_tune_start(program.model.get(), &options, &made, error);
    if (status != PUMICE_OK) return status;
    const std::unique_ptr<pumice_tune, Destroy<pumice_tune_destroy>> tune(made);
    pumice_slice slice = {sizeof slice, in_slices};
    while (slice.active) {
      const pumice_status ended = pumice_work_advance(pumice_tune_work(made), 2000, nullptr, &slice, error);
      if (ended == PUMICE_OK) continue;
      while (!pumice_tune_poll(made, nullptr, nullptr)) std::this_thread::yield();
      CHECK(pumice_tune_finish(made, nullptr, nullptr) == ended);
      return ended;
    }
    return pumice_tune_finish(made, nullptr, error);
  }
};

FaultPhase measuring(Measuring& own) {
  FaultPhase phase{own.in_slices ? "measuring in slices" : "measuring", {}, {}, {}};
  phase.before = [&own] { own.before = own.program.allocated(); };
  phase.during = [&own](pumice_error* error) { return own.run(error); };
  phase.after = [&own](pumice_status status) {
    CHECK(own.program.allocated() == own.before);
    if (status == PUMICE_DEVICE_LOST) own.program.open_world();
  };
  phase.has_status = false; // a kernel that cannot be compiled is left out
  phase.most_calls = 3;
  return phase;
}

} // namespace

TEST_CASE("faults while kernels are measured" * doctest::test_suite("long")) {
  FaultyVulkan vulkan;
  vulkan.split_memory(true);
  FaultyProgram program(FaultyProgram::Owner::pumice, false);
  program.open_world();
  FaultCount count;
  for (const bool in_slices : {false, true}) {
    Measuring own{program, in_slices};
    count += inject(vulkan, measuring(own));
  }
  check_count(count, 50);
}
