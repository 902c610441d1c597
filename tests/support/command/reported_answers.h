#pragma once

#include <string>
#include <vector>

#include "support/vulkan/device_profiles.h"

// What a device answers to questions about it, and to the features that a VkDevice is made with. What it
// should not have been asked is added to `wrong`, a sentence each.

void answer_properties(const ReportedDevice& device, VkPhysicalDeviceProperties& properties);
void answer_properties(const ReportedDevice& device, VkPhysicalDeviceProperties2& properties,
                       std::vector<std::string>& wrong);
void answer_features(const ReportedDevice& device, VkPhysicalDeviceFeatures2& features,
                     std::vector<std::string>& wrong);
// `used`: bytes of each heap.
void answer_memory(const ReportedDevice& device, const std::vector<uint64_t>& used,
                   VkPhysicalDeviceMemoryProperties2& memory);

bool has_extension(const ReportedDevice& device, const std::string& name);

// The features of a chain of structures.
ReportedFeatures enabled_features(const ReportedDevice& device, const void* chain,
                                  std::vector<std::string>& wrong);
// The feature that a capability of SPIR-V needs and these features lack, or what else is wrong with it; empty
// if all is well.
std::string missing_for(uint32_t capability, const ReportedDevice& device, const ReportedFeatures& enabled);
