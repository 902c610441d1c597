#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/ceilings.h"
#include "kernel/device_context.h"

namespace pumice {

// What a forecast of a step (forecast/step_forecast.h) must know of a processor. chips.def has the figures,
// and where they come from.
struct Chip {
  std::string name;   // of --chip
  std::string title;  // for a person
  uint32_t cores = 0; // that take workgroups: multiprocessors, compute units, threads of a CPU
  double clock = 0;   // of theirs, in hertz
  // Instructions of a lane that a core begins in a cycle. Of a CPU: what a core does in a second is its clock
  // here, so this is 1, and an instruction is a multiply-add.
  double lanes = 0;
  double integer_slots = 1; // lanes in all to one that takes operations on integers and conversions
  uint32_t subgroup = 32;   // invocations
  uint32_t subgroups = 0;   // resident on a core at most
  uint32_t registers = 0;   // of 32 bits that a core has for all its lanes
  double memory_bytes_per_second = 0;
  double memory_share = 1;           // of them that kernels which only read reach
  double memory_seconds = 0;         // until a load from memory has come
  double cache_bytes_per_second = 0; // of the cache that all cores share
  double cache_seconds = 0;
  double launch_seconds = 0;  // until the next launch begins where no barrier is between them
  double barrier_seconds = 0; // until it begins behind a barrier
  // Of a core in a cycle, by matrices of 16-bit floats whose sums have 32 bits; 0: it has none.
  double matrix_flops = 0;
  double matrix_share = 1; // of them that subgroups' matrices reach
  double shared_bytes = 0; // of a core, for its workgroups
  double shared_bytes_per_cycle = 0;
  double cache_bytes = 0; // that the cache of all cores keeps
  bool cpu = false;
  // Of a CPU's driver. Where each lane loads by itself, a load is instructions, and nothing hides it.
  bool loads_are_instructions = false;
  double conversion_share = 1; // of what a weight's conversion costs there

  // By matrices, or by the lanes' multiply-adds where there are none.
  double peak_flops() const { return cores * clock * (matrix_flops > 0 ? matrix_flops : 2 * lanes); }
};

// The chips that --chip names, and "this".
std::span<const Chip> known_chips();
std::vector<std::string> chip_names();
inline constexpr std::string_view this_chip = "this";
const Chip* find_chip(std::string_view name);

// What to plan with for a known chip: there is no device, so nothing can run. Its memory is that of the card.
DeviceContext context_of(const Chip& chip);

// A device that is here: its speed as it was measured, and what was not measured as of the known chip that is
// most like it.
Chip chip_of(const Capabilities& device, const DeviceProfile& profile, const Ceilings& ceilings);

} // namespace pumice
