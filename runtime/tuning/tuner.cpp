#include "tuning/tuner.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "recording/compile_kernels.h"
#include "recording/prepared_plan.h"
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

bool has_matrices(const std::string& variant) {
  return variant.starts_with("cm");
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
  static Result<VariantWorkspace> create(const DeviceContext& context, DeviceWork& work,
                                         const BufferLookup& others, uint64_t scratch_bytes) {
    VariantWorkspace workspace(context, work, others);
    PUMICE_TRY(workspace.scratch_,
               Buffer::create(context.device, scratch_bytes, MemoryUse::device, "tuning scratch"));
    return workspace;
  }

  BufferLookup lookup() const {
    return [this](const BufferRef& ref) -> const Buffer& {
      return ref.space == Space::scratch ? scratch_ : others_(ref);
    };
  }

  // Runs launches, after `before` and with `after` them. Their kernels are compiled first, which the device
  // need not wait for.
  Status run(const Plan& plan, std::vector<WorkPiece> pieces = {},
             const std::vector<WorkPiece>& after = {}) const {
    const Plan* const plans[] = {&plan};
    PUMICE_CHECK(compile_kernels(context_, plans, lookup()));
    PUMICE_TRY(const PreparedPlan launches, PreparedPlan::create(context_, plan, lookup()));
    for (size_t i = 0; i < launches.size(); ++i) {
      pieces.push_back(
          {context_.profile.speed.seconds(plan.dispatches[i].dispatch), [&launches, i](Commands& commands) {
             launches.record(commands, i);
             return Status();
           }});
    }
    pieces.insert(pieces.end(), after.begin(), after.end());
    PUMICE_CHECK(work_.run(pieces));
    return {};
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
    PUMICE_TRY(result_, Buffer::create(context_.device, bytes, MemoryUse::readback, "tuning result"));
    return finish(copies(saved_, true));
  }
  Status restore() const { return finish(copies(saved_, false)); }
  // Runs launches on the saved contents and returns what they write. Ranges that are only written are filled
  // with NaNs before, because an earlier launch may have left the right numbers there.
  Result<std::vector<float>> results_of(const Plan& launches) const {
    std::vector<WorkPiece> before = copies(saved_, false);
    for (const Range& range : ranges_) {
      if (!range.only_written) continue;
      before.push_back({copy_seconds(range.ref.bytes), [this, ref = range.ref](Commands& commands) {
                          commands.fill(lookup()(ref), ref.offset, ref.bytes, 0xffffffff); // NaNs
                          return Status();
                        }});
    }
    PUMICE_CHECK(run(launches, std::move(before), copies(result_, true)));
    std::vector<float> values(result_.size() / sizeof(float));
    std::memcpy(values.data(), result_.mapped().data(), values.size() * sizeof(float));
    return values;
  }

private:
  VariantWorkspace(const DeviceContext& context, DeviceWork& work, BufferLookup others)
      : context_(context), work_(work), others_(std::move(others)) {}

  struct Range {
    BufferRef ref;
    bool only_written = false;
  };

  double copy_seconds(uint64_t bytes) const { return context_.profile.speed.copy_seconds(bytes); }
  Status finish(const std::vector<WorkPiece>& pieces) const {
    PUMICE_CHECK(work_.run(pieces));
    return {};
  }

  // Copies all ranges to `store`, or back.
  std::vector<WorkPiece> copies(const Buffer& store, bool out) const {
    std::vector<WorkPiece> pieces;
    uint64_t at = 0;
    for (const Range& range : ranges_) {
      pieces.push_back({copy_seconds(range.ref.bytes), [=, this, &store](Commands& commands) {
                          const Buffer& buffer = lookup()(range.ref);
                          const uint64_t offset = range.ref.offset, bytes = range.ref.bytes;
                          if (out) commands.copy(buffer, offset, store, at, bytes);
                          if (!out) commands.copy(store, at, buffer, offset, bytes);
                          return Status();
                        }});
      at += range.ref.bytes;
    }
    return pieces;
  }

  DeviceContext context_;
  DeviceWork& work_;
  BufferLookup others_;
  Buffer scratch_, saved_, result_;
  std::vector<Range> ranges_;
};

