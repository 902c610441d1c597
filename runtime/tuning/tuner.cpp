#include "tuning/tuner.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "recording/recording.h"
#include "tuning/variant_bench.h"

namespace pumice {

namespace {

constexpr double margin =
    0.95; // a variant wins if it takes less than this share of the time of the best one before it
constexpr double most_repeats = 64;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

size_t first_of(const Plan& plan, uint32_t choice) {
  const auto at = std::ranges::find_if(
      plan.dispatches, [&](const PlannedDispatch& planned) { return planned.choice == choice; });
  return static_cast<size_t>(at - plan.dispatches.begin());
}

// The memory that variants work in. It can restore the contents, so that every variant starts from the same
// data.
class VariantWorkspace {
public:
  static Result<VariantWorkspace> create(const DeviceContext& context, const BufferLookup& others,
                                         uint64_t scratch_bytes) {
    VariantWorkspace workspace(context, others);
    PUMICE_TRY(workspace.scratch_,
               Buffer::create(context.device, scratch_bytes, MemoryUse::device, "tuning scratch"));
    return workspace;
  }

  BufferLookup lookup() const {
    return [this](const BufferRef& ref) -> const Buffer& {
      return ref.space == Space::scratch ? scratch_ : others_(ref);
    };
  }

  Status run(const Plan& plan) const {
    if (plan.dispatches.empty()) return {};
    PUMICE_TRY(Recording recording, Recording::create(context_, plan, lookup()));
    PUMICE_TRY(const TimelinePoint done, recording.submit());
    return context_.device->wait(done);
  }

  // Saves the contents of the ranges that the launches write and that later launches or the host read.
  Status remember(const Plan& launches, uint64_t tensor_bytes) {
    std::vector<Range> written;
    for (const PlannedDispatch& planned : launches.dispatches) {
      for (const Dispatch::Binding& binding : planned.dispatch.bindings) {
        const BufferRef& ref = binding.buffer;
        const bool tensor = ref.space == Space::scratch && ref.offset < tensor_bytes;
        if (binding.access == Access::read || !(tensor || ref.space == Space::outputs)) continue;
        written.push_back({ref, binding.access == Access::write});
      }
    }
    // Each byte once.
    std::ranges::sort(written, {}, [](const Range& range) {
      return std::tuple(range.ref.space, range.ref.allocation, range.ref.offset);
    });
    ranges_.clear();
    for (const Range& range : written) {
      BufferRef* last = ranges_.empty() ? nullptr : &ranges_.back().ref;
      if (last && last->space == range.ref.space && last->allocation == range.ref.allocation &&
          range.ref.offset <= last->offset + last->bytes) {
        last->bytes = std::max(last->bytes, range.ref.offset + range.ref.bytes - last->offset);
        ranges_.back().only_written = ranges_.back().only_written && range.only_written;
      } else {
        ranges_.push_back(range);
      }
    }
    uint64_t bytes = 0;
    for (const Range& range : ranges_) bytes += range.ref.bytes;
    PUMICE_TRY(saved_, Buffer::create(context_.device, bytes, MemoryUse::device, "tuning copy"));
    PUMICE_TRY(result_, Buffer::create(context_.device, bytes, MemoryUse::upload, "tuning result"));
    return copy(saved_, true);
  }
  Status restore() const { return copy(saved_, false); }
  // The same, and fills ranges that are only written with NaNs, because an earlier launch may have left the
  // right numbers there.
  Status prepare() const {
    PUMICE_CHECK(restore());
    return submit([&](Commands& commands) {
      for (const auto& [ref, only_written] : ranges_) {
        if (only_written) commands.fill(lookup()(ref), ref.offset, ref.bytes, 0xffffffff); // NaNs
      }
    });
  }
  Result<std::vector<float>> results() const {
    PUMICE_CHECK(copy(result_, true));
    std::vector<float> values(result_.size() / sizeof(float));
    std::memcpy(values.data(), result_.mapped().data(), values.size() * sizeof(float));
    return values;
  }

private:
  VariantWorkspace(const DeviceContext& context, BufferLookup others)
      : context_(context), others_(std::move(others)) {}

  struct Range {
    BufferRef ref;
    bool only_written = false;
  };

  template <class Record>
  Status submit(const Record& record) const {
    PUMICE_TRY(Commands commands, Commands::create(context_.device, "tuning"));
    PUMICE_CHECK(commands.begin());
    commands.barrier();
    record(commands);
    commands.barrier();
    PUMICE_CHECK(commands.end());
    PUMICE_TRY(const TimelinePoint done, context_.device->submit(commands.buffers()));
    return context_.device->wait(done);
  }

  Status copy(const Buffer& store, bool out) const {
    return submit([&](Commands& commands) {
      uint64_t at = 0;
      for (const auto& [ref, only_written] : ranges_) {
        const Buffer& buffer = lookup()(ref);
        if (out) commands.copy(buffer, ref.offset, store, at, ref.bytes);
        if (!out) commands.copy(store, at, buffer, ref.offset, ref.bytes);
        at += ref.bytes;
      }
    });
  }

