#include "support/vulkan/row_bits.h"

#include <algorithm>

#include "support/vulkan/gpu.h"

using namespace pumice;

bool same_in_any_step(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return false;
  return std::ranges::equal(a, b) ||
         (!TestGpu::get().device()->capabilities().is_cpu() && relative_rms(a, b) <= 1e-4);
}

bool same_in_any_step(const std::map<std::string, std::vector<float>>& a,
                      const std::map<std::string, std::vector<float>>& b) {
  return std::ranges::equal(a, b, [](const auto& one, const auto& other) {
    return one.first == other.first && same_in_any_step(one.second, other.second);
  });
}

DeviceContext one_kernel_context(DeviceContext context) {
  if (!context.device->capabilities().is_cpu()) context.profile.forced = "portable";
  return context;
}
