#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "gpu/vulkan_table.h"

// What a compute shader asks of a device, with the values that its specialisation constants are given.
struct ShaderDemands {
  std::vector<uint32_t> capabilities;            // SPIR-V's numbers
  std::array<uint32_t, 3> workgroup = {1, 1, 1}; // invocations
  uint64_t shared_bytes = 0;
  uint32_t storage_buffers = 0; // the highest binding and one
  uint64_t push_constant_bytes = 0;
};

// `constants`: null for the shader's own values. Anything that is not understood fails the test: nothing is
// taken for less than it is.
ShaderDemands read_shader(std::span<const uint32_t> code, const VkSpecializationInfo* constants);
