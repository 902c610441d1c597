#include "task/split/split_outlook.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "generate/encoder_decoder.h"
#include "step/batch_groups.h"
#include "task/writing.h"

namespace pumice {

namespace {

class Planning {
public:
  Planning(std::span<const std::unique_ptr<SplitDevice>> devices, const SplitWish& wish)
      : devices_(devices), wish_(wish), shape_(wish.shape) {
    counts_ = {shape_.encoder_layers(), static_cast<uint32_t>(shape_.layers.size()), shape_.last_cut};
  }

  Status measure(const Progress& progress) {
    for (const auto& device : devices_) PUMICE_CHECK(device->begin_measuring(count()));
    // Its own device last: the others measure meanwhile.
    costs_.resize(count());
    for (size_t n = count(); n-- > 0;) {
      if (progress && !progress(count() - 1 - n, count()))
        return Error{Code::cancelled, "measuring stages was cancelled"};
      PUMICE_TRY(costs_[n], devices_[n]->costs());
    }
    return {};
  }

  Result<SplitOutlooks> outlooks() const {
    SplitOutlooks all;
    all.sequences = wish_.sequences;
    all.prompt = shape_.encoder ? costs_[0].prefill_tokens : wish_.use(1).prompt;
    all.encoder = shape_.encoder.has_value();
    PUMICE_TRY(SplitPlan best, cuts());
    PUMICE_CHECK(stages_of(wish_.model, shape_, best.layers));
    PUMICE_TRY(SplitOutlook together, outlook("all of them", std::move(best), 0));
    all.ways.push_back(std::move(together));
    for (size_t i = 0; i < devices_.size(); ++i) {
      SplitPlan plan = expected_of(std::span(costs_).subspan(i, 1), std::array{counts_.all()}, counts_, {});
      PUMICE_TRY(SplitOutlook alone, outlook(devices_[i]->name() + " alone", std::move(plan), i));
      all.ways.push_back(std::move(alone));
    }
    find_fastest(all);
    return all;
  }

private:
  uint32_t count() const { return static_cast<uint32_t>(devices_.size()); }

  Result<SplitPlan> cuts() const {
    constexpr double local_latency = 50e-6; // of a hop between two devices of a process, beside the copy
    HopCosts costs = {local_latency};
    if (wish_.link)
      costs = hop_costs(wish_.link->latency, wish_.link->bytes_per_second, costs_[0], wish_.use(count()));
    if (wish_.layers.empty()) return plan_split(costs_, counts_, costs, wish_.goal);
    if (wish_.layers.size() != devices_.size()) {
      return Error{Code::invalid_argument,
                   fmt::format("--split has the layers of {} devices, and there are {}: give as many numbers",
                               wish_.layers.size(), devices_.size())};
    }
    PUMICE_CHECK(stages_of(wish_.model, shape_, wish_.layers));
    return expected_of(costs_, wish_.layers, counts_, costs);
  }

  // With the memory that its stages take, the first of them on the device `first`.
  Result<SplitOutlook> outlook(std::string name, SplitPlan plan, size_t first) const {
    const auto stages = static_cast<uint32_t>(plan.layers.size());
    const StageUse use = wish_.use(stages);
    SplitOutlook result{std::move(name), std::move(plan)};
    result.round = result.plan.round_seconds(use.groups);
    result.prompt = shape_.encoder
                        ? result.plan.slowest.prefill
                        : result.plan.prompt_seconds(double{1} * use.prompt / costs_[0].prefill_tokens);
    uint32_t begin = 0;
    for (size_t i = 0; i < result.plan.layers.size(); ++i) {
      const uint32_t end = begin + result.plan.layers[i];
      PUMICE_TRY(result.plan.stages[i].bytes, devices_[first + i]->bytes(stages, {begin, end}));
      result.fits = result.fits && result.plan.stages[i].bytes <= costs_[first + i].available;
      begin = end;
    }
    return result;
  }

  void find_fastest(SplitOutlooks& all) const {
    const auto seconds = [&](const SplitOutlook& outlook) {
      return wish_.goal == SplitGoal::prefill ? outlook.prompt
             : all.sequences > 1              ? outlook.round
                                              : outlook.plan.sequence.decode;
    };
    for (size_t i = 1; i < all.ways.size(); ++i) {
      const SplitOutlook& fastest = all.ways[all.fastest];
      if (all.ways[i].fits && (!fastest.fits || seconds(all.ways[i]) < seconds(fastest))) all.fastest = i;
    }
  }

  const std::span<const std::unique_ptr<SplitDevice>> devices_;
  const SplitWish& wish_;
  const ModelShape& shape_;
  LayerCounts counts_;
  std::vector<DeviceCosts> costs_; // of each device
};

} // namespace

Result<std::vector<SessionRunners>> sessions_of(const Model& model, const StageUse& use) {
  const SessionSize& size = use.size;
  if (model.shape().encoder) {
    EncoderDecoderOptions options;
    options.inputs = size.sequences;
    const EncoderShape& encoder = *model.shape().encoder;
    const uint32_t most = WritingOptions().batch_tokens;
    const uint32_t longest = encoder.any_length ? std::max(encoder.context, most) : encoder.context;
    options.input_tokens = static_cast<uint32_t>(
        std::max<uint64_t>(longest, std::min<uint64_t>(most, uint64_t{size.sequences} * longest)));
    options.output_tokens = size.context;
    options.cache = size.cache;
    PUMICE_TRY(SessionRunners runners, EncoderDecoder::runner_options(model, options));
    return std::vector<SessionRunners>{std::move(runners)};
  }
  std::vector<SessionRunners> sessions;
  for (uint32_t group = 0; group < use.groups; ++group) {
    SessionSize group_size = size;
    group_size.sequences = group_sequences(size.sequences, use.groups, group);
    PUMICE_TRY(SessionRunners runners, usual_runners(model, group_size));
    sessions.push_back(std::move(runners));
  }
  return sessions;
}

Result<SplitOutlooks> split_outlooks(std::span<const std::unique_ptr<SplitDevice>> devices,
                                     const SplitWish& wish, const Progress& progress) {
  Planning planning(devices, wish);
  PUMICE_CHECK(planning.measure(progress));
  return planning.outlooks();
}

} // namespace pumice
