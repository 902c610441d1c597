#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernel/probe/probe.h"
#include "tools/pumice/bench/environment.h"

// What `pumice bench` found out, before it is written one way or another.
namespace pumice::command {

// One run of a test.
struct BenchRun {
  double seconds = 0;
  std::optional<double> first_token;       // seconds until a text's first token was there
  std::vector<double> token_seconds;       // from each token to the next
  std::optional<double> host_step_seconds; // the host's own time for a decode step
  double after_first = 0;                  // seconds of the run after its first result
  Clocks clocks;                           // right after it
};

// One test.
struct Measurement {
  std::string test; // "pp128", "tg32 @ d1024", "enc128 b8", "enc128+tg16", or an operation
  std::string kind; // "prompt", "decode", "encode", "translate" or "operation"
  uint32_t depth = 0;
  double tokens = 0; // that a run reads or writes; of an operation none
  double flops = 0;  // of one run, as its plans estimate
  double bytes = 0;
  std::string type;            // of an operation: its weight's or its cache's
  std::string shape;           // of an operation
  std::vector<double> warm_up; // seconds of the runs before those that count
  bool stable = false;         // whether the warm-up came to rest
  std::vector<BenchRun> runs;

  std::vector<double> seconds() const;
  std::vector<double> first_tokens() const;
  std::vector<double> token_seconds() const;     // of all runs
  std::vector<double> host_step_seconds() const; // of each run
  std::vector<double> tokens_per_second() const; // of each run
  double median_seconds() const;
  // What the median run reached of the device's own ceilings, and of the one that binds it.
  double share_of_bandwidth(const Ceilings& ceilings) const;
  double share_of_arithmetic(const Ceilings& ceilings) const;
  double share_of_roof(const Ceilings& ceilings) const;
};

// From the process's start to the first result of its first test, in seconds.
struct ColdStart {
  std::string test;
  double device = 0;  // the Vulkan instance and device are there
  double loaded = 0;  // the weights are on the device
  double started = 0; // the session is there
  double first = 0;   // the first token, or the encoder's first result
};

struct MeasuredModel {
  std::string path;
  std::string name; // its last part
  std::string hash;
  uint64_t bytes = 0;
  uint64_t parameters = 0;
  std::string weights; // what they were quantised to while loading, if they were
  std::string kv;      // the cache's type
};

struct BenchReport {
  Environment environment;
  Ceilings ceilings;
  std::optional<MeasuredModel> model; // none where operations were measured
  std::optional<ColdStart> cold_start;
  std::vector<Measurement> results;
};

// "md", "csv", "json" or "html", to standard output.
void print_report(const BenchReport& report, const std::string& format);

std::string report_markdown(const BenchReport& report);
std::string report_csv(const BenchReport& report);
std::string report_json(const BenchReport& report);
std::string report_html(const BenchReport& report);

} // namespace pumice::command