  DeviceContext context_;
  BufferLookup others_;
  Buffer scratch_, saved_, result_;
  std::vector<Range> ranges_;
};

// Measures the variants of one choice. `plans` has a plan for each variant, by its name.
class VariantComparison {
public:
  VariantComparison(const DeviceContext& context, const TuneOptions& options, VariantWorkspace& workspace,
                    const std::map<std::string, Plan>& plans, uint32_t choice)
      : context_(context), options_(options), workspace_(workspace), plans_(plans), choice_(choice) {}

  Result<TunedClass> run(const VariantChoice& choice, const std::vector<std::string>& candidates) {
    tuned_.shape_class = choice.shape_class;
    const std::string& plain = choice.variants.back();
    PUMICE_CHECK(workspace_.remember(launches_of(plain), plans_.at(plain).tensor_bytes));
    PUMICE_CHECK(workspace_.prepare());
    PUMICE_CHECK(workspace_.run(launches_of(plain)));
    PUMICE_TRY(expected_, workspace_.results());
    for (const std::string& name : candidates) {
      VariantResult result;
      result.variant = name;
      if (Status status = check(name, result); !status.ok()) {
        if (status.error().code == Code::device_lost) return status.error();
        result.blocked = status.error().message;
      }
      tuned_.variants.push_back(std::move(result));
    }
    PUMICE_CHECK(time());
    PUMICE_CHECK(workspace_.restore());
    choose_winner(tuned_, plain);
    return std::move(tuned_);
  }

private:
  Plan launches_of(const std::string& variant) const {
    return launches_of_choice(plans_.at(variant), choice_);
  }

  // Runs a variant as the plain one was run and compares.
  Status check(const std::string& name, VariantResult& result) {
    const Plan own = launches_of(name);
    result.flops = own.flops();
    result.bytes = own.bytes();
    PUMICE_CHECK(workspace_.prepare());
    PUMICE_CHECK(workspace_.run(own));
    PUMICE_TRY(std::vector<float> values, workspace_.results());
    for (const PlannedDispatch& planned : own.dispatches) {
      result.blocked = difference(expected_, values, planned.dispatch.kernel);
      if (result.blocked.empty()) break; // the least exact kernel of the variant decides
    }
    return {};
  }

  Status time() {
    std::map<std::string, VariantBench> benches;
    std::map<std::string, std::vector<double>> samples;
    for (const VariantResult& each : tuned_.variants) {
      if (!each.blocked.empty()) continue;
      const Plan& plan = plans_.at(each.variant);
      PUMICE_TRY(VariantBench once, VariantBench::create(context_, plan, choice_, 1, workspace_.lookup()));
      PUMICE_CHECK(once.run()); // the first run may include compilation
      PUMICE_TRY(double seconds, once.run());
      const double repeats = std::clamp(options_.sample_seconds / std::max(seconds, 1e-7), 1.0, most_repeats);
      PUMICE_TRY(
          VariantBench bench,
          VariantBench::create(context_, plan, choice_, static_cast<uint32_t>(repeats), workspace_.lookup()));
      PUMICE_CHECK(bench.run()); // warm-up
      benches.emplace(each.variant, std::move(bench));
    }
    for (int sample = 0; sample < options_.samples && benches.size() > 1; ++sample) {
      for (auto& [name, bench] : benches) {
        if (context_.interrupted()) return Error{Code::cancelled, "measuring was cancelled"};
        PUMICE_TRY(double seconds, bench.run());
        samples[name].push_back(seconds);
      }
    }
    for (VariantResult& each : tuned_.variants) {
      if (!samples.contains(each.variant)) continue;
      each.seconds = median(samples[each.variant]);
      each.least_seconds = std::ranges::min(samples[each.variant]);
    }
    return {};
  }

