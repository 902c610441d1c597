#include "tuning/variant_bench.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include <fmt/format.h>

#include "gpu/kernel_table.h"

namespace pumice {

namespace {

bool replaceable(const BufferRef& ref) {
  return ref.space == Space::weights || ref.space == Space::cache;
}

// Whether two launches differ in their weights and caches only.
bool same_but_weights(const Dispatch& a, const Dispatch& b) {
  return a.kernel == b.kernel && a.constants == b.constants && a.params == b.params && a.groups == b.groups &&
         a.bindings.size() == b.bindings.size() && a.addresses.size() == b.addresses.size();
}

Dispatch with_weights_of(Dispatch dispatch, const Dispatch& other) {
  for (size_t i = 0; i < dispatch.bindings.size(); ++i) {
    if (replaceable(dispatch.bindings[i].buffer)) dispatch.bindings[i].buffer = other.bindings[i].buffer;
  }
  for (size_t i = 0; i < dispatch.addresses.size(); ++i) {
    if (replaceable(dispatch.addresses[i].buffer)) dispatch.addresses[i].buffer = other.addresses[i].buffer;
  }
  return dispatch;
}

constexpr size_t most_ways = 64;

// The launches of the choice, then the same launches with the weights of other choices of the same shapes.
std::vector<Plan> repeats_of(const Plan& plan, uint32_t choice) {
  const Plan own = launches_of_choice(plan, choice);
  std::vector<Plan> result = {own};
  for (uint32_t other = 0; other < plan.choices.size(); ++other) {
    if (other == choice || plan.choices[other].shape_class != plan.choices[choice].shape_class) continue;
    Plan other_launches = launches_of_choice(plan, other);
    bool all = other_launches.dispatches.size() == own.dispatches.size();
    for (size_t i = 0; i < own.dispatches.size() && all; ++i) {
      all = same_but_weights(own.dispatches[i].dispatch, other_launches.dispatches[i].dispatch);
      other_launches.dispatches[i].dispatch =
          with_weights_of(own.dispatches[i].dispatch, other_launches.dispatches[i].dispatch);
    }
    if (all) result.push_back(std::move(other_launches));
    if (result.size() == most_ways) break;
  }
  return result;
}

} // namespace

Plan launches_of_choice(const Plan& plan, uint32_t choice) {
  Plan launches;
  for (const PlannedDispatch& planned : plan.dispatches) {
    if (planned.choice == choice) launches.dispatches.push_back(planned);
  }
  return launches;
}

Result<VariantBench> VariantBench::create(const DeviceContext& context, const Plan& plan, uint32_t choice,
                                          const BufferLookup& lookup) {
  const std::vector<Plan> all = repeats_of(plan, choice);
  Plan joined;
  for (const Plan& repeat : all) {
    joined.dispatches.insert(joined.dispatches.end(), repeat.dispatches.begin(), repeat.dispatches.end());
  }
  PUMICE_TRY(PreparedPlan launches, PreparedPlan::create(context, joined, lookup));
  VariantBench bench(std::move(launches));
  bench.ways_ = all.size();
  for (const PlannedDispatch& planned : all.front().dispatches) {
    bench.predicted_.push_back(context.profile.speed.seconds(planned.dispatch));
  }
  if (context.device->capabilities().timestamps) {
    const auto points = static_cast<uint32_t>(2 * std::max<size_t>(1, bench.predicted_.size()));
    PUMICE_TRY(bench.timestamps_, Timestamps::create(context.device, points));
  }
  return bench;
}

// Each launch has its own times: work of others may lie between them.
Result<double> VariantBench::run_apart(DeviceWork& work) {
  std::vector<WorkPiece> pieces;
  const auto count = static_cast<uint32_t>(predicted_.size());
  for (uint32_t i = 0; i < count; ++i) {
    const auto record = [this, i, count](Commands& commands) -> Status {
      if (timestamps_ && i == 0) timestamps_->reset(commands);
      if (timestamps_) timestamps_->write(commands, 2 * i);
      launches_.record(commands, i);
      commands.barrier();
      if (timestamps_) timestamps_->write(commands, 2 * i + 1);
      if (timestamps_ && i + 1 == count) timestamps_->finish(commands);
      return {};
    };
    pieces.push_back({predicted_[i], record});
  }
  PUMICE_TRY(const double seconds, work.run(pieces));
  double measured = 0;
  if (timestamps_) {
    const std::vector<double> points = timestamps_->read();
    for (uint32_t i = 0; i < count; ++i) measured += points[2 * i + 1] - points[2 * i];
  }
  return measured > 0 ? measured : seconds;
}

Result<double> VariantBench::run(DeviceWork& work, uint32_t repeats, double expected) {
  const double predicted = std::accumulate(predicted_.begin(), predicted_.end(), 0.0);
  if (repeats == 1 && (expected > 0 ? expected : predicted) > work.longest_piece()) return run_apart(work);
  const auto record = [&](Commands& commands) -> Status {
    if (timestamps_) {
      timestamps_->reset(commands);
      timestamps_->write(commands, 0);
    }
    const size_t length = launches_.size() / ways_;
    for (uint32_t repeat = 0; repeat < repeats; ++repeat) {
      for (size_t i = 0; i < length; ++i) launches_.record(commands, repeat % ways_ * length + i);
      commands.barrier();
    }
    if (timestamps_) {
      timestamps_->write(commands, 1);
      timestamps_->finish(commands, 2);
    }
    return {};
  };
  const WorkPiece piece{repeats * (expected > 0 ? expected : predicted), record};
  PUMICE_TRY(double seconds, work.run(std::span(&piece, 1)));
  if (timestamps_) {
    const std::vector<double> points = timestamps_->read(2);
    if (points[1] > 0) seconds = points[1];
  }
  return seconds / repeats;
}

bool rounds(const std::string& kernel) {
  const KernelBinary* binary = find_kernel(kernel);
  const std::string_view tier = binary ? binary->tier : "";
  return tier == "dot" || tier == "cm" || tier == "cm2";
}

double tolerance(const std::string& kernel) {
  return rounds(kernel) ? 0.03 : 0.001;
}

std::string difference(std::span<const float> expected, std::span<const float> values, double allowed,
                       std::string_view whose) {
  double squares = 0, error_squares = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::memcmp(&expected[i], &values[i], sizeof(float)) == 0)
      continue; // also NaNs that neither kernel overwrote
    if (!std::isfinite(expected[i])) continue;
    if (!std::isfinite(values[i])) return "its results are not finite";
    const double error = double{values[i]} - expected[i];
    error_squares += error * error;
  }
  size_t finite = 0;
  for (float value : expected) {
    if (!std::isfinite(value)) continue;
    squares += double{value} * value;
    ++finite;
  }
  const double off = std::sqrt(error_squares / std::max(squares, 1e-30));
  if (off > allowed)
    return fmt::format("its results are off by {:.2g} of {}, and {:.2g} is allowed", off, whose, allowed);
  // A mean hardly shows single wrong numbers.
  const double typical = std::sqrt(squares / std::max<size_t>(finite, 1));
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!std::isfinite(expected[i])) continue;
    const double error = std::abs(double{values[i]} - expected[i]);
    if (error <= 10 * allowed * (typical + std::abs(expected[i]))) continue;
    return fmt::format("one of its results is {:.4g}, and should be {:.4g}", values[i], expected[i]);
  }
  return "";
}

} // namespace pumice
