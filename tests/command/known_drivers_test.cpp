#include "tools/pumice/doctor/known_drivers.h"

#include <string>

#include <doctest/doctest.h>

using namespace pumice;
using namespace pumice::command;

TEST_CASE("a bad driver is known by its number and version, and each of them was reported somewhere") {
  REQUIRE(!known_drivers().empty());
  for (const KnownDriver& each : known_drivers()) {
    CAPTURE(each.versions);
    CHECK(std::string(each.source).starts_with("https://"));
    REQUIRE(each.first < each.fixed);
    Capabilities device;
    device.type = VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
    device.driver_id = each.driver;
    const auto is_bad = [&](uint32_t build) {
      device.driver_build = build;
      for (const KnownDriver& found : known_faults(device)) {
        if (found.source == each.source) return true;
      }
      return false;
    };
    CHECK(is_bad(each.first));
    CHECK(is_bad(each.fixed - 1));
    CHECK_FALSE(is_bad(each.first - 1));
    CHECK_FALSE(is_bad(each.fixed));
    device.type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
    CHECK(is_bad(each.first) == !each.integrated_only);
    device.driver_id = VK_DRIVER_ID_GOOGLE_SWIFTSHADER;
    CHECK_FALSE(is_bad(each.first));
  }
}

TEST_CASE("versions are unpacked as their vendors pack them") {
  Capabilities device;
  device.type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
  device.driver_id = VK_DRIVER_ID_MESA_RADV;
  device.driver_build = VK_MAKE_VERSION(25, 2, 0);
  CHECK(known_faults(device).size() == 1);
  device.driver_build = VK_MAKE_VERSION(26, 0, 5);
  CHECK(known_faults(device).empty());
  device.driver_id = VK_DRIVER_ID_INTEL_PROPRIETARY_WINDOWS;
  device.driver_build = 101 << 14 | 8515; // 32.0.101.8515
  CHECK(known_faults(device).size() == 1);
  device.driver_build = 101 << 14 | 8860;
  CHECK(known_faults(device).empty());
}