  const DeviceContext& context_;
  const TuneOptions& options_;
  VariantWorkspace& workspace_;
  const std::map<std::string, Plan>& plans_;
  uint32_t choice_;
  std::vector<float> expected_;
  TunedClass tuned_;
};

} // namespace

void choose_winner(TunedClass& tuned, const std::string& plain) {
  const VariantResult* winner = nullptr;
  for (const VariantResult& each : tuned.variants) {
    if (!each.blocked.empty() || (winner && each.variant == plain)) continue;
    const bool faster = winner && each.seconds < margin * winner->seconds &&
                        each.least_seconds < margin * winner->least_seconds;
    if (!winner || faster) winner = &each;
  }
  tuned.winner = winner ? winner->variant : plain;
  for (VariantResult& each : tuned.variants) {
    if (!winner || !each.blocked.empty() || each.seconds >= winner->seconds) continue;
    if (each.variant == plain) {
      each.not_taken = "it adds in another order, so the text would change with what a busy machine measures";
    } else if (each.seconds >= margin * winner->seconds) {
      each.not_taken = fmt::format("it is less than {:.0f} % faster", (1 - margin) * 100);
    } else {
      each.not_taken = fmt::format("its fastest run took {:.1f} µs, and {:.1f} µs that of {}",
                                   each.least_seconds * 1e6, winner->least_seconds * 1e6, winner->variant);
    }
  }
}

Tuner::Tuner(const DeviceContext& context, TuneOptions options)
    : context_(context), options_(std::move(options)) {
  context_.profile.forced.clear();
  context_.profile.threads = 0; // products that attention makes itself are measured apart
  if (context_.profile.choices) tuning_.choices = *context_.profile.choices;
  if (context_.profile.blocklist) tuning_.blocklist = *context_.profile.blocklist;
}

DeviceProfile Tuner::profile() const {
  DeviceProfile profile = context_.profile;
  profile.choices = std::make_shared<const Choices>(tuning_.choices);
  profile.blocklist = std::make_shared<const Blocklist>(tuning_.blocklist);
  return profile;
}

std::vector<std::string> Tuner::candidates(const VariantChoice& choice) const {
  std::vector<std::string> names;
  if (options_.everything) return choice.variants;
  for (const std::string& name : choice.variants) {
    if (!tuning_.blocklist.contains(blocklist_key(choice.shape_class, name))) names.push_back(name);
  }
  if (names.size() > 1 && names.back() == choice.variants.back()) names.pop_back();
  return names;
}

std::vector<uint32_t> Tuner::unknown(const Plan& plan) const {
  std::vector<uint32_t> choices;
  std::set<std::string> seen = measured_;
  for (uint32_t i = 0; i < plan.choices.size(); ++i) {
    const VariantChoice& choice = plan.choices[i];
    if (!options_.everything && tuning_.choices.contains(choice.shape_class)) continue;
    if (candidates(choice).size() > 1 && seen.insert(choice.shape_class).second) choices.push_back(i);
  }
  return choices;
}

Status Tuner::measure(const PlanMaker& make, const BufferLookup& lookup) {
  PUMICE_TRY(Plan current, make(profile()));
  const std::vector<uint32_t> choices = unknown(current);
  if (choices.empty()) return {};
  // A forced variant is used wherever it can run, so one plan for each name of a variant is enough.
  std::map<std::string, Plan> plans;
  uint64_t scratch = current.scratch_bytes;
  for (uint32_t choice : choices) {
    for (const std::string& name : current.choices[choice].variants) {
      if (plans.contains(name)) continue;
      DeviceProfile forced = profile();
      forced.forced = name;
      Result<Plan> plan = make(forced);
      if (!plan.ok() || plan->choices.size() != current.choices.size())
        continue; // this variant cannot run the whole plan
      scratch = std::max(scratch, plan->scratch_bytes);
      plans.emplace(name, *std::move(plan));
    }
  }
  PUMICE_TRY(VariantWorkspace workspace, VariantWorkspace::create(context_, lookup, scratch));
  size_t at = 0;
  for (size_t i = 0; i < choices.size(); ++i) {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start_;
    if (spent.count() > options_.seconds) {
      tuning_.complete = false;
      return {};
    }
    if (options_.progress && !options_.progress(i, choices.size())) {
      return Error{Code::cancelled, "measuring was cancelled"};
    }
    const VariantChoice choice = current.choices[choices[i]];
    std::vector<std::string> names = candidates(choice);
    std::erase_if(names, [&](const std::string& name) { return !plans.contains(name); });
    if (names.size() < 2 || !plans.contains(choice.variants.back())) continue;
    const size_t here = first_of(current, choices[i]);
    Plan before;
    before.dispatches.assign(current.dispatches.begin() + static_cast<ptrdiff_t>(at),
                             current.dispatches.begin() + static_cast<ptrdiff_t>(here));
    PUMICE_CHECK(workspace.run(before));
    VariantComparison comparison(context_, options_, workspace, plans, choices[i]);
    PUMICE_TRY(TunedClass tuned, comparison.run(choice, names));
    measured_.insert(tuned.shape_class);
    tuning_.choices[tuned.shape_class] = tuned.winner;
    for (const VariantResult& each : tuned.variants) {
      const std::string key = blocklist_key(tuned.shape_class, each.variant);
      const auto known = tuning_.blocklist.find(key);
      if (!each.blocked.empty()) {
        tuning_.blocklist[key] = tuned.shape_class + ": " + each.blocked;
      } else if (known != tuning_.blocklist.end() && known->second.starts_with(tuned.shape_class + ": ")) {
        tuning_.blocklist.erase(known); // an earlier driver gave wrong results, this one does not
      }
    }
    tuning_.classes.push_back(std::move(tuned));
    PUMICE_TRY(current, make(profile())); // continues with the winner
    at = first_of(current, choices[i]);
  }
  return {};
}

} // namespace pumice
