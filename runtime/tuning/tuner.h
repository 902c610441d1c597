#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/progress.h"
#include "kernel/cache_layout.h"
#include "kernel/device_context.h"
#include "kernel/launcher.h"
#include "plan/plan.h"
#include "tuning/device_work.h"
#include "tuning/trials.h"

namespace pumice {

struct VariantResult {
  std::string variant;
  double seconds = 0;       // median time of one launch, with weights as a step reads them
  double least_seconds = 0; // the least time
  double flops = 0;
  double bytes = 0;
  std::string blocked;   // why it must not be used; empty if it may
  bool may_pass = false; // it is blocked for now only: memory was short
  std::string not_taken; // why the winner is another one although this one took less time; empty otherwise
};

struct TunedClass {
  std::string shape_class;
  std::vector<VariantResult> variants; // in the order of the kernel family
  std::string winner;
};

// Sets the winner among the variants that may be used, and why a faster one is not taken. A variant wins over
// those before it if both its median and its least time are clearly lower: on a busy machine one of them
// alone may be noise. `plain`, the last variant, never wins over another: it adds in another order, so noise
// would change the bits from one tuning to the next.
void choose_winner(TunedClass& tuned, const std::string& plain);

struct Tuning {
  std::vector<TunedClass> classes; // measured by this tuner
  Choices choices;                 // all known ones
  Blocklist blocklist;
  std::optional<DeviceSpeed> speed; // by what was measured; nothing if that says nothing of it
  bool complete = true;             // false: the time limit or an interruption ended it early

  // Adds a class that was measured.
  void take(TunedClass tuned);
};

// What to measure, and how carefully.
struct TuneOptions {
  // Also measure shapes whose results are known, and the plain variant, which is seldom the fastest.
  bool everything = false;
  double seconds = 1;  // time limit: after it, no further class is begun
  bool strict = false; // after it, the class that is being measured is dropped as well
  int samples = 5;     // timings of each variant, which take turns
  double sample_seconds = 0.002;
  // Asked again and again, with the classes that have been measured and those that are known to be needed.
  Progress progress;
  // When measuring is cancelled, return what has been measured instead of the error.
  bool keep_cancelled = false;
  // The sessions to measure for: zeros stand for at most 1,024 positions, and chunks of 128 tokens. Longer
  // contexts than 4,096 are measured as that.
  uint32_t context = 0;
  uint32_t chunk = 0;
  CacheType cache = CacheType::f16;
  std::shared_ptr<DeviceWork> work; // null: submitted at once
  std::set<std::string> known;      // classes that are not measured, even with `everything`
  TrialListener trying;
  // Called with each class once it is measured.
  std::function<void(const TunedClass&)> measured;
  // Called before the first trial of a variant with cooperative matrices, the youngest part of drivers, with
  // what was measured so far.
  std::function<void(const Tuning&)> before_matrices;

  // As the command 'pumice tune'.
  void make_thorough() {
    everything = true;
    samples = 15;
    sample_seconds = 0.01;
  }
};

// Measures the kernel variants that plans can choose from, with the data and weights of a real step. It runs
// a plan up to the first launch of a class of shapes that is not known yet, and there lets every variant do
// the same work. The results of each variant are compared with those of the plain kernel, within a tolerance
// for its number types. Then choose_winner() decides.
class Tuner {
public:
  using PlanMaker = std::function<Result<Plan>(const DeviceProfile&)>;

  // Tuning results in the context's profile count as measured. Variants that are dangerous are never tried.
  Tuner(const DeviceContext& context, TuneOptions options);

  // Counts the classes that measure() will find unknown in such a plan, for the progress.
  Status expect(const PlanMaker& make);
  // Measures the variants that plans from `make` can choose from. `lookup` finds their buffers, except
  // scratch, which the tuner allocates itself. The inputs of a step must be in the buffers already.
  Status measure(const PlanMaker& make, const BufferLookup& lookup);

  // Whether measure() would find nothing to measure in the plan.
  bool knows(const Plan& plan) const { return unknown(plan).empty(); }

  const Tuning& result() const { return tuning_; }
  // The context's profile with all results so far.
  DeviceProfile profile() const;

private:
  std::vector<std::string> candidates(const VariantChoice& choice) const;
  std::vector<uint32_t> unknown(const Plan& plan) const;
  std::map<std::string, Plan> forced_plans(const PlanMaker& make, const Plan& current,
                                           const std::vector<uint32_t>& choices) const;
  bool late() const;
  Status go_on() const;
  void take(TunedClass tuned);
  void announce(const std::vector<std::string>& names);

  DeviceContext context_;
  TuneOptions options_;
  Tuning tuning_;
  Trials trials_;
  bool matrices_ = false;          // TuneOptions::before_matrices was called
  std::set<std::string> measured_; // classes, by this tuner
  std::set<std::string> expected_; // classes
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

} // namespace pumice
