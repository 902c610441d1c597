// How much is uploaded at a time, to devices that are made up.
#include "plan/upload_pace.h"

#include <doctest/doctest.h>

#include <initializer_list>
#include <limits>

using namespace pumice;

namespace {

constexpr uint64_t least = 128 << 10, most = 8 << 20;

// A device that takes `fixed` seconds for a copy, and copies so many bytes a second.
struct Bus {
  double fixed, speed;
  double seconds(uint64_t bytes) const { return fixed + static_cast<double>(bytes) / speed; }
};

} // namespace

TEST_CASE("uploads keep to a budget of time, and soon use it") {
  for (const double budget : {100e-6, 500e-6, 4e-3}) {
    for (const Bus& bus : {Bus{5e-6, 12e9}, Bus{20e-6, 3e9}}) {
      CAPTURE(budget);
      CAPTURE(bus.speed);
      UploadPace pace({budget}, least, most);
      CHECK(pace.bytes() == least);
      for (int i = 0; i < 12; ++i) {
        const double seconds = bus.seconds(pace.bytes());
        CHECK(seconds <= budget);
        pace.took(pace.bytes(), seconds);
      }
      const double used = bus.seconds(pace.bytes());
      CHECK((used > 0.7 * budget || pace.bytes() == most));
    }
  }
}

TEST_CASE("after an upload that took long the next ones are smaller, and grow again") {
  UploadPace pace({1e-3}, least, most);
  for (int i = 0; i < 8; ++i) pace.took(pace.bytes(), 1e-9);
  CHECK(pace.bytes() == most);
  pace.took(most, 16e-3);
  CHECK(pace.bytes() < most / 16);
  for (int i = 0; i < 8; ++i) pace.took(pace.bytes(), 0); // too short for the device's clock
  CHECK(pace.bytes() == most);
  pace.took(most, 60);
  CHECK(pace.bytes() == least);
  pace.took(0, 1);
  CHECK(pace.bytes() == least);
}

TEST_CASE("a budget of bytes alone is used from the first upload on, and bounds one of time") {
  UploadPace bytes({0, 1 << 20}, least, most);
  CHECK(bytes.bytes() == 1 << 20);
  bytes.took(1 << 20, 60);
  CHECK(bytes.bytes() == 1 << 20);
  CHECK(UploadPace({}, least, most).bytes() == most);
  CHECK(UploadPace({0, uint64_t{1} << 40}, least, most).bytes() == most);
  CHECK(UploadPace({1e-3, 1000}, least, most).bytes() == 1000);
  UploadPace both({std::numeric_limits<double>::infinity(), 300 << 10}, least, most);
  CHECK(both.bytes() == least);
  for (int i = 0; i < 4; ++i) both.took(both.bytes(), 1);
  CHECK(both.bytes() == 300 << 10);
}
