#pragma once

#include <chrono>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/progress.h"
#include "kernel/device_context.h"
#include "kernel/launcher.h"
#include "plan/plan.h"

namespace pumice {

// What is measured, and how carefully.
struct TuneOptions {
  // Also what is known already, and the plain variant where others run too, which is seldom the fastest.
  bool everything = false;
  double seconds = 1; // after so long, nothing more is begun
  int samples = 5;    // of each variant, in turns
  double sample_seconds = 0.002;
  Progress progress; // over the classes of a plan
};

struct VariantResult {
  std::string variant;
  double seconds = 0;       // of one launch with the weights that a step would read: the median
  double least_seconds = 0; // and the least
  double flops = 0;
  double bytes = 0;
  std::string blocked; // why it must not be used; empty if it may
};

struct TunedClass {
  std::string shape_class;
  std::vector<VariantResult> variants; // in the family's order
  std::string winner;
};

struct Tuning {
  std::vector<TunedClass> classes; // measured now
  Choices choices;                 // all that is known
  Blocklist blocklist;
  bool complete = true; // there was time for everything
};

// Measures the kernel variants that plans can choose from, with the data and weights of a real step: a plan
// is run launch by launch, and where it comes to a class of shapes that is not known yet, every variant does
// the same work in its place. Each is held against the plain kernel, whose result on the same data it must
// repeat within what its number types allow. A variant displaces those before it in its family's order if it
// is clearly faster, by its median and by its quickest run.
class Tuner {
public:
  using PlanMaker = std::function<Result<Plan>(const DeviceProfile&)>;

  // What the context's profile knows already counts as measured.
  Tuner(const DeviceContext& context, TuneOptions options);

  // Measures what the plans from `make` choose from. `lookup` finds their buffers but for scratch, which the
  // tuner has its own of. What a step reads of them has to be in place.
  Status measure(const PlanMaker& make, const BufferLookup& lookup);

  const Tuning& result() const { return tuning_; }
  // The context's profile with what is known now.
  DeviceProfile profile() const;

private:
  std::vector<std::string> candidates(const VariantChoice& choice) const;
  std::vector<uint32_t> unknown(const Plan& plan) const;

  DeviceContext context_;
  TuneOptions options_;
  Tuning tuning_;
  std::set<std::string> measured_; // classes, by this tuner
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

} // namespace pumice
