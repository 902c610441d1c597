#pragma once

#include <cstdint>
#include <functional>

namespace pumice {

// Called repeatedly during long work, with how much of it is done. When it returns false, the work stops
// within one submission to the device and returns Code::cancelled.
using Progress = std::function<bool(uint64_t done, uint64_t total)>;

} // namespace pumice
