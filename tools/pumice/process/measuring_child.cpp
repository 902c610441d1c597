#include "process/measuring_child.h"

#include <limits>
#include <optional>

#include <fmt/format.h>

#include "base/guarded.h"
#include "gpu/cache_folder/trial_note.h"
#include "kernel/probe/open_device.h"
#include "kernel/probe/probe.h"
#include "output/json_output.h"
#include "process/child_process.h"
#include "tuning/measured_speed.h"

namespace pumice::command {

namespace {

constexpr double silence_when_late = 5;

// ---- what goes through the pipes: a JSON object a line ----

Json to_message(const TunedClass& tuned) {
  Json variants = Json::array();
  for (const VariantResult& each : tuned.variants) {
    variants.push_back({each.variant, each.seconds, each.least_seconds, each.flops, each.bytes, each.blocked,
                        each.may_pass, each.not_taken});
  }
  return {{"class", tuned.shape_class}, {"winner", tuned.winner}, {"variants", std::move(variants)}};
}

TunedClass tuned_class(const Json& message) {
  TunedClass tuned;
  tuned.shape_class = message["class"];
  tuned.winner = message["winner"];
  for (const Json& each : message["variants"]) {
    tuned.variants.push_back({each[0], each[1], each[2], each[3], each[4], each[5], each[6], each[7]});
  }
  return tuned;
}

std::string line_of(const Json& message) {
  return message.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// `visit` gets the name and the value of each optional number.
template <class Change, class Visit>
void visit_numbers(Change& change, const Visit& visit) {
  visit("base", change.base);
  visit("factor", change.factor);
  visit("original_context", change.original_context);
  visit("beta_fast", change.beta_fast);
  visit("beta_slow", change.beta_slow);
  visit("attention_factor", change.attention_factor);
}

Json to_json(const RotaryChange& change) {
  Json json = {{"scaling", change.scaling}};
  visit_numbers(change, [&](const char* name, const auto& value) {
    if (value) json[name] = *value;
  });
  return json;
}

RotaryChange rotary_change(const Json& json) {
  RotaryChange change;
  change.scaling = json["scaling"];
  visit_numbers(change, [&](const char* name, auto& value) {
    if (json.contains(name)) json[name].get_to(value.emplace());
  });
  return change;
}

// `results`: all that the child is to know of the device.
Json to_request(const OpenedDevice& device, const MeasuringTask& what, const TuningResults& results) {
  Json request;
  request["device"] = device.options.device;
  request["loader"] = device.options.loader;
  request["cache"] = path_text(device.cache);
  request["results"] = results;
  request["model"] = what.model;
  if (what.load.weights) request["weights"] = static_cast<int>(*what.load.weights);
  request["experts"] = static_cast<int>(what.load.experts);
  request["device_layers"] = what.load.device_layers;
  request["settings"] = what.load.settings.values;
  request["rotary"] = to_json(what.load.settings.rotary);
  const TuneOptions& how = what.how;
  request["everything"] = how.everything;
  request["seconds"] = how.seconds;
  request["samples"] = how.samples;
  request["sample_seconds"] = how.sample_seconds;
  request["context"] = how.context;
  request["chunk"] = how.chunk;
  request["kv"] = static_cast<int>(how.cache);
  request["known"] = how.known;
  return request;
}

TuneOptions tune_options(const Json& request) {
  TuneOptions how;
  how.everything = request["everything"];
  how.seconds = request["seconds"];
  how.samples = request["samples"];
  how.sample_seconds = request["sample_seconds"];
  how.context = request["context"];
  how.chunk = request["chunk"];
  how.cache = static_cast<CacheType>(request["kv"].get<int>());
  how.known = request["known"].get<std::set<std::string>>();
  return how;
}

// ---- the child ----

Result<DeviceContext> open_in_child(const Json& request) {
  DeviceOptions options;
  options.device = request["device"];
  options.loader = request["loader"];
  PUMICE_TRY(std::shared_ptr<Instance> instance, create_instance(options));
  PUMICE_TRY(Capabilities chosen, instance->choose(options.device));
  PUMICE_TRY(DeviceContext context,
             pumice::open_device(std::move(instance), chosen, request["cache"].get<std::string>()));
  const TuningResults results = request["results"];
  std::set<std::string> gone;
  for (const auto& [name, value] : context.pipelines->tuning_results()) gone.insert(name);
  context.pipelines->change_tuning_results(results, gone);
  context.profile = with_tuning_results(std::move(context.profile), *context.pipelines);
  return context;
}

Status measure_as_asked(const ParentProcess& parent) {
  const Json request = Json::parse(parent.request());
  PUMICE_TRY(DeviceContext context, open_in_child(request));
  LoadOptions load;
  if (request.contains("weights")) load.weights = static_cast<TensorType>(request["weights"].get<int>());
  load.experts = static_cast<ExpertPlacement>(request["experts"].get<int>());
  load.device_layers = request["device_layers"];
  load.settings.values = request["settings"].get<std::vector<std::string>>();
  load.settings.rotary = rotary_change(request["rotary"]);
  PUMICE_TRY(const std::shared_ptr<const Model> model,
             Model::load(path_of(request["model"].get<std::string>()), context, {}, load));
  TuneOptions how = tune_options(request);
  how.trying = [&](const Trial* trial) {
    parent.say(line_of(trial ? Json{{"trying", {trial->shape_class, trial->variant, trial->needed}}}
                             : Json{{"tried", true}}));
  };
  how.measured = [&](const TunedClass& tuned) { parent.say(line_of(to_message(tuned))); };
  how.progress = [&](uint64_t done, uint64_t total) {
    parent.say(line_of({{"progress", {done, total}}}));
    return true;
  };
  PUMICE_TRY(const Tuning tuning, tune_model(model, how));
  parent.say(line_of({{"complete", tuning.complete}}));
  return {};
}

// ---- the parent ----

class Measuring {
public:
  Measuring(const OpenedDevice& device, const MeasuringTask& what) : device_(device), what_(what) {
    if (device.capabilities().is_cpu()) longest_silence_ = cpu_patience;
    const DeviceProfile& profile = device.context.profile;
    if (profile.choices) tuning_.choices = *profile.choices;
    if (profile.blocklist) tuning_.blocklist = *profile.blocklist;
    results_ = device.context.pipelines->tuning_results();
    // Whoever asks for everything wants to know whether it still crashes.
    if (!what.how.everything) return;
    for (const auto& [key, blocked] : Blocklist(tuning_.blocklist)) {
      if (!blocked.dangerous) continue;
      tuning_.blocklist.erase(key);
      results_.erase(dangerous_result(key));
    }
  }

  Result<Tuning> run() {
    for (bool again = true; again;) {
      if (late() && blocked_ > 0) break;
      PUMICE_TRY(again, run_child());
    }
    tuning_.speed = measured_speed(tuning_.classes, device_.context.profile.speed);
    return std::move(tuning_);
  }

private:
  // Whether another child is to go on.
  Result<bool> run_child() {
    PUMICE_TRY(ChildProcess child, ChildProcess::start(measuring_argument));
    MeasuringTask rest = what_;
    rest.how.seconds = std::max(0.0, what_.how.seconds - spent_);
    child.say(line_of(to_request(device_, rest, results_)));
    tuning_.complete = false;
    lost_ = false;
    trying_.reset();
    measuring_.reset();
    const ChildProcess::Heard heard = listen(child);
    if (measuring_) spent_ += measuring_->seconds();
    if (error_) return *error_;
    if (heard == ChildProcess::Heard::line) return lost_;
    if (heard == ChildProcess::Heard::end) return explain(child.end());
    child.kill();
    if (heard == ChildProcess::Heard::interrupt) forget();
    return heard == ChildProcess::Heard::silence && explain_silence();
  }

  // Hears the child out. Line: it has said all.
  ChildProcess::Heard listen(ChildProcess& child) {
    std::string line;
    for (;;) {
      patience_ = patience();
      const ChildProcess::Heard heard = child.listen(line, patience_);
      if (heard != ChildProcess::Heard::line) return heard;
      if (take(Json::parse(line))) return heard;
    }
  }

  // Loading a large model takes its time; after that, something is to be heard from time to time.
  double patience() const {
    if (!measuring_) return std::numeric_limits<double>::max();
    if (!what_.ends_in_time) return longest_silence_;
    const double left = what_.how.seconds - spent_ - measuring_->seconds();
    return std::min(longest_silence_, std::max(left, 0.0) + silence_when_late);
  }
  bool late() const { return spent_ >= what_.how.seconds; }

  // Takes what the child said. True: it was the last.
  bool take(const Json& message) {
    if (!measuring_) measuring_.emplace();
    if (message.contains("trying")) {
      const Json& trying = message["trying"];
      trying_ = Trial{trying[0], trying[1], trying[2]};
    }
    if (message.contains("tried")) trying_.reset();
    if (message.contains("progress")) (void)bar_.update(message["progress"][0], message["progress"][1]);
    if (message.contains("class")) {
      what_.how.known.insert(message["class"].get<std::string>());
      tuning_.take(tuned_class(message));
    }
    if (message.contains("complete")) tuning_.complete = message["complete"];
    if (message.contains("error")) {
      error_ = Error{static_cast<Code>(message["code"].get<int>()), message["error"]};
      if (error_->code == Code::device_lost && can_block()) {
        block("the device was lost while this kernel was tried: " + error_->message);
        error_.reset();
        lost_ = true;
      }
    }
    return message.contains("complete") || message.contains("error");
  }

  bool explain(const ChildProcess::End& end) {
    if (can_block() && end.crashed()) {
      block(fmt::format("the driver crashed ({}) while this kernel was tried", end.text()));
      return true;
    }
    forget();
    say(fmt::format("measuring kernels ended early ({}){}: what was not measured is chosen without it",
                    end.text(), trying_ ? " while " + name_of(*trying_) + " was tried" : std::string()));
    return false;
  }

  bool explain_silence() {
    const std::string what = trying_ ? name_of(*trying_) : "the device";
    if (can_block() && patience_ >= longest_silence_) {
      block(fmt::format("this kernel was tried for {:g} s without an end", longest_silence_));
      return true;
    }
    forget();
    say(fmt::format("the time for measuring was up while {} did not answer", what));
    return false;
  }

  void say(const std::string& note) {
    bar_.erase();
    print_note(note);
  }
  static std::string name_of(const Trial& trial) {
    return fmt::format("the kernel variant '{}' ({})", blocklist_key(trial.shape_class, trial.variant),
                       trial.shape_class);
  }

  bool can_block() const { return trying_ && !trying_->needed; }
  // Stored at once: the next thing may end this process too.
  void block(const std::string& reason) {
    const std::string key = blocklist_key(trying_->shape_class, trying_->variant);
    const Blocked blocked = {trying_->shape_class + ": " + reason, true};
    tuning_.blocklist[key] = blocked;
    results_[dangerous_result(key)] = blocked.reason;
    ++blocked_;
    say(fmt::format("{} ({}): {}", device_.name(), device_.driver(), blocked_text(key, blocked)));
    Pipelines& pipelines = *device_.context.pipelines;
    store_choices(pipelines, {}, {{key, blocked}}, {});
    (void)pipelines.save();
    forget();
  }
  // The child's note.
  void forget() {
    if (!trying_) return;
    forget_notes(device_.context.pipelines->file(),
                 dangerous_result(blocklist_key(trying_->shape_class, trying_->variant)));
  }

  const OpenedDevice& device_;
  MeasuringTask what_;
  Tuning tuning_;
  TuningResults results_; // that children know
  double spent_ = 0;      // seconds of measuring, by children that have ended
  int blocked_ = 0;       // variants
  std::optional<Trial> trying_;
  std::optional<Stopwatch> measuring_;      // none while the child loads the model
  std::optional<Error> error_;              // the child's
  bool lost_ = false;                       // the child lost the device, and has ended
  double longest_silence_ = usual_patience; // of a child that tries something, seconds: compilers may be slow
  double patience_ = 0;                     // of the last wait, seconds
  ProgressBar bar_{"measuring the device"};
};

} // namespace

int measure_as_child() {
  const ParentProcess parent;
  set_verbosity(Verbosity::quiet);
  const Status status = guarded([&] { return measure_as_asked(parent); });
  if (status.ok()) return 0;
  parent.say(line_of({{"error", status.error().text()}, {"code", static_cast<int>(status.error().code)}}));
  return 1;
}

Result<Tuning> measure_in_child(const OpenedDevice& device, const MeasuringTask& task) {
  const std::string& path = task.model;
  // What a pipe brings cannot be read twice, and the child's validation messages would be lost.
  if (device.options.validate || path.starts_with("/dev/") || path.starts_with("/proc/")) {
    return Error{Code::unsupported, "this is not measured in a child process"};
  }
  return Measuring(device, task).run();
}

} // namespace pumice::command
