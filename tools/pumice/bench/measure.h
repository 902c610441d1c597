#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/report.h"
#include "model/model.h"
#include "options/options.h"

namespace pumice::command {

struct BenchOptions {
  std::string model;
  std::vector<uint32_t> prompts = {128};
  std::vector<uint32_t> counts = {32};
  std::vector<uint32_t> depths = {0};
  std::vector<uint32_t> batches = {1};
  uint32_t shared_prefix = 0;                       // tokens that the texts of a batch begin with alike
  uint32_t newcomer = 0;                            // tokens of a text that joins each batch; 0: none does
  std::vector<std::pair<uint32_t, uint32_t>> pairs; // tokens to read, then to generate, in one run
  std::vector<uint32_t> chunks;                     // each in place of size.chunk; empty: that one
  std::vector<std::string> kvs;                     // each in place of size.kv
  std::string variant;                              // of the tests, as their names have it: " ub64"
  uint32_t repetitions = 5;
  uint32_t warm_up = 12; // maximum number of runs
  std::string format = "md";
  bool profile = false;
  bool operations = false;
  std::string only; // measure only operations whose name contains this; empty: all
  DeviceOptions device;
  SizeOptions size;
};

// Runs a test until its times are stable, then as often as the options say, and adds it to a report.
class Sampler {
public:
  // `keep` gets the report so far, from time to time and before an interruption is returned.
  using Keep = std::function<void(BenchReport so_far)>;
  Sampler(const BenchOptions& options, BenchReport& report, bool cpu_device, Keep keep)
      : options_(options), report_(report), cpu_device_(cpu_device), keep_(std::move(keep)) {}

  using Run = std::function<Result<BenchRun>()>;
  Status add(Measurement measurement, const Run& run);

private:
  Result<BenchRun> once(const Measurement& measurement, const Run& run);
  void keep(const Measurement* unfinished);

  const BenchOptions& options_;
  BenchReport& report_;
  bool cpu_device_;
  Keep keep_;
};

// Steps that are submitted together return their tokens together. So these tokens share the time equally.
void share_time(std::vector<double>& token_seconds, uint32_t steps_per_submit);

std::vector<uint32_t> random_tokens(uint32_t count, uint32_t vocabulary);

// Measure every combination of the options' sizes. Each is one result in the report.
Status measure_decoder(const BenchOptions& options, const std::shared_ptr<const Model>& model,
                       Sampler& sampler);
// Generating by a decoder with several sequences in each step, after `depth` tokens of each.
Status measure_batch(const BenchOptions& options, const std::shared_ptr<const Model>& model, uint32_t depth,
                     uint32_t sequences, Sampler& sampler);
Status measure_encoder(const BenchOptions& options, const std::shared_ptr<const Model>& model,
                       Sampler& sampler);
Status measure_encoder_decoder(const BenchOptions& options, const std::shared_ptr<const Model>& model,
                               Sampler& sampler);
// Prints the time of each kernel of an encoder's step, and of its decoder's.
Result<std::vector<StepProfile>> profile_encoder(const BenchOptions& options,
                                                 const std::shared_ptr<const Model>& model);
// Measures single operations: the cases of timed_cases.h. An error that tells their names if --only names
// none.
Status measure_operations(const BenchOptions& options, const DeviceContext& context, Sampler& sampler);

} // namespace pumice::command
