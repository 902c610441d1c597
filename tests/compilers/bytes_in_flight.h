#pragma once

#include <optional>
#include <string_view>

// The most bytes of memory that an invocation of a kernel waits for at one time, as the driver's compiler has
// put the loads and the waits into the kernel's innermost loop with the most loads; without loops, anywhere.
// By Little's law, those of all invocations that a core keeps, over the latency of a load, are the most that
// a core can get of the memory.
//   `name`: the driver's name of the listing: "NAK assembly", "Assembly" (RADV), "GEN Assembly" or
//   "IR3 Assembly". Nothing for any other.
std::optional<double> bytes_in_flight(std::string_view name, std::string_view listing);
