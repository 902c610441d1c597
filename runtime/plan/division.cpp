#include "plan/division.h"

#include <algorithm>
#include <cmath>

#include "gpu/kernel_table.h"
#include "gpu/spirv.h"

namespace pumice {

namespace {

// Devices start workgroups with the first axis counting fastest. Dividing the last possible axis first keeps
// together what is started together, and what reads the same memory.
constexpr int last_axis = 2;

class Division {
public:
  Division(const DeviceSpeed& speed, const std::array<bool, 3>& counted) : speed_(speed), counted_(counted) {}

  void add(const Dispatch& dispatch, int axis) {
    const double share = longest_dispatch_seconds / speed_.seconds(dispatch);
    while (axis >= 0 && (counted_[axis] || dispatch.groups[axis] <= 1)) --axis;
    if (share >= 1 || axis < 0) {
      parts.push_back(dispatch);
      return;
    }
    const uint32_t groups = dispatch.groups[axis];
    const uint32_t most = std::max(1u, static_cast<uint32_t>(groups * share)); // in a part
    const uint32_t count = (groups + most - 1) / most;
    for (uint32_t i = 0; i < count; ++i) {
      const auto begin = static_cast<uint32_t>(uint64_t{groups} * i / count);
      const auto end = static_cast<uint32_t>(uint64_t{groups} * (i + 1) / count);
      Dispatch part = dispatch;
      part.first_group[axis] += begin;
      part.groups[axis] = end - begin;
      part.flops *= static_cast<double>(end - begin) / groups;
      part.bytes *= static_cast<double>(end - begin) / groups;
      add(part, axis - 1);
    }
  }

  std::vector<Dispatch> parts;

private:
  const DeviceSpeed& speed_;
  const std::array<bool, 3>& counted_;
};

} // namespace

std::vector<Dispatch> divide(const Dispatch& dispatch, const DeviceSpeed& speed) {
  if (speed.seconds(dispatch) <= longest_dispatch_seconds) return {dispatch};
  const KernelBinary* kernel = find_kernel(dispatch.kernel);
  if (!kernel) return {dispatch};
  const std::array<bool, 3> counted = counted_axes(kernel->code());
  Division division(speed, counted);
  division.add(dispatch, last_axis);
  return std::move(division.parts);
}

} // namespace pumice