// Measures the variants of one choice. `plans` has a plan for each variant, by its name. `go_on` is asked
// between two pieces of work.
class VariantComparison {
public:
  VariantComparison(const DeviceContext& context, const TuneOptions& options, VariantWorkspace& workspace,
                    const std::map<std::string, Plan>& plans, uint32_t choice,
                    const std::function<Status()>& go_on, Trials& trials)
      : context_(context), options_(options), workspace_(workspace), plans_(plans), choice_(choice),
        go_on_(go_on), trials_(trials) {}

  Result<TunedClass> run(const VariantChoice& choice, const std::vector<std::string>& candidates) {
    tuned_.shape_class = choice.shape_class;
    const std::string& plain = plain_ = choice.variants.back();
    PUMICE_CHECK(workspace_.remember(launches_of(plain), plans_.at(plain).tensor_bytes));
    PUMICE_CHECK(trial(plain, [&]() -> Status {
      PUMICE_TRY(expected_, workspace_.results_of(launches_of(plain)));
      return {};
    }));
    for (const std::string& name : candidates) tuned_.variants.push_back({name});
    for (const bool matrices : {false, true}) {
      for (VariantResult& result : tuned_.variants) {
        if (has_matrices(result.variant) == matrices) PUMICE_CHECK(try_out(result));
      }
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

  Status trial(const std::string& name, const std::function<Status()>& work) {
    return trials_.run({tuned_.shape_class, name, name == plain_}, work);
  }

  Status try_out(VariantResult& result) {
    PUMICE_CHECK(go_on_());
    return trial(result.variant, [&]() -> Status {
      PUMICE_CHECK(compile(result.variant, result));
      return result.blocked.empty() ? check(result.variant, result) : Status();
    });
  }

  // A variant with a kernel that the driver cannot compile is blocked.
  Status compile(const std::string& name, VariantResult& result) const {
    for (const PlannedDispatch& planned : launches_of(name).dispatches) {
      const Dispatch& dispatch = planned.dispatch;
      const Result<VkPipeline> pipeline = context_.pipelines->get(dispatch.kernel, dispatch.constants);
      if (pipeline.ok()) continue;
      if (pipeline.error().code == Code::device_lost) return pipeline.error();
      result.blocked = pipeline.error().message;
      result.may_pass = pipeline.error().code == Code::out_of_memory;
    }
    return {};
  }

  // Runs a variant as the plain one was run and compares.
  Status check(const std::string& name, VariantResult& result) {
    const Plan own = launches_of(name);
    result.flops = own.flops();
    result.bytes = own.bytes();
    PUMICE_TRY(const std::vector<float> values, workspace_.results_of(own));
    for (const PlannedDispatch& planned : own.dispatches) {
      result.blocked = difference(expected_, values, tolerance(planned.dispatch.kernel));
      if (result.blocked.empty()) break; // the least exact kernel of the variant decides
    }
    return {};
  }

  // A variant, ready to be timed.
  struct Timed {
    VariantBench bench;
    uint32_t repeats = 1;
    double expected = 0;
    std::vector<double> samples = {};
  };

  Result<Timed> make_timed(const std::string& name) {
    DeviceWork& work = *options_.work;
    PUMICE_TRY(VariantBench bench,
               VariantBench::create(context_, plans_.at(name), choice_, workspace_.lookup()));
    PUMICE_TRY(const double first, bench.run(work, 1, 0)); // may include what the driver does once
    PUMICE_TRY(const double seconds, bench.run(work, 1, first));
    const double sample = std::min(options_.sample_seconds, work.longest_piece());
    const auto repeats =
        static_cast<uint32_t>(std::clamp(sample / std::max(seconds, 1e-7), 1.0, most_repeats));
    PUMICE_CHECK(bench.run(work, repeats, seconds)); // warm-up
    return Timed{std::move(bench), repeats, seconds};
  }

  Status time() {
    std::map<std::string, Timed> all;
    for (const VariantResult& each : tuned_.variants) {
      if (!each.blocked.empty()) continue;
      PUMICE_CHECK(go_on_());
      PUMICE_CHECK(trial(each.variant, [&]() -> Status {
        PUMICE_TRY(Timed timed, make_timed(each.variant));
        all.emplace(each.variant, std::move(timed));
        return {};
      }));
    }
    for (int sample = 0; sample < options_.samples && all.size() > 1; ++sample) {
      for (auto& [name, timed] : all) {
        PUMICE_CHECK(go_on_());
        PUMICE_TRY(const double seconds, timed.bench.run(*options_.work, timed.repeats, timed.expected));
        timed.samples.push_back(seconds);
      }
    }
    for (VariantResult& each : tuned_.variants) {
      const auto timed = all.find(each.variant);
      if (timed == all.end() || timed->second.samples.empty()) continue;
      each.seconds = median(timed->second.samples);
      each.least_seconds = std::ranges::min(timed->second.samples);
    }
    return {};
  }

  const DeviceContext& context_;
  const TuneOptions& options_;
  VariantWorkspace& workspace_;
  const std::map<std::string, Plan>& plans_;
  uint32_t choice_;
  const std::function<Status()>& go_on_;
  Trials& trials_;
  std::string plain_;
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

void Tuning::take(TunedClass tuned) {
  choices[tuned.shape_class] = tuned.winner;
  const std::string begin = tuned.shape_class + ": ";
  for (const VariantResult& each : tuned.variants) {
    const std::string key = blocklist_key(tuned.shape_class, each.variant);
    const auto known = blocklist.find(key);
    if (!each.blocked.empty() && !each.may_pass) {
      blocklist[key] = {begin + each.blocked};
    } else if (each.blocked.empty() && known != blocklist.end() && known->second.reason.starts_with(begin)) {
      blocklist.erase(known); // an earlier driver gave wrong results, this one does not
    }
  }
  classes.push_back(std::move(tuned));
}

Tuner::Tuner(const DeviceContext& context, TuneOptions options)
    : context_(context), options_(std::move(options)), trials_(context, options_.trying) {
  if (!options_.work) options_.work = std::make_shared<DirectWork>(context_.device);
  context_.compiling = {}; // measuring has its own progress
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
  for (const std::string& name : choice.variants) {
    const auto blocked = tuning_.blocklist.find(blocklist_key(choice.shape_class, name));
    const bool tried = blocked == tuning_.blocklist.end() || name == choice.variants.back() ||
                       (options_.everything && !blocked->second.dangerous);
    if (tried) names.push_back(name);
  }
  if (!options_.everything && names.size() > 1 && names.back() == choice.variants.back()) names.pop_back();
  return names;
}

std::vector<uint32_t> Tuner::unknown(const Plan& plan) const {
  std::vector<uint32_t> choices;
  std::set<std::string> seen = measured_;
  seen.insert(options_.known.begin(), options_.known.end());
  for (uint32_t i = 0; i < plan.choices.size(); ++i) {
    const VariantChoice& choice = plan.choices[i];
    if (choice.settled || (!options_.everything && tuning_.choices.contains(choice.shape_class))) continue;
    if (candidates(choice).size() > 1 && seen.insert(choice.shape_class).second) choices.push_back(i);
  }
  return choices;
}

Status Tuner::expect(const PlanMaker& make) {
  PUMICE_TRY(const Plan plan, make(profile()));
  for (uint32_t choice : unknown(plan)) expected_.insert(plan.choices[choice].shape_class);
  return {};
}

bool Tuner::late() const {
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start_;
  return spent.count() > options_.seconds;
}

Status Tuner::go_on() const {
  const bool wanted =
      !options_.progress || options_.progress(measured_.size(), std::max(expected_.size(), measured_.size()));
  if (wanted && !context_.interrupted() && !(options_.strict && late())) return {};
  return Error{Code::cancelled, "measuring was cancelled"};
}

// A plan for each name of a variant is enough: a forced variant is used wherever it can run. Those that
// cannot run the whole plan are left out.
std::map<std::string, Plan> Tuner::forced_plans(const PlanMaker& make, const Plan& current,
                                                const std::vector<uint32_t>& choices) const {
  std::map<std::string, Plan> plans;
  for (uint32_t choice : choices) {
    for (const std::string& name : current.choices[choice].variants) {
      if (plans.contains(name)) continue;
      DeviceProfile forced = profile();
      forced.forced = name;
      forced.repeats = true;
      Result<Plan> plan = make(forced);
      if (plan.ok() && plan->choices.size() == current.choices.size()) plans.emplace(name, *std::move(plan));
    }
  }
  return plans;
}

void Tuner::take(TunedClass tuned) {
  if (options_.measured) options_.measured(tuned);
  tuning_.take(std::move(tuned));
}

void Tuner::announce(const std::vector<std::string>& names) {
  if (matrices_ || !std::ranges::any_of(names, has_matrices)) return;
  matrices_ = true;
  if (options_.before_matrices) options_.before_matrices(tuning_);
}

Status Tuner::measure(const PlanMaker& make, const BufferLookup& lookup) {
  PUMICE_TRY(Plan current, make(profile()));
  const std::vector<uint32_t> choices = unknown(current);
  if (choices.empty()) return {};
  const std::map<std::string, Plan> plans = forced_plans(make, current, choices);
  uint64_t scratch = current.scratch_bytes;
  for (const auto& [name, plan] : plans) scratch = std::max(scratch, plan.scratch_bytes);
  PUMICE_TRY(VariantWorkspace workspace, VariantWorkspace::create(context_, *options_.work, lookup, scratch));
  const std::function<Status()> ask = [this] { return go_on(); };
  // Getting ready takes long with large models.
  if (!options_.strict && measured_.empty()) start_ = std::chrono::steady_clock::now();
  size_t at = 0;
  for (uint32_t number : choices) {
    tuning_.complete = tuning_.complete && !late();
    if (!tuning_.complete) return {};
    PUMICE_CHECK(go_on());
    const VariantChoice choice = current.choices[number];
    measured_.insert(choice.shape_class);
    std::vector<std::string> names = candidates(choice);
    std::erase_if(names, [&](const std::string& name) { return !plans.contains(name); });
    if (names.size() < 2 || !plans.contains(choice.variants.back())) {
      if (!options_.everything) take({choice.shape_class, {}, choice.chosen}); // there is no choice after all
      continue;
    }
    announce(names);
    const size_t here = first_of(current, number);
    Plan before;
    before.dispatches.assign(current.dispatches.begin() + static_cast<ptrdiff_t>(at),
                             current.dispatches.begin() + static_cast<ptrdiff_t>(here));
    PUMICE_CHECK(workspace.run(before));
    VariantComparison comparison(context_, options_, workspace, plans, number, ask, trials_);
    Result<TunedClass> tuned = comparison.run(choice, names);
    if (!tuned.ok() && tuned.error().code == Code::cancelled && options_.strict && late()) {
      tuning_.complete = false;
      return {};
    }
    PUMICE_CHECK(tuned);
    take(*std::move(tuned));
    PUMICE_TRY(current, make(profile())); // continues with the winner
    // A mixture of variants may need more scratch than each variant does: then all begins again with more.
    if (current.scratch_bytes > scratch) return measure(make, lookup);
    at = first_of(current, number);
  }
  return {};
}

} // namespace pumice
