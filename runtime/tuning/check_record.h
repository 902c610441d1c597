#pragma once

#include <map>
#include <string>

#include "gpu/pipelines.h"

namespace pumice {

// What the short check (tuning/short_check.h) said of a kernel, kept among the tuning results in the device's
// file.
struct CheckRecord {
  std::string date;  // "2026-11-23"
  std::string wrong; // a sentence without its full stop; empty: it is right
};
using CheckRecords = std::map<std::string, CheckRecord>; // by SmallCase::key()

// Those that were made with this version of the driver. Damaged ones are left out.
CheckRecords stored_checks(const Pipelines& pipelines, const Capabilities& device);
void store_check(Pipelines& pipelines, const Capabilities& device, const std::string& key,
                 const std::string& wrong);
// Lets everything be checked again.
void forget_checks(Pipelines& pipelines);
// Whether a tuning result is such a record. Those of another machine say nothing of this one.
bool is_check(const std::string& result_name);

} // namespace pumice
