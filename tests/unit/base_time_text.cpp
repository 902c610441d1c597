#include "base/time_text.h"

#include <array>

#include <doctest/doctest.h>

using pumice::time_text;

namespace {

std::tm noon_of_sunday() {
  std::tm time = {};
  time.tm_year = 126, time.tm_mon = 6, time.tm_mday = 5, time.tm_hour = 9, time.tm_min = 7, time.tm_sec = 3;
  time.tm_wday = 0, time.tm_yday = 185;
  return time;
}

} // namespace

TEST_CASE("times of chat templates are written as on Linux, on each system") {
  const std::tm time = noon_of_sunday();
  CHECK(time_text(time, "%d %B %Y, %H:%M") == "05 July 2026, 09:07");
  CHECK(time_text(time, "%-d %b %y|%e|%k|%_m|%0e") == "5 Jul 26| 5| 9| 7|05");
  CHECK(time_text(time, "%^a %A %I %p %P %j") == "SUN Sunday 09 AM am 186");
  CHECK(time_text(time, "%F %T, 100%%, %Q %-Q %") == "2026-07-05 09:07:03, 100%, %Q %-Q %");
  CHECK(time_text(time, "") == "");
  CHECK(time_text(time, "\xc3\xa9 {} {:%d}") == "\xc3\xa9 {} {:05}");
}

#ifdef __GLIBC__
TEST_CASE("times of chat templates are what the C library of Linux writes") {
  std::tm time = noon_of_sunday();
  for (const int hour : {0, 9, 12, 23}) {
    time.tm_hour = hour;
    for (const char field : std::string_view("aAbBcCdDeFgGhHIjklmMnpPrRStTuUVwWxXyY%Q")) {
      for (const char* flag : {"", "-", "_", "0", "^"}) {
        const std::string format = std::string("%") + flag + field;
        INFO(format);
        std::array<char, 200> expected;
        expected[std::strftime(expected.data(), expected.size(), format.c_str(), &time)] = 0;
        CHECK(time_text(time, format) == expected.data());
      }
    }
  }
}
#endif
