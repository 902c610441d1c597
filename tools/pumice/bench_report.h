#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernel/probe.h"

namespace pumice::command {

// One test of `pumice bench`.
struct Measurement {
  std::string test; // "pp128", "tg32"
  uint32_t tokens = 0;
  double flops = 0; // of one run, as its plans estimate
  double bytes = 0;
  std::vector<double> samples; // tokens per second, in the order they were taken

  double mean() const;
  double deviation() const;
  double median() const;
  // What the median run reached of the device's own ceilings.
  double share_of_bandwidth(const Ceilings& ceilings) const;
  double share_of_arithmetic(const Ceilings& ceilings) const;
};

struct BenchReport {
  std::string device;
  std::string driver;
  std::string model;
  uint64_t bytes = 0; // of the model's file
  uint64_t parameters = 0;
  Ceilings ceilings;
  std::vector<Measurement> results;
};

void print_report(const BenchReport& report, const std::string& format); // "md", "csv" or "json"

} // namespace pumice::command
