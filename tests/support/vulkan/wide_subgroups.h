#pragma once

#include <string>

#include "gpu/vulkan_table.h"

// Where PUMICE_TEST_SUBGROUP is a number: the machine's Vulkan as if its devices' subgroups had so many
// invocations. The devices say so, and run in place of every kernel that exchanges values within a subgroup
// what the build made of it for this (tests/support/wide_subgroups/). They have no cooperative matrices, or,
// where PUMICE_TEST_MATRICES is set, those of the machine's device, for products alone: each of its own
// subgroups multiplies the whole matrix of the wide one that it is a part of.

// For InstanceOptions::table; null where the variable is not set.
PFN_vkGetInstanceProcAddr wide_vulkan();

// Why the device that would be chosen cannot do it; empty if it can, or need not.
std::string why_not_wide();
