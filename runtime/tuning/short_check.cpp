#include "tuning/short_check.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/guarded.h"
#include "base/low_priority.h"
#include "kernel/probe/probe.h"
#include "step/runner_layout.h"
#include "tuning/check_kernels.h"
#include "tuning/check_record.h"
#include "tuning/small_cases.h"
#include "tuning/trials.h"

namespace pumice {

namespace {

constexpr uint32_t check_repeats = 2;

constexpr uint32_t usual_positions = 1024;

// How long the end of a check in the background is waited for without a word.
constexpr auto moment = std::chrono::milliseconds(300), pause = std::chrono::milliseconds(5);

// As of a usual session. What cannot be planned is told to whoever makes a session.
std::vector<Plan> plans_of(const Model& model, const DeviceProfile& profile) {
  const ModelShape& shape = model.shape();
  std::vector<Plan> plans;
  const auto add = [&](const RunnerOptions& options) {
    Result<RunnerLayout> layout = lay_out_runner(*model.with_profile(profile), options, nullptr);
    if (layout.ok()) std::ranges::move(layout->plans, std::back_inserter(plans));
  };
  RunnerOptions options;
  options.size.context = std::min(shape.context, usual_positions);
  if (shape.encoder) options.size.cache = CacheType::f32; // which EncoderOptions has
  if (shape.has_decoder()) add(options);
  if (!shape.encoder) return plans;
  options.part = ModelPart::encoder;
  options.sampling = false;
  options.size.chunk = std::min(shape.encoder->context, usual_positions);
  if (shape.encoder->of_one_length()) options.size.chunk = shape.encoder->context;
  add(options);
  return plans;
}

class Check {
public:
  Check(const Model& model, const ShortCheckOptions& options, const DeviceContext* device)
      : model_(model), options_(options), context_(device ? *device : model.context()),
        pipelines_(*context_.pipelines), records_(stored_checks(pipelines_, context_.device->capabilities())),
        trials_(context_, {}) {
    context_.compiling = {};
    context_.profile.forced.clear();
  }

  Result<ShortCheck> run() {
    say_known();
    bool again = true;
    // What replaces a variant is tried as well.
    while (again) {
      const std::vector<Plan> plans = plans_of(model_, context_.profile);
      if (!start_) start_ = std::chrono::steady_clock::now(); // something is tried however slow planning is
      PUMICE_TRY(again, try_all(small_cases(plans)));
    }
    if (!left_out_.empty()) {
      check_.warning =
          fmt::format("{}: {}; 'pumice doctor' tries all kernels", device_text(), fmt::join(left_out_, "; "));
    }
    return std::move(check_);
  }

private:
  std::string device_text() const {
    const Capabilities& device = context_.device->capabilities();
    return fmt::format("{} ({} {})", device.name, device.driver, device.driver_version);
  }

  void say_known() {
    std::vector<std::string> texts;
    for (const auto& [key, blocked] : stored_blocklist(pipelines_)) {
      if (blocked.reason.starts_with(short_check_reason)) texts.push_back(blocked_text(key, blocked));
    }
    check_.known = fmt::format("{}", fmt::join(texts, "; "));
  }

  // Whether a variant was put on the blocklist.
  Result<bool> try_all(const std::vector<SmallCase>& cases) {
    bool blocked = false;
    uint64_t reached = 0;
    const auto tell = [&](uint64_t done) {
      return !options_.progress || options_.progress(done, cases.size());
    };
    for (const SmallCase& each : cases) {
      const uint64_t before = reached++;
      const auto record = records_.find(each.key());
      if (record != records_.end() && record->second.wrong.empty()) continue;
      if (record != records_.end() && each.plain) return useless(each, record->second);
      if (is_blocked(each)) continue; // by a case before
      if (ends() || is_late()) {
        check_.complete = false;
        break;
      }
      if (context_.interrupted() || (options_.go_on && !options_.go_on()) || !tell(before))
        return Error{Code::cancelled, "the short check of the kernels was cancelled"};
      PUMICE_CHECK(try_one(each));
      blocked = is_blocked(each);
      if (blocked) break; // the cases after it would use it and be found wrong themselves
    }
    if (check_.cases > 0) (void)tell(cases.size());
    if (blocked) context_.profile = with_tuning_results(context_.profile, pipelines_);
    return blocked;
  }

  bool is_blocked(const SmallCase& each) const {
    return blocklist_.contains(blocklist_key(each.cases[0].family, each.variant));
  }

  double spent() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - *start_).count();
  }
  bool is_late() const { return spent() + longest_ >= options_.seconds; }
  bool ends() const { return options_.ends && (*options_.ends || context_.interrupted()); }

