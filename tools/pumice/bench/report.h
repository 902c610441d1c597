#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/environment.h"
#include "bench/machine.h"
#include "kernel/probe/probe.h"

// The results of `pumice bench`, and the formats that they are printed in.
namespace pumice::command {

// One run of a test.
struct BenchRun {
  double seconds = 0;
  std::optional<double> first_token;       // seconds until the first token of a text
  std::vector<double> token_seconds;       // seconds from each token to the next
  std::optional<double> host_step_seconds; // CPU time of Pumice for a decode step
  double after_first = 0;                  // seconds of the run after its first result
  Clocks clocks;                           // right after the run
};

// The measurement of one test.
struct Measurement {
  std::string test; // "pp128", "tg32 @ d1024", "tg32 b4", "pp512 beside b8", "enc128 b8", "enc128+tg16", or
                    // an operation
  std::string kind; // "prompt", "decode", "text", "join", "encode", "translate" or "operation"
  uint32_t depth = 0;
  uint32_t shared_prefix = 0; // before it, tokens that all sequences have in common
  uint32_t sequences = 1;     // that are continued together
  double tokens = 0;          // that a run reads or generates; 0 for operations
  double flops = 0;           // of one run, as its plans estimate
  double bytes = 0;
  std::string type;                 // for operations: the type of the weight or of the cache
  std::string shape;                // for operations
  std::vector<std::string> kernels; // for operations: each that is launched, as a profile names them
  std::vector<double> warm_up;      // seconds of the warm-up runs
  bool settled = false;             // whether the times of the warm-up became stable
  MachineUse machine;               // during the runs
  std::vector<BenchRun> runs;

  // Why the figures are not stable, in words; empty if they are.
  std::string why_unstable() const;
  std::vector<double> seconds() const;
  std::vector<double> first_tokens() const;
  std::vector<double> token_seconds() const;     // of all runs
  std::vector<double> host_step_seconds() const; // of each run
  std::vector<double> tokens_per_second() const; // of each run
  double median_seconds() const;
  // The speed of the median run as a share of the device's ceilings. share_of_roof() uses the ceiling that
  // limits the test.
  double share_of_bandwidth(const Ceilings& ceilings) const;
  double share_of_arithmetic(const Ceilings& ceilings) const;
  double share_of_roof(const Ceilings& ceilings) const;
};

// Times of the first test, in seconds since the start of the process.
struct ColdStart {
  std::string test;
  double device = 0;    // when the Vulkan device was open
  double loaded = 0;    // when the weights were on the device
  double started = 0;   // when the session was ready
  double compiling = 0; // seconds of that in which kernels were compiled
  double first = 0;     // when the first token, or the encoder's first result, was there
};

struct MeasuredModel {
  std::string path;
  std::string name; // the file name in `path`
  std::string hash;
  uint64_t bytes = 0;
  uint64_t parameters = 0;
  std::string weights; // the type of --weights; empty: as in the file
  std::string kv;      // the type of the key-value cache
};

// What each kernel of a step takes, run one by one.
struct KernelTime {
  std::string kernel;
  uint32_t dispatches = 0;
  double seconds = 0, flops = 0, bytes = 0; // of all of them
};
struct StepProfile {
  std::string step; // "64 tokens from position 32"
  uint32_t dispatches = 0;
  double seconds = 0;
  std::vector<KernelTime> kernels; // the slowest first
};

struct BenchReport {
  Environment environment;
  MachineWatch machine;
  Ceilings ceilings;
  std::optional<MeasuredModel> model; // none if operations were measured
  std::optional<ColdStart> cold_start;
  std::vector<Measurement> results;
  std::vector<StepProfile> profiles;
  Blocklist blocked;        // what the device does not use, because it was found to be wrong or dangerous
  std::string blocked_file; // that says so
  bool partial = false;     // Ctrl-C came before everything was measured
};

// What else the machine did, and its clock, in one line: "the machine was busy: other programs used 42 % of
// the processors, load 2.7, processors at 2100 to 2900 MHz".
std::string machine_line(const BenchReport& report);
// "11.80 GB/s copying (reached on 2026-11-22), 61.20 GFLOP/s (reached on 2026-11-23)".
std::string ceilings_text(const Ceilings& ceilings);

// A line about each variant that is not used, and one about the file that says so; empty if there is none.
std::string blocked_lines(const BenchReport& report);

// A Markdown table. The first row is the head. The first `left` columns are aligned left, the others right.
// Columns that are empty below the head are left out. Where it is wider than the terminal, several tables
// that each begin with the last left column.
std::string markdown_table(std::vector<std::vector<std::string>> rows, size_t left);

// In ISO 8601, UTC; empty for 0.
std::string date_text(int64_t seconds_since_1970);

// `format` is "md", "csv", "json", "jsonl" or "html".
std::string report_text(const BenchReport& report, const std::string& format);
// Prints it to standard output.
void print_report(const BenchReport& report, const std::string& format);

std::string report_markdown(const BenchReport& report);
std::string report_csv(const BenchReport& report);
std::string report_json(const BenchReport& report);
std::string report_json_lines(const BenchReport& report); // an object for each test
std::string report_html(const BenchReport& report);

} // namespace pumice::command
