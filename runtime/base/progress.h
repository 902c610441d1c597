#pragma once

#include <cstdint>
#include <functional>

namespace pumice {

// Called now and then during long work with how much of it is done. Returning false asks for it to stop,
// which it does with Code::cancelled within one submission to the device.
using Progress = std::function<bool(uint64_t done, uint64_t total)>;

} // namespace pumice
