#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/result.h"

namespace pumice {

// How many cores a GPU has whose driver does not say it, by the times of growing grids: up to one workgroup
// for each core they take no longer than a single workgroup, then longer and longer.

// The seconds of a launch of so many workgroups, with so many rounds of arithmetic each: as many invocations
// as keep a core busy.
// At most `most_grid` of them.
using TimeGrid = std::function<Result<double>(uint32_t groups, uint32_t rounds)>;

inline constexpr uint32_t most_grid = 4096;

// Times grids until it is clear, for a quarter of a second at most on a device that answers in time. 0: it is
// not to be seen.
Result<uint32_t> count_cores(const TimeGrid& time);

struct GridTime {
  uint32_t groups = 0;
  double seconds = 0; // without what any launch takes
};
// Where the flat part of the curve meets the rising one; 0 where it has not both.
uint32_t cores_of(std::span<const GridTime> times);

} // namespace pumice
