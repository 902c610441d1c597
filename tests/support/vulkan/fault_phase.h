#pragma once

#include <functional>
#include <string>

#include "api/pumice.h"
#include "support/vulkan/faulty_vulkan.h"

// A part of a program's use of Pumice, in which Vulkan fails.
struct FaultPhase {
  std::string name;
  // Brings the program to where the phase begins; nothing fails.
  std::function<void()> before;
  // The phase: calls of Pumice until one of them does not succeed.
  std::function<pumice_status(pumice_error*)> during;
  // What the program does after the failure, with checks of the result. Nothing fails here.
  std::function<void(pumice_status)> after;
  bool has_status = true; // false: the phase frees things, which has no status
  int most_calls = 12;    // how many of a function's calls are made to fail, spread over all of them
};

struct FaultCount {
  int cases = 0;
  int tolerated = 0; // failures that changed nothing

  FaultCount& operator+=(const FaultCount& other);
};

// How many of a function's calls are made to fail, and how.
struct FaultEffort {
  int most_calls = 100;
  bool every_way = true; // the first fails with each of its errors, later ones with one error each, in turn
};

// Makes the calls of each Vulkan function in a phase fail, one at a time. Each failure has to come back as a
// status and a sentence that names the function. With PUMICE_TEST_FEW_FAULTS in the environment, at most the
// first and the last call of a function: builds with sanitizers are slow, and look for other mistakes.
FaultCount inject(FaultyVulkan& vulkan, const FaultPhase& phase, const FaultEffort& wanted = {});

// Prints how many cases there were, and checks that there were enough, unless few were asked for.
void check_count(const FaultCount& count, int least);
