#include "tuning/check_record.h"

#include <ctime>

#include <fmt/chrono.h>
#include <fmt/format.h>

namespace pumice {

namespace {

constexpr std::string_view check_prefix = "checked ";
constexpr size_t date_size = 10;

std::string driver_line(const Capabilities& device) {
  return fmt::format("{} {}\n", device.driver, device.driver_version);
}

} // namespace

// A value is the driver's line, the date's line and what is wrong.
CheckRecords stored_checks(const Pipelines& pipelines, const Capabilities& device) {
  CheckRecords records;
  const std::string driver = driver_line(device);
  for (const auto& [name, value] : pipelines.tuning_results()) {
    if (!is_check(name) || !value.starts_with(driver)) continue;
    const size_t end = driver.size() + date_size;
    if (value.size() <= end || value[end] != '\n') continue;
    records[name.substr(check_prefix.size())] = {value.substr(driver.size(), date_size),
                                                 value.substr(end + 1)};
  }
  return records;
}

void store_check(Pipelines& pipelines, const Capabilities& device, const std::string& key,
                 const std::string& wrong) {
  pipelines.set_tuning_result(
      std::string(check_prefix) + key,
      fmt::format("{}{:%F}\n{}", driver_line(device), fmt::gmtime(std::time(nullptr)), wrong));
}

void forget_checks(Pipelines& pipelines) {
  std::set<std::string> gone;
  for (const auto& [name, value] : pipelines.tuning_results()) {
    if (is_check(name)) gone.insert(name);
  }
  pipelines.change_tuning_results({}, gone);
}

bool is_check(const std::string& result_name) {
  return result_name.starts_with(check_prefix);
}

} // namespace pumice