  Status try_one(const SmallCase& each) {
    const double before = spent();
    std::optional<CaseResult> result;
    const std::string& family = each.cases[0].family;
    const Trial trial{fmt::format("{} {}", family, each.cases[0].name), each.variant, each.plain};
    const Status status = trials_.run(trial, [&]() -> Status {
      for (const KernelCaseName& name : each.cases) {
        PUMICE_TRY(result, check_kernels(context_, name, each.variant, check_repeats, options_.threads,
                                         options_.go_on));
        if (result) break;
      }
      return {};
    });
    longest_ = std::max(longest_, spent() - before);
    const bool lost = !status.ok() && status.error().code == Code::device_lost;
    const bool cancelled = !status.ok() && status.error().code == Code::cancelled && !ends();
    if (lost || cancelled) return status;
    // Memory is short, the case is too small for the variant, it was left for later, or a call failed that
    // nothing can replace: that is told where it matters.
    if (!status.ok() || !result || (result->failed && each.plain)) {
      check_.complete = false;
      return {};
    }
    ++check_.cases;
    return keep(each, *result);
  }

  // Kept at once: the next case may end the process.
  Status keep(const SmallCase& each, const CaseResult& result) {
    const std::string wrong =
        result.wrong.empty() ? "" : fmt::format("kernel {}: {}", result.kernel, result.wrong);
    const Capabilities& device = context_.device->capabilities();
    store_check(pipelines_, device, each.key(), wrong);
    records_ = stored_checks(pipelines_, device);
    if (wrong.empty()) return {};
    if (!each.plain) {
      const std::string key = blocklist_key(each.cases[0].family, each.variant);
      const Blocked blocked{fmt::format("{}{}: {}", short_check_reason, each.cases[0].name, wrong)};
      store_choices(pipelines_, {}, {{key, blocked}}, {});
      blocklist_[key] = blocked;
      left_out_.push_back(blocked_text(key, blocked));
    }
    (void)pipelines_.save(); // who cannot save finds it again with the next model
    return each.plain ? useless(each, records_.at(each.key())) : Status();
  }

  Error useless(const SmallCase& each, const CheckRecord& record) const {
    return {Code::unsupported,
            fmt::format("{}: with this driver a kernel is wrong that nothing can replace, so texts would be "
                        "wrong ({}, {}; checked on {}): use another version of the driver or another device; "
                        "'pumice doctor' tries all kernels",
                        device_text(), each.key(), record.wrong, record.date)};
  }

  const Model& model_;
  const ShortCheckOptions& options_;
  DeviceContext context_;
  Pipelines& pipelines_;
  CheckRecords records_;
  Trials trials_;
  ShortCheck check_;
  Blocklist blocklist_; // what was put there now
  std::vector<std::string> left_out_;
  std::optional<std::chrono::steady_clock::time_point> start_;
  double longest_ = 0; // seconds of a case
};

} // namespace

Result<ShortCheck> short_check(const Model& model, const ShortCheckOptions& options,
                               const DeviceContext* device) {
  const auto start = std::chrono::steady_clock::now();
  PUMICE_TRY(ShortCheck check, Check(model, options, device).run());
  check.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return check;
}

Result<std::shared_ptr<const Model>> checked_model(const std::shared_ptr<const Model>& model,
                                                   const ShortCheckOptions& options,
                                                   const std::string& how_to_go_on,
                                                   const std::function<void(const ShortCheck&)>& tell) {
  const DeviceContext& context = model->context();
  const Result<ShortCheck> check = short_check(*model, options);
  if (!check.ok()) {
    Error error = check.error();
    if (error.code == Code::unsupported) error.message += "; " + how_to_go_on;
    return error;
  }
  tell(*check);
  return model->with_profile(with_tuning_results(context.profile, *context.pipelines));
}

BackgroundCheck::BackgroundCheck(std::shared_ptr<const Model> model,
                                 std::function<Result<DeviceContext>()> open)
    : model_(std::move(model)), thread_([this, open = std::move(open)] {
        found_ = guarded([&] { return check(open); });
        ended_ = true;
      }) {}

Result<ShortCheck> BackgroundCheck::check(const std::function<Result<DeviceContext>()>& open) {
  lower_priority(); // and that of the driver's threads, which it starts
  if (ends_) return ShortCheck();
  Result<DeviceContext> opened = open();
  if (!opened.ok()) return ShortCheck(); // the next start tries again
  const DeviceContext& known = model_->context();
  opened->profile = known.profile;
  opened->pipelines->add_tuning_results(known.pipelines->tuning_results());
  ShortCheckOptions options;
  options.seconds = std::numeric_limits<double>::max();
  options.threads = 1;
  options.ends = &ends_;
  Result<ShortCheck> found = short_check(*model_, options, &*opened);
  (void)opened->pipelines->save(); // who cannot save checks them again
  known.pipelines->add_tuning_results(opened->pipelines->tuning_results());
  return found;
}

BackgroundCheck::~BackgroundCheck() {
  (void)finish({});
}

Result<ShortCheck> BackgroundCheck::finish(const std::function<void()>& waits) {
  if (!thread_.joinable()) return ShortCheck();
  ends_ = true;
  const auto start = std::chrono::steady_clock::now();
  while (!ended_ && std::chrono::steady_clock::now() - start < moment) std::this_thread::sleep_for(pause);
  if (!ended_ && waits) waits();
  thread_.join();
  return std::move(found_);
}

} // namespace pumice
