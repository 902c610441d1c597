#pragma once

#include <functional>
#include <string>

#include "api/pumice.h"
#include "support/faulty_vulkan.h"

// A part of a program's use of Pumice, in which Vulkan fails.
struct FaultPhase {
  std::string name;
  // Brings the program to where the phase begins; nothing fails.
  std::function<void()> before;
  // The phase: calls of Pumice until one of them does not succeed.
  std::function<pumice_status(pumice_error*)> during;
  // Goes on from there with what the program does about it, and checks what comes of it. Nothing fails.
  std::function<void(pumice_status)> after;
  bool has_status = true; // false: it takes down what is there, whatever happens
  int most_calls = 12;    // of a function that are made to fail, spread over all that there are
};

struct FaultCount {
  int cases = 0;
  int tolerated = 0; // what was of no consequence

  FaultCount& operator+=(const FaultCount& other);
};

// How many of a function's calls are made to fail, and how.
struct FaultEffort {
  int most_calls = 100;
  bool every_way = true; // the first one fails in every way that it may, later ones in one way in turn
};

// Makes the calls of each Vulkan function in a phase fail, one at a time: it has to come back as a status and
// a sentence that names the function.
FaultCount inject(FaultyVulkan& vulkan, const FaultPhase& phase, const FaultEffort& effort = {});

// Says how many there were, and checks that there were enough.
void check_count(const FaultCount& count, int least);
