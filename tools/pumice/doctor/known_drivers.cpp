#include "doctor/known_drivers.h"

namespace pumice::command {

namespace {

// As Intel's drivers for Windows pack the last two parts of 32.0.101.8860.
constexpr uint32_t intel_windows(uint32_t major, uint32_t minor) {
  return major << 14 | minor;
}

constexpr KnownDriver drivers[] = {
    {VK_DRIVER_ID_INTEL_PROPRIETARY_WINDOWS, intel_windows(101, 4096), intel_windows(101, 4382), false,
     "101.4096 to 101.4381", "compute shaders are broken", "101.4382 or later",
     "https://github.com/yuzu-emu/yuzu/pull/10835"},
    {VK_DRIVER_ID_INTEL_PROPRIETARY_WINDOWS, intel_windows(101, 5333), intel_windows(101, 6790), true,
     "101.5333 to 101.6789", "integrated GPUs are lost when work is submitted", "101.6790 or later",
     "https://github.com/ec-/Quake3e/pull/374"},
    {VK_DRIVER_ID_INTEL_PROPRIETARY_WINDOWS, intel_windows(101, 8425), intel_windows(101, 8860), false,
     "101.8425 to 101.8859", "the device is lost while a model runs, mostly with cooperative matrices",
     "101.8860 or later", "https://github.com/ggml-org/llama.cpp/issues/22034"},
    {VK_DRIVER_ID_AMD_PROPRIETARY, VK_MAKE_API_VERSION(0, 2, 0, 388), VK_MAKE_API_VERSION(0, 2, 0, 389), true,
     "2.0.388 (Adrenalin 26.3.1)", "asking an integrated GPU for its cooperative matrices ends the program",
     "a later Adrenalin", "https://github.com/ggml-org/llama.cpp/pull/22750"},
    {VK_DRIVER_ID_MESA_RADV, VK_MAKE_API_VERSION(0, 25, 0, 7), VK_MAKE_API_VERSION(0, 26, 0, 5), false,
     "Mesa 25.0.7 to 26.0.4", "making pipelines can overwrite the program's memory", "Mesa 26.0.5 or later",
     "https://github.com/ggml-org/llama.cpp/issues/22128"},
};

} // namespace

std::span<const KnownDriver> known_drivers() {
  return drivers;
}

std::vector<KnownDriver> known_faults(const Capabilities& device) {
  std::vector<KnownDriver> found;
  for (const KnownDriver& each : drivers) {
    const bool version = device.driver_build >= each.first && device.driver_build < each.fixed;
    const bool integrated = device.type == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
    if (each.driver == device.driver_id && version && (integrated || !each.integrated_only))
      found.push_back(each);
  }
  return found;
}

} // namespace pumice::command
